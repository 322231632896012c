"""The image's files: the Dockerfile by hadolint, what a container becomes, and what it is made of. Nothing is built."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.docker import entrypoint, sbom
from ducklake_streaming.demo.maven import KAFKA_CONNECTOR, S3_CONNECTOR, read_pins
from tests.fixtures.chart import ROOT

DOCKERFILE = ROOT / "deploy" / "docker" / "Dockerfile"
TEXT = DOCKERFILE.read_text()
EXECUTOR = {
    "SPARK_HOME": "/opt/spark",
    "JAVA_HOME": "/java",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "1024m",
    "SPARK_APPLICATION_ID": "app",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.7",
    "SPARK_EXECUTOR_POD_NAME": "orders-exec-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    **{f"SPARK_JAVA_OPT_{number}": f"-D{number}" for number in (10, 0, 2)},
}


def test_the_dockerfile_has_no_fault_that_hadolint_knows() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([str(hadolint), "--no-color", str(DOCKERFILE)], check=False, capture_output=True, text=True)

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_base_and_packages_are_pinned() -> None:
    assert re.search(r"^ARG BASE_IMAGE=debian:\w+-\d{8}-slim$", TEXT, re.MULTILINE)
    packages = re.findall(r"^ {8}([a-z][a-z0-9-]+)(\S*) \\$", TEXT, re.MULTILINE)
    assert [name for name, version in packages if not version.startswith("=")] == []
    assert "PIP_CONSTRAINT=/src/constraints.txt" in TEXT


def test_the_image_runs_as_another_user_without_a_shell() -> None:
    last = TEXT[TEXT.index("AS image") :]

    assert "\nUSER 10001:10001\n" in last
    entry = re.search(r"^ENTRYPOINT (.*)$", last, re.MULTILINE)
    assert entry is not None
    assert json.loads(entry[1])[:2] == ["/usr/bin/tini", "--"]
    assert not re.search(r"(?i)(password|token|secret)", TEXT)


def test_the_image_takes_only_what_the_wheel_is_made_of() -> None:
    ignored = (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text().splitlines()

    assert ignored[1] == "*"
    kept = [line.removeprefix("!") for line in ignored if line.startswith("!")]
    assert [name for name in kept if not list(ROOT.glob(name))] == []
    assert not {".git", "tests", "demo-lake"} & set(kept)


def test_a_container_is_our_command() -> None:
    assert entrypoint.command_of(["run", "job.toml"], {}) == [entrypoint.COMMAND, "run", "job.toml"]


def test_a_container_of_spark_is_its_driver() -> None:
    environment = {"SPARK_HOME": "/opt/spark", "SPARK_DRIVER_BIND_ADDRESS": "10.0.0.7"}

    command = entrypoint.command_of(
        ["driver", "--properties-file", "p", "local:///opt/ducklake/run_job.py"], environment
    )

    assert command[0] == "/opt/spark/bin/spark-submit"
    assert "spark.driver.bindAddress=10.0.0.7" in command
    assert command[-5:] == ["--deploy-mode", "client", "--properties-file", "p", "local:///opt/ducklake/run_job.py"]


def test_a_container_of_spark_is_its_executor() -> None:
    command = entrypoint.command_of(["executor"], EXECUTOR)

    assert command[:6] == ["/java/bin/java", "-D0", "-D2", "-D10", "-Xms1024m", "-Xmx1024m"]
    assert command[6:9] == ["-cp", "/opt/spark/jars/*", entrypoint.BACKEND]
    told = dict(zip(command[9::2], command[10::2], strict=True))
    assert told["--driver-url"] == EXECUTOR["SPARK_DRIVER_URL"]
    assert told["--podName"] == "orders-exec-1"


def test_settings_of_an_executor_come_before_its_jars() -> None:
    command = entrypoint.command_of(["executor"], {**EXECUTOR, "SPARK_CONF_DIR": "/opt/spark/conf"})

    assert "/opt/spark/conf:/opt/spark/jars/*" in command


@pytest.mark.parametrize("name", [KAFKA_CONNECTOR, S3_CONNECTOR])
def test_jars_of_the_image_have_checksums(name: str) -> None:
    pins = read_pins(name)

    assert pins
    assert all(re.fullmatch(r"[0-9a-f]{64}", checksum) for checksum in pins.values())


def test_s3_is_of_the_hadoop_that_spark_has() -> None:
    """Another version of hadoop-aws fails in the middle of a run, by a method that is not there."""
    import pyspark  # noqa: PLC0415 # where its jars are

    (client,) = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    assert f"org/apache/hadoop/hadoop-aws/{version}/hadoop-aws-{version}.jar" in read_pins(S3_CONNECTOR)


def test_the_bill_names_packages_of_python_and_jars(tmp_path: Path) -> None:
    folder = tmp_path / "lib" / "python3.11" / "site-packages"
    (folder / "Some_Thing-1.2.dist-info").mkdir(parents=True)
    (folder / "Some_Thing-1.2.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: Some_Thing\nVersion: 1.2\n"
    )
    (folder / "spark-sql-kafka-0-10_2.13-4.2.0.jar").write_bytes(b"x")

    found = {one["purl"]: one for one in (*sbom.python_packages(tmp_path), *sbom.jars(tmp_path))}

    assert "pkg:pypi/some-thing@1.2" in found
    (jar,) = (one for one in found.values() if one["name"] == "spark-sql-kafka-0-10_2.13")
    assert (jar["version"], jar["hashes"][0]["content"][:8]) == ("4.2.0", "2d711642")
