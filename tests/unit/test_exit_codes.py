"""With which code a job ends: by the error itself, by its cause, or by what Spark's text of it says."""

import pytest
from pyspark.errors import StreamingQueryException

from ducklake_core.errors import (
    CatalogUnavailable,
    EpochOutOfOrder,
    InvalidInput,
    LedgerBehind,
    SnapshotsExpired,
    StreamFenced,
)
from ducklake_streaming.jobs.exit_codes import ExitCode, exit_code_of, is_broker_away, line_of_error
from ducklake_streaming.kafka.errors import BrokerUnavailable, RecordsLost, TopicNotFound

# As Spark 4.3 says them, shortened in the middle.
FENCED = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: Python error in the batch:
Traceback (most recent call last):
  File "…/ducklake_sinks/epoch.py", line 51, in start
ducklake_core.errors.StreamFenced: another run is ahead of stream 's'

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""
EXPIRED = """[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR]
Traceback (most recent call last):
ducklake_core.errors.ObjectNotFound: there is no snapshot 3

During handling of the above exception, another exception occurred:
Traceback (most recent call last):
ducklake_core.errors.SnapshotsExpired: snapshots 3 to 5 of table 'main.t' have expired
 SQLSTATE: XXKST"""
LOST = """[STREAM_FAILED] Query [id = 1] terminated with exception: Partition orders-0's offset was changed from 9 \
to 2. Some data may have been lost because they are not available in Kafka any more"""
OUT_OF_RANGE = (
    "Caused by: org.apache.kafka.clients.consumer.OffsetOutOfRangeException: Fetch position 3 is out of range"
)
AWAY = """[STREAM_FAILED] Query terminated with exception: java.util.concurrent.ExecutionException:
org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment. Call: describeTopics"""


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StreamFenced("s"), ExitCode.FENCED),
        (SnapshotsExpired("s"), ExitCode.DATA_LOSS),
        (LedgerBehind("s"), ExitCode.DATA_LOSS),
        (RecordsLost("s"), ExitCode.DATA_LOSS),
        (InvalidInput("s"), ExitCode.USAGE),
        (EpochOutOfOrder("s"), ExitCode.FAILED),
        (CatalogUnavailable("s"), ExitCode.FAILED),
        (BrokerUnavailable("s"), ExitCode.FAILED),
        (TopicNotFound("s"), ExitCode.FAILED),
        (ValueError("s"), ExitCode.FAILED),
        (caused(RuntimeError("s"), StreamFenced("t")), ExitCode.FENCED),
        (StreamingQueryException(FENCED), ExitCode.FENCED),
        (StreamingQueryException(EXPIRED), ExitCode.DATA_LOSS),
        (StreamingQueryException(LOST), ExitCode.DATA_LOSS),
        (caused(RuntimeError("s"), StreamingQueryException(OUT_OF_RANGE)), ExitCode.DATA_LOSS),
        (StreamingQueryException(AWAY), ExitCode.FAILED),
        (StreamingQueryException("a table named StreamFenced is not there"), ExitCode.FAILED),
    ],
    ids=lambda value: value.name if isinstance(value, ExitCode) else type(value).__name__,
)
def test_an_error_ends_a_job_with_the_code_of_its_kind(error: BaseException, code: ExitCode) -> None:
    assert exit_code_of(error) is code


def test_an_error_that_spark_has_wrapped_is_one_line_without_its_stack() -> None:
    assert line_of_error(StreamingQueryException(FENCED)) == "another run is ahead of stream 's'"
    assert line_of_error(StreamingQueryException(EXPIRED)) == "snapshots 3 to 5 of table 'main.t' have expired"
    assert "\n" not in line_of_error(StreamingQueryException(AWAY))


@pytest.mark.parametrize(
    ("error", "is_away"),
    [
        (StreamingQueryException(AWAY), True),
        (BrokerUnavailable("s"), True),
        (StreamingQueryException(f"{LOST} {AWAY}"), False),
        (StreamingQueryException(FENCED), False),
        (CatalogUnavailable("s"), False),
        (ValueError("TimeoutException"), False),
    ],
    ids=["timeout", "ours", "timeout after a loss", "fenced", "catalog", "another's timeout"],
)
def test_only_a_broker_that_is_away_lets_a_query_start_again(error: BaseException, is_away: bool) -> None:  # noqa: FBT001 # a parameter of a test
    assert is_broker_away(error) is is_away


def test_codes_are_those_that_users_know() -> None:
    assert [(code.name, int(code)) for code in ExitCode] == [
        ("ENDED", 0),
        ("FAILED", 1),
        ("USAGE", 2),
        ("DATA_LOSS", 3),
        ("FENCED", 4),
    ]
