"""Statistics of new data files, and the options they are written with."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ducklake_core.errors import InvalidInput
from ducklake_core.files.parquet_writer import FileLayout, write_data_files
from ducklake_core.files.storage import Storage
from ducklake_core.model import ColumnStats
from ducklake_core.spec.text import from_text
from ducklake_core.spec.types import arrow_type
from ducklake_core.spec.write_options import WriteOptions
from tests.fixtures.values import column_of

FIRST_UUID, LAST_UUID = "00000000-0000-0000-0000-000000000001", "ffffffff-0000-0000-0000-000000000000"


def stats_of(directory: Path, type_: str, array: pa.Array, options: WriteOptions | None = None) -> list[ColumnStats]:
    layout = FileLayout(f"{directory}/", (column_of(type_),), options=options or WriteOptions())
    (file,) = write_data_files(Storage.of(layout.directory), layout, pa.table({"c": array}))
    return list(file.column_stats)


def bounds(directory: Path, type_: str, texts: list[str | None]) -> tuple[str | None, str | None]:
    (stats,) = stats_of(directory, type_, from_text(pa.array(texts, pa.string()), column_of(type_)))
    return stats.min_value, stats.max_value


@pytest.mark.parametrize(
    ("type_", "texts", "expected"),
    [
        ("boolean", ["true", "false"], ("0", "1")),
        ("int32", ["10", "9", None], ("9", "10")),
        ("int128", ["9", str(-(2**127))], (str(-(2**127)), "9")),
        ("decimal(5,2)", ["10", "-0.05"], ("-0.05", "10.00")),
        ("date", ["infinity", "0044-03-15 (BC)"], ("0044-03-15 (BC)", "infinity")),
        ("timestamp_s", ["2024-02-29 12:00:00", "-infinity"], ("-infinity", "2024-02-29 12:00:00")),
        ("timestamptz", ["2024-02-29 12:00:00.5+00"], ("2024-02-29 12:00:00.5+00",) * 2),
        ("time_ns", ["00:00:00.000000001", "12:00:00"], ("00:00:00.000000001", "12:00:00")),
        ("varchar", ["z", "Z", "ü", None], ("Z", "ü")),
        ("blob", ["abc", "\\x00\\xFF"], ("00FF", "616263")),
        ("uuid", [LAST_UUID, FIRST_UUID], (FIRST_UUID, LAST_UUID)),
        ("interval", ["1 day"], (None, None)),
        ("timetz", ["12:00:00+02"], (None, None)),
        ("float64", ["nan"], (None, None)),
        ("int32", [None, None], (None, None)),
    ],
)
def test_bounds_are_the_texts_of_the_extremes(
    tmp_path: Path, type_: str, texts: list[str | None], expected: tuple[str | None, str | None]
) -> None:
    assert bounds(tmp_path, type_, texts) == expected


def test_nan_has_a_flag_and_no_part_in_the_bounds(tmp_path: Path) -> None:
    (with_nan,) = stats_of(tmp_path, "float64", pa.array([1.0, float("nan"), 5.0]))
    (without,) = stats_of(tmp_path, "float64", pa.array([1.0, None]))
    (other,) = stats_of(tmp_path, "int32", pa.array([1], pa.int32()))

    assert (with_nan.min_value, with_nan.max_value, with_nan.contains_nan) == ("1.0", "5.0", True)
    assert without.contains_nan is False
    assert other.contains_nan is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x" * 256, ("x" * 256, "x" * 256)),
        ("x" * 257, ("x" * 256, "x" * 255 + "y")),
        ("a" + "ü" * 200, ("a" + "ü" * 127, "b")),
        ("ü" * 200, (None, None)),
        ("a\0b", (None, None)),
    ],
)
def test_long_texts_are_cut_to_bounds_that_hold(
    tmp_path: Path, text: str, expected: tuple[str | None, str | None]
) -> None:
    assert bounds(tmp_path, "varchar", [text]) == expected


def test_long_bytes_are_cut_to_bounds_that_hold(tmp_path: Path) -> None:
    (cut,) = stats_of(tmp_path, "blob", pa.array([b"\x01" * 255 + b"\xff" * 10]))
    (uncut,) = stats_of(tmp_path, "blob", pa.array([b"\xff" * 300]))

    assert (cut.min_value, cut.max_value) == ("01" * 255 + "FF", "01" * 254 + "02")
    assert (uncut.min_value, uncut.max_value) == (None, None)


def test_counts_include_the_slots_of_empty_lists(tmp_path: Path) -> None:
    type_ = "struct(l int32[], m map(varchar, float64))"
    rows = [{"l": [1, None], "m": [("k", 2.5)]}, {"l": [], "m": []}, {"l": None, "m": None}, None]

    found = stats_of(tmp_path, type_, pa.array(rows, arrow_type(column_of(type_))))

    summary = [(s.column_id, s.value_count, s.null_count, s.min_value, s.max_value) for s in found]
    assert summary == [(3, 1, 4, "1", "1"), (5, 1, 3, "k", "k"), (6, 1, 3, "2.5", "2.5")]


def test_bounds_ignore_what_null_rows_hide(tmp_path: Path) -> None:
    column = column_of("struct(x int32)[]")
    hidden = pa.StructArray.from_arrays(
        [pa.array([1, 99], pa.int32())], fields=list(arrow_type(column.children[0])), mask=pa.array([False, True])
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), hidden, type=arrow_type(column))

    (stats,) = stats_of(tmp_path, "struct(x int32)[]", lists)

    assert (stats.min_value, stats.max_value) == ("1", "1")


def test_bounds_ignore_what_lies_under_null_lists(tmp_path: Path) -> None:
    column = column_of("int32[]")
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()),
        pa.array([1, 99], pa.int32()),
        type=arrow_type(column),
        mask=pa.array([False, True]),
    )

    (stats,) = stats_of(tmp_path, "int32[]", lists)

    assert (stats.min_value, stats.max_value) == ("1", "1")


def test_nan_in_any_row_group_is_seen(tmp_path: Path) -> None:
    array = pa.array([float("nan"), 1.0, 2.0, 3.0])

    (stats,) = stats_of(tmp_path, "float64", array, WriteOptions(row_group_rows=2))

    assert (stats.min_value, stats.max_value, stats.contains_nan) == ("1.0", "3.0", True)


def test_bounds_cover_all_row_groups_and_chunks(tmp_path: Path) -> None:
    array = pa.chunked_array([pa.array(range(50), pa.int32()), pa.array(range(-50, 0), pa.int32())])

    (stats,) = stats_of(tmp_path, "int32", array, WriteOptions(row_group_rows=30))

    assert (stats.min_value, stats.max_value, stats.value_count, stats.null_count) == ("-50", "49", 100, 0)


# ----------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"parquet_compression": "none"}, "one of uncompressed, snappy"),
        ({"parquet_version": "V3"}, "one of V1, V2"),
        ({"parquet_compression": "zstd", "parquet_compression_level": "99"}, "1 to 22"),
        ({"parquet_row_group_size": "0"}, "positive"),
        ({"target_file_size": "1GB"}, "positive"),
        ({"hive_file_pattern": "maybe"}, "true or false"),
    ],
)
def test_bad_option_is_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message) as error:
        WriteOptions.from_options(options)
    assert error.value.option in options


def test_options_of_other_concerns_are_ignored() -> None:
    assert WriteOptions.from_options({"auto_compact": "false", "data_path": "/x/"}) == WriteOptions()


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4", "lz4_raw"])
def test_codec_and_page_version_are_the_options(tmp_path: Path, codec: str) -> None:
    options = WriteOptions.from_options(
        {"parquet_compression": codec, "parquet_compression_level": "3", "parquet_version": "V2"}
    )

    stats_of(tmp_path, "varchar", pa.array(["x" * 1000]), options)

    (path,) = tmp_path.iterdir()
    written = pq.ParquetFile(path).metadata.row_group(0).column(0).compression
    assert written == {"uncompressed": "UNCOMPRESSED", "lz4_raw": "LZ4"}.get(codec, codec.upper())
