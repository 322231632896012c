"""What an operator asks of a lake, as rows that a terminal and a page show alike. Light to import; no Spark."""
