"""How values are shown and named on the command line."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO

import pyarrow as pa
import pytest
import typer

from ducklake_streaming.cli.output import json_line
from ducklake_streaming.cli.row_values import columns_of, json_rows, text_rows
from ducklake_streaming.cli.row_writers import CsvRows, TableRows
from ducklake_streaming.cli.values import parse_moment
from ducklake_streaming.overview.fields import plain_text
from ducklake_streaming.overview.snapshots import changes_by_name, told_by_sink
from ducklake_streaming.overview.streams import rate_of
from ducklake_streaming.overview.values import shown_age, shown_rate, shown_size

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (None, ""),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1536, "1.54 kB"),
        (999_600, "1 MB"),
        (5 * 10**15, "5 PB"),
    ],
)
def test_sizes(size: int | None, shown: str) -> None:
    assert shown_size(size) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(None, ""), (-3, "0s"), (0.9, "0s"), (59, "59s"), (60, "1m"), (3725, "1h 2m"), (90000, "1d 1h"), (86400, "1d")],
)
def test_ages(seconds: float | None, shown: str) -> None:
    assert shown_age(seconds) == shown


@pytest.mark.parametrize(("rate", "shown"), [(None, ""), (12345.6, "12,346"), (0.123, "0.12"), (0, "0")])
def test_rates(rate: float | None, shown: str) -> None:
    assert shown_rate(rate) == shown


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, None),
        ("42", 42),
        ("5m", NOW - timedelta(minutes=5)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31 12:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_moments(text: str | None, found: object) -> None:
    assert parse_moment(text, NOW) == found


def test_what_is_no_moment_is_refused() -> None:
    with pytest.raises(typer.BadParameter, match="'yesterday' is neither"):
        parse_moment("yesterday")


def test_a_rate_decays_when_a_stream_stands_still() -> None:
    times = [NOW - timedelta(seconds=70), NOW - timedelta(seconds=60)]

    assert rate_of(100, times, NOW - timedelta(seconds=55)) == 10
    assert rate_of(100, times, NOW + timedelta(seconds=40)) == 1
    assert rate_of(100, times[:1], NOW) is None
    assert rate_of(100, [NOW, NOW], NOW) is None


def test_changes_name_what_they_are_about() -> None:
    text = 'created_table:"my schema"."t",inlined_insert:3,dropped_table:4'

    assert changes_by_name(text, {3: "main.t"}) == [
        "created table my schema.t",
        "inlined into main.t",
        "dropped table #4",
    ]


@pytest.mark.parametrize("extra_info", [None, "", "free text", "[1]"])
def test_extra_info_of_others_tells_nothing(extra_info: str | None) -> None:
    assert told_by_sink(extra_info) == {}


TRICKY = pa.table(
    {
        "f": pa.array([float("nan"), float("-inf"), 1.5, None]),
        "d": pa.array([Decimal("1.10"), None, Decimal("-2.00"), None], pa.decimal128(20, 2)),
        "ns": pa.array([1, None, 3, 4], pa.timestamp("ns")),
        "b": pa.array([b"\x00a", b"", None, b"x"]),
        "l": pa.array([[1, None], [], None, [2]], pa.list_(pa.int64())),
        "m": pa.array([[(1, "x")], [], None, [(2, None)]], pa.map_(pa.int64(), pa.string())),
        "s": pa.array([{"a": 1, "t": None}, None, {"a": None, "t": "é"}, {"a": 2, "t": ""}]),
    }
)


def test_json_loses_nothing_of_a_value() -> None:
    [batch] = TRICKY.to_batches()

    rows = [json.loads(json_line(row)) for row in json_rows(batch, columns_of(batch.schema))]

    assert [row["f"] for row in rows] == ["nan", "-inf", 1.5, None]
    assert [row["d"] for row in rows] == ["1.10", None, "-2.00", None]
    assert rows[0]["ns"] == "1970-01-01 00:00:00.000000001"
    assert [row["b"] for row in rows] == [r"\x00a", "", None, "x"]
    assert [row["l"] for row in rows] == [[1, None], [], None, [2]]
    assert [row["m"] for row in rows] == [{"1": "x"}, {}, None, {"2": None}]
    assert [row["s"] for row in rows] == [{"a": 1, "t": None}, None, {"a": None, "t": "é"}, {"a": 2, "t": ""}]


def test_slices_of_nested_values_are_themselves() -> None:
    [batch] = TRICKY.to_batches()
    columns = columns_of(batch.schema)
    whole = list(json_rows(batch, columns)), list(text_rows(batch, columns))

    parts = [batch.slice(start, 1) for start in range(batch.num_rows)]

    assert [row for part in parts for row in json_rows(part, columns)] == whole[0]
    assert [row for part in parts for row in text_rows(part, columns)] == whole[1]


def test_csv_tells_nulls_from_empty_texts() -> None:
    stream = StringIO()
    table = pa.table({"a,b": ["", None, 'x "y"', "two\nlines", " spaced"]})

    writer = CsvRows(stream, table.schema)
    for batch in table.to_batches():
        writer.write(batch)

    assert stream.getvalue() == '"a,b"\n""\n\n"x ""y"""\n"two\nlines"\n" spaced"\n'


def test_later_rows_of_a_table_stay_aligned() -> None:
    stream = StringIO()
    writer = TableRows(stream, pa.schema([("id", pa.int64()), ("名", pa.string())]))
    for ids, texts in (([1], ["長い"]), ([20000], ["x"]), ([3], [None])):
        writer.write(pa.record_batch({"id": ids, "名": texts}))

    assert stream.getvalue() == "id  名\n 1  長い\n20000  x\n    3  NULL\n"


def test_control_characters_are_spelled_out() -> None:
    assert plain_text("a\tb\x1b[31m\x85\u2028") == r"a\tb\x1b[31m\x85\u2028"
    assert plain_text("naïve 長") == "naïve 長"
    assert plain_text(None) == ""
