"""What `spark-submit` is given: it runs a job file as `ducklake-stream` does, in the driver that Spark has started.

spark-submit … run_job.py run job.toml
"""

import sys

from ducklake_streaming.cli import main

if __name__ == "__main__":
    sys.exit(main())
