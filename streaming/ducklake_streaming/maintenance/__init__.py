"""What runs the maintenance of a lake: all operations in order, in the process or by Spark's executors."""
