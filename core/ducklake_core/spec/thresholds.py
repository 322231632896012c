"""Where one way to a result hands over to another that gives the same: each number, and why it is that. Pure.

Only speed depends on them. Whether rows are inlined or written to a file is another matter, and an option.
"""

from __future__ import annotations

# A kernel of Arrow takes 5 to 10 µs to start, and several times as long when the processor has not run it lately, as
# between two small commits; ten rows would start more than a hundred. Up to so many rows Python is done before
# (docs/adr/0002-arrays-or-copy.md). Above: `spec.text`, `plan.inlined_rows` and the encoders of the databases; up to
# it their twins, which work on what `spec.small_rows` takes out of the arrays.
SMALL_ROWS = 128

# Of small rows: from here on Arrow, which writes a whole column at once, is faster than Python at the texts of floats
# and timestamps. Up to it `spec.small_text` writes each value.
PYTHON_TEXTS = 20

# Texts of nested values that Python parses one by one before the kernels of `spec.nested_vectorized` have started, for
# the reason that SMALL_ROWS has.
PARSED_TEXTS = 64

# Rows whose texts Arrow checks for UTF-8 one by one as quickly as anyone looks at all their bytes.
CHECKED_TEXT_ROWS = 1000

# Inlined rows that PostgreSQL takes as one array. It saves two answers that a network makes us wait for; on loopback
# the two ways differ by no more than two runs of one up to 200 rows, and from 400 on a COPY is faster, with 3,000 rows
# by 30 % (the table in docs/adr/0002-arrays-or-copy.md).
ROW_ARRAY_ROWS = 100

# A PostgreSQL table of inlined rows that has fewer pages is read at once by a COPY, which takes fewer round trips; more
# are read by pages (docs/adr/0007-rows-read-by-pages.md).
MIN_PAGES = 32
