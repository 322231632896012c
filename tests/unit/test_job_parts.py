"""Parts of a job that need no Spark: the gate of batches, how long a query may begin again, settings of the session."""

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyspark
import pytest

from ducklake_core.errors import InvalidInput
from ducklake_core.observe import CatalogAway, CatalogBack
from ducklake_streaming.jobs.batch_gate import BatchGate, GateClosed
from ducklake_streaming.jobs.connector import check_connector
from ducklake_streaming.jobs.job_session import has_local_checkpoints, spark_settings
from ducklake_streaming.jobs.second_reads import SecondReads
from ducklake_streaming.jobs.settings import Job
from ducklake_streaming.jobs.supervisor import RestartBudget


def job(checkpoint: str = "/c", kind: str = "kafka", **spark: object) -> Job:
    inputs = {"kafka": {"kind": "kafka", "servers": "b:1", "topics": ["t"], "format": "raw"}, "rate": {"kind": "rate"}}
    pipeline = {"checkpoint": checkpoint, "input": inputs[kind], "sink": {"table": "t"}}
    return Job.parse({"catalog": {"url": "sqlite:///x"}, "spark": spark, "pipeline": {"p": pipeline}})


# ---- the gate


def test_closing_the_gate_waits_for_the_batch_within_and_lets_no_other_in() -> None:
    gate, may_end, is_in = BatchGate(), threading.Event(), threading.Event()

    def batch() -> None:
        with gate.batch():
            is_in.set()
            may_end.wait()

    threading.Thread(target=batch).start()
    is_in.wait()
    closing = threading.Thread(target=gate.close, args=(lambda: True,))
    closing.start()
    closing.join(0.3)
    was_waiting = closing.is_alive()
    may_end.set()
    closing.join()

    assert was_waiting
    assert gate.batches == 1
    with pytest.raises(GateClosed), gate.batch():
        pass


def test_the_gate_waits_for_no_batch_whose_catalog_is_away() -> None:
    gate, may_end, is_in = BatchGate(), threading.Event(), threading.Event()

    def batch() -> None:
        with gate.batch():
            is_in.set()
            may_end.wait()

    thread = threading.Thread(target=batch)
    thread.start()
    is_in.wait()
    gate.record(CatalogAway("c", 1, 0.0, 120.0, OSError()))

    gate.close(lambda: True)  # returns though the batch is within

    assert thread.is_alive()
    gate.record(CatalogBack("c", 2, 1.0))
    may_end.set()
    thread.join()


def test_the_gate_keeps_what_the_last_batch_failed_with() -> None:
    gate = BatchGate()
    with pytest.raises(ValueError, match="bad"), gate.batch():
        raise ValueError("bad")
    kept = gate.error

    with gate.batch():
        pass

    assert isinstance(kept, ValueError)
    assert gate.error is None
    assert gate.batches == 1


# ---- restarts


def test_a_query_begins_again_until_it_has_failed_for_the_whole_timeout() -> None:
    budget = RestartBudget(30)

    assert [budget.allows(now, is_well=False) for now in (100, 115, 129, 130)] == [True, True, True, False]


def test_a_query_that_has_worked_begins_a_new_time_of_grace() -> None:
    budget = RestartBudget(30)
    budget.allows(100, is_well=False)

    assert budget.allows(500, is_well=True)
    assert budget.allows(520, is_well=False)
    assert not budget.allows(530, is_well=False)


def test_without_a_timeout_nothing_begins_again() -> None:
    assert not RestartBudget(0).allows(1, is_well=True)


# ---- the session


def test_the_connector_is_the_one_of_this_spark_unless_jars_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.jar").touch()
    packages = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"

    assert spark_settings(job())["spark.jars.packages"] == packages
    assert spark_settings(job(jars=str(tmp_path)))["spark.jars"] == str(tmp_path / "a.jar")
    assert "spark.jars.packages" not in spark_settings(job(jars=str(tmp_path)))
    assert "spark.jars.packages" not in spark_settings(job(kind="rate"))
    own = spark_settings(job(settings={"spark.jars.packages": "mine:mine:1"}))
    assert own["spark.jars.packages"] == "mine:mine:1"


def test_a_connector_among_the_jars_of_spark_is_not_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    names = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2")
    for name in names:
        (tmp_path / "jars" / f"{name}-{pyspark.__version__}.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))

    assert "spark.jars.packages" not in spark_settings(job())
    assert check_connector(job()).endswith("in Spark's own folder")


def test_a_connector_among_the_jars_of_spark_must_be_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / f"spark-sql-kafka-0-10_2.13-{pyspark.__version__}.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))

    with pytest.raises(InvalidInput, match="lacks spark-token-provider"):
        check_connector(job())


def test_a_folder_without_jars_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=f"no jars in the folder '{tmp_path}'"):
        spark_settings(job(jars=str(tmp_path)))


def test_settings_of_the_file_win_and_options_of_the_jvm_are_added_to_ours() -> None:
    found = spark_settings(
        job(settings={"spark.ui.showConsoleProgress": "true", "spark.driver.extraJavaOptions": "-Xa"})
    )

    assert found["spark.ui.showConsoleProgress"] == "true"
    assert found["spark.driver.extraJavaOptions"].startswith("-Dlog4j2.configurationFile=file:")
    assert found["spark.driver.extraJavaOptions"].endswith(" -Xa")


@pytest.mark.parametrize(
    ("checkpoint", "master", "is_local"),
    [
        ("/c", "local[2]", True),
        ("file:///c", "local[*]", True),
        ("c/d:e", "local", True),
        ("/c", "spark://m:7077", False),
        ("s3a://b/c", "local[2]", False),
        ("hdfs:/c", "local[2]", False),
    ],
)
def test_checkpoints_are_local_on_one_machine_alone(checkpoint: str, master: str, is_local: bool) -> None:  # noqa: FBT001 # a parameter of a test
    assert has_local_checkpoints(job(checkpoint, master=master)) is is_local


# ---- second reads


def test_records_are_kept_for_some_batches_after_one_with_errors_and_until_their_own_end() -> None:
    class Frame:
        kept = 0

        def select(self, *_: str) -> "Frame":
            return Frame()

        def persist(self) -> "Frame":
            Frame.kept += 1
            return self

        def unpersist(self) -> None:
            Frame.kept -= 1

    batch: Any = Frame()  # stands for Spark's
    reads, found = SecondReads(), list[int]()
    for errors in (0, 1, 0, 0, 0, 0, 0, 0, 1, None, 1, 0):  # None: it fails
        with ExitStack() as kept:
            reads.prepare(batch, kept)
            found.append(Frame.kept)
            if errors is not None:
                reads.note(errors)

    assert found == [0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 0, 1]
    assert Frame.kept == 0
