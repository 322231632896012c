"""What is served has no secrets, and whatever a secret is, it stays what programs and browsers can read."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ducklake_core.errors import CatalogUnavailable
from ducklake_core.observe import Recorders
from ducklake_core.pending import AddedCount
from ducklake_sinks.report import BatchReport
from ducklake_streaming.jobs.events import PipelineFailed
from ducklake_streaming.jobs.exit_codes import ExitCode
from ducklake_streaming.jobs.references import HIDDEN, Redactor
from ducklake_streaming.metrics import declared as m
from ducklake_streaming.metrics.exporter import Exporter
from ducklake_streaming.metrics.page import SCRIPT, STYLE
from ducklake_streaming.metrics.registry import Numbers
from ducklake_streaming.metrics.server import Address
from tests.fixtures.pages import read_lake

AWKWARD = 'a&"<b'
SECRETS = ("lake", "5432", "page", "main", "none", AWKWARD)


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[Exporter]:
    """An exporter that was told of a secret wherever it may be told of one."""
    with closing(Exporter(Address(port=0), redact=Redactor(SECRETS).redact)) as made:
        recorder = Recorders(made.lake_recorder(), made.pipeline_recorder(f"p-{AWKWARD}"))
        added = {f"t-{AWKWARD}": AddedCount(5432, 8, 0, 0, 0)}
        recorder.record(BatchReport({"stream": "s", "batch": 1}, 5432, added, None, {"total": 0.1}))
        error = CatalogUnavailable(f"no answer with password {AWKWARD}")
        recorder.record(PipelineFailed(f"p-{AWKWARD}", ExitCode.FAILED, error))
        made.page.hear_lake(read_lake(tmp_path, {f'main."t-{AWKWARD.replace(chr(34), chr(34) * 2)}"': 3}))
        made.page.hear_problem(error)
        yield made.start()


def body_of(exporter: Exporter, path: str) -> str:
    with closing(HTTPConnection(urlsplit(exporter.url).netloc, timeout=30)) as connection:
        connection.request("GET", path)
        return connection.getresponse().read().decode()


def test_metrics_keep_their_names_and_numbers_whatever_a_secret_is(exporter: Exporter) -> None:
    families = list(text_string_to_metric_families(body_of(exporter, "/metrics")))

    [rows] = (one for one in families if one.name == "ducklake_sink_rows")
    [sample] = rows.samples
    assert (sample.labels, sample.value) == ({"pipeline": f"p-{HIDDEN}", "table": f"t-{HIDDEN}"}, 5432)


def test_the_json_and_the_page_are_whole_whatever_a_secret_is(exporter: Exporter) -> None:
    told, page = json.loads(body_of(exporter, "/facts.json")), body_of(exporter, "/")

    assert (told["rows"]["pipeline"][0]["rows"], told["rows"]["batch"][0]["snapshot"]) == (5432, 5432)
    assert told["lake"]["catalog"]
    assert STYLE in page  # byte for byte, as the hash in its policy says
    assert SCRIPT in page
    assert '<main id="page">' in page


@pytest.mark.parametrize("path", ["/metrics", "/facts.json", "/", "/livez", "/readyz"])
def test_no_answer_has_a_secret_however_it_is_written(exporter: Exporter, path: str) -> None:
    body = body_of(exporter, path)

    written = (AWKWARD, "a&amp;&quot;&lt;b", "a&amp;&#34;&lt;b", 'a&\\"<b', "a&amp;&#x27;&lt;b")
    assert not [one for one in written if one in body]
    assert HIDDEN in body or path == "/readyz"


def test_two_names_that_are_one_without_secrets_make_one_series() -> None:
    numbers = Numbers(redact=Redactor(["first", "second"]).redact)
    for name, amount in (("first", 2), ("second", 3)):
        numbers.add(m.SINK_INPUT_ROWS, amount, name)
        numbers.set(m.SINK_LAST_PROGRESS, amount, name)

    lines = numbers.text().decode().splitlines()

    assert [one for one in lines if one.startswith("ducklake_sink_input")] == [
        'ducklake_sink_input_rows_total{pipeline="***"} 5.0'
    ]
    assert 'ducklake_sink_last_progress_timestamp_seconds{pipeline="***"} 3.0' in lines
