"""Puts the jars of inputs and object stores among Spark's own. Runs while the image is built."""

import shutil
from pathlib import Path

import pyspark

from ducklake_streaming.demo.maven import KAFKA_CONNECTOR, S3_CONNECTOR, cache_folder, fetch_files

SETS = (KAFKA_CONNECTOR, S3_CONNECTOR)


def main() -> None:
    """Copy those that Spark lacks; two versions of one would be a matter of luck."""
    folder = Path(pyspark.__file__).parent / "jars"
    for name in SETS:
        for jar in fetch_files(name):
            shutil.copyfile(jar, folder / jar.name)
    shutil.rmtree(cache_folder())


if __name__ == "__main__":
    main()
