"""What keeps a lake fast: merge, rewrite, expire, clean up, orphans, and the doctor for what is broken. No Spark."""
