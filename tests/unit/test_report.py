"""What the log says of a batch that failed."""

import pytest

from ducklake_core.errors import InvalidInput
from ducklake_core.observe import LOG_RECORDER
from ducklake_sinks.query import BY_HAND, Query
from ducklake_sinks.report import failure_of


@pytest.mark.parametrize(
    ("query", "stream", "told"),
    [
        (Query("6f1d", "r"), "s", "stream=s batch=0"),
        (Query("6f1d", "r"), None, "stream=6f1d batch=0"),
        (Query(BY_HAND, "r"), None, "batch=0"),
        (None, None, "batch=0"),
    ],
)
def test_failure_names_its_stream_or_the_query(
    query: Query | None, stream: str | None, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    LOG_RECORDER.record(failure_of(query, {"stream": stream, "batch": 0}, InvalidInput("no")))

    assert caplog.messages == [f'batch_failed {told} error="InvalidInput: no"']
