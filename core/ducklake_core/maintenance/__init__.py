"""What keeps a lake fast: merge, rewrite, expire, clean up, orphans, and the doctor that finds what is broken."""
