"""The image, really built and run: another user, a read-only root, its jars, how it stops: `make test-image`."""

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from ducklake_core import Lake
from ducklake_streaming.demo.local_postgres import HOST, free_port
from ducklake_streaming.demo.maven import KAFKA_CONNECTOR, S3_CONNECTOR, read_pins
from ducklake_streaming.demo.run import LARGE_ROWS
from tests.fixtures.image import Image, built_image, make_state
from tests.fixtures.s3 import S3Bucket, environment
from tests.fixtures.waiting import wait_until

LARGEST_BYTES = 1_700_000_000  # what is larger was not meant to be
JOB = """
[catalog]
url = "sqlite:///lake.sqlite"
data_path = "data/"
[spark]
master = "local[2]"
settings = {{ "spark.ui.enabled" = "false", "spark.sql.shuffle.partitions" = "2" }}
[pipeline.numbers]
checkpoint = "checkpoints/numbers"
{trigger}
[pipeline.numbers.input]
{source}
[pipeline.numbers.sink]
table = "main.numbers"
"""
IDS = "".join(f'{{"id": {number}}}\n' for number in range(50))
FILES = 'kind = "files"\npath = "incoming/"\nformat = "json"\nschema = "id bigint"'

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(
        "TEST_IMAGE" not in os.environ, reason="'make test-image' runs it: it builds the container image"
    ),
]


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    with built_image() as built:
        yield built


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return make_state(tmp_path / "state")


def test_the_image_is_no_larger_than_it_should_be(image: Image) -> None:
    assert image.size_bytes < LARGEST_BYTES


def test_the_image_says_what_it_is_and_runs_as_another_user(image: Image) -> None:
    labels = image.config["Labels"]

    assert labels["org.opencontainers.image.title"] == "ducklake-stream"
    assert len(labels["org.opencontainers.image.revision"]) == 40
    assert image.config["User"] == "10001:10001"
    assert image.config["ExposedPorts"] == {"9464/tcp": {}}


def test_the_bill_names_what_is_in_it(image: Image) -> None:
    bill = json.loads((image.files / "opt/ducklake/sbom.cdx.json").read_text())

    found = {one["purl"].partition("@")[0] for one in bill["components"]}
    assert {"pkg:deb/debian/tini", "pkg:pypi/pyspark", "pkg:pypi/ducklake-streaming"} <= found
    assert {"pkg:generic/hadoop-aws", "pkg:generic/kafka-clients"} <= found


def test_nothing_gives_more_rights_and_no_jar_is_there_twice(image: Image) -> None:
    found = subprocess.run(
        ["/usr/bin/find", str(image.files), "-xdev", "-type", "f", "-perm", "/6000"], check=True, capture_output=True
    )
    assert found.stdout == b""
    bill = json.loads((image.files / "opt/ducklake/sbom.cdx.json").read_text())
    jars = [one["name"] for one in bill["components"] if one["purl"].startswith("pkg:generic/")]
    ours = {Path(path).parent.parent.name for name in (KAFKA_CONNECTOR, S3_CONNECTOR) for path in read_pins(name)}
    assert {name: jars.count(name) for name in ours} == dict.fromkeys(ours, 1)


def test_its_root_cannot_be_written_to(image: Image, state: Path) -> None:
    write = "import pathlib; pathlib.Path('/opt/ducklake/x').touch()"
    command = image.command(state)
    command = [*command[: command.index("/opt/ducklake/entrypoint.py")], "-c", write]

    told = subprocess.run(command, check=False, capture_output=True, text=True)

    assert "Read-only file system" in told.stderr


def test_the_demo_streams_into_a_lake(image: Image, state: Path) -> None:
    told = image.run(state, "demo", "--seconds", "3")

    assert (told.returncode, told.stderr) == (0, "")
    with Lake.open(f"sqlite:///{state}/demo-lake/catalog.sqlite", override_data_path=True) as lake:
        assert lake.table("main.readings").count() > LARGE_ROWS


def test_a_job_reads_files_and_ends(image: Image, state: Path) -> None:
    (state / "incoming").mkdir()
    (state / "incoming" / "a.json").write_text(IDS)
    (state / "job.toml").write_text(JOB.format(trigger='trigger = "available now"', source=FILES))

    told = image.run(state, "run", "job.toml", SPARK_DRIVER_MEMORY="512m")

    assert told.returncode == 0, told.stderr
    with Lake.open(f"sqlite:///{state}/lake.sqlite", data_path=f"{state}/data/", override_data_path=True) as lake:
        assert lake.table("main.numbers").count() == 50


def test_a_job_keeps_files_and_checkpoint_on_s3(image: Image, state: Path, s3: S3Bucket) -> None:
    (state / "incoming").mkdir()
    (state / "incoming" / "a.json").write_text(IDS)
    job = JOB.format(trigger='trigger = "available now"', source=FILES)
    job = job.replace("data/", s3.url).replace("checkpoints/numbers", f"s3://{s3.name}/{s3.folder}/checkpoint")
    (state / "job.toml").write_text(job)

    told = image.run(state, "run", "job.toml", SPARK_DRIVER_MEMORY="512m", **environment(s3.proxy))

    assert told.returncode == 0, told.stderr
    with Lake.open(f"sqlite:///{state}/lake.sqlite") as lake:
        assert lake.table("main.numbers").count() == 50
    assert [key for key in s3.objects() if key.startswith("checkpoint/commits/")]


def test_check_finds_the_connector_in_the_image(image: Image, state: Path) -> None:
    source = f'kind = "kafka"\nservers = "{HOST}:1"\ntopics = ["t"]\nschema = "id bigint"'
    (state / "job.toml").write_text(JOB.format(trigger="", source=source))

    told = image.run(state, "check", "job.toml")

    assert "in Spark's own folder" in told.stdout
    assert "numbers: checkpoint: /var/lib/ducklake/checkpoints/numbers may be written to" in told.stdout


def test_sigterm_ends_a_job_after_its_batch(image: Image, state: Path) -> None:
    port = free_port()
    (state / "job.toml").write_text(JOB.format(trigger="", source='kind = "rate"'))
    command = image.command(state, "run", "job.toml", "--metrics", f"{HOST}:{port}", SPARK_DRIVER_MEMORY="512m")
    with (state / "log").open("w") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            wait_until(lambda: _answers(port, "readyz"), lambda: _end_of(state / "log"))
            wait_until(lambda: "batch_committed" in (state / "log").read_text(), lambda: _end_of(state / "log"))
            os.kill(_tini(process.pid), signal.SIGTERM)
            wait_until(lambda: process.poll() is not None, lambda: _end_of(state / "log"))
        finally:
            process.kill()  # else a failure would wait for the job, which does not end by itself

    assert process.returncode == 0
    assert "job_ended" in (state / "log").read_text()


def _end_of(log: Path) -> str:
    return log.read_text()[-3000:]


def _answers(port: int, path: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{HOST}:{port}/{path}", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _tini(unshare: int) -> int:
    """Return the process of tini, the first in the container."""
    return int(Path(f"/proc/{unshare}/task/{unshare}/children").read_text().split()[0])
