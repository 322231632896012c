"""Names of new files and hive directories."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.files.delete_files import new_delete_file_name
from ducklake_core.files.open_file import new_data_file_name
from ducklake_core.model import ColumnId, PartitionKey
from ducklake_core.spec.paths import hive_directory, hive_keys, hive_values, relative_to
from ducklake_core.spec.types import build_columns

COLUMNS = build_columns({"a": "timestamp", "b": "timestamp", "year": "int32"})


def keys(*pairs: tuple[int, str]) -> list[PartitionKey]:
    return [PartitionKey(ColumnId(column), transform) for column, transform in pairs]


def test_new_files_are_named_by_a_uuid_of_version_7() -> None:
    name = new_data_file_name()

    assert UUID(name.removeprefix("ducklake-").removesuffix(".parquet")).version == 7
    assert new_data_file_name() != name
    assert new_delete_file_name(lambda: UUID(int=1)) == f"ducklake-{UUID(int=1)}-delete.parquet"


@pytest.mark.parametrize(
    ("path", "directory", "stored"),
    [
        ("/lake/main/t/x.parquet", "/lake/main/t/", ("x.parquet", True)),
        ("/lake/main/t2/x.parquet", "/lake/main/t/", ("/lake/main/t2/x.parquet", False)),
        ("s3://b/main/t/y=1/x.parquet", "s3://b/main/t/", ("y=1/x.parquet", True)),
        ("/x.parquet", "", ("/x.parquet", False)),
    ],
)
def test_path_is_stored_relative_below_the_directory_only(path: str, directory: str, stored: tuple[str, bool]) -> None:
    assert relative_to(path, directory) == stored


@pytest.mark.parametrize(
    ("partitioned_by", "names"),
    [
        (keys((1, "year"), (2, "year"), (1, "month"), (2, "day")), ("year", "year_b", "month", "day")),
        (keys((1, "bucket(4)"), (2, "bucket(8)")), ("bucket", "bucket_b")),
        (keys((2, "year"), (3, "identity")), ("year", "year_year")),
        (keys((3, "identity"), (2, "year")), ("year", "year_b")),
    ],
)
def test_directory_keys_are_distinct(partitioned_by: list[PartitionKey], names: tuple[str, ...]) -> None:
    assert hive_keys(partitioned_by, COLUMNS) == names


def test_directory_values_are_url_encoded() -> None:
    directory = hive_directory(["a b/c=ü", "n", "e"], ["a/b c=d%&+~._-*", None, ""])

    assert directory == "a%20b%2Fc%3D%C3%BC=a%2Fb%20c%3Dd%25%26%2B~._-%2A/n=__HIVE_DEFAULT_PARTITION__/e=/"


def test_value_too_long_for_a_directory_gets_none() -> None:
    assert hive_directory(["a", "b"], ["1", "x" * 300]) == ""


@given(st.dictionaries(st.text(min_size=1, max_size=5), st.none() | st.text(max_size=5), max_size=3))
def test_values_come_back_from_a_path(values: dict[str, str | None]) -> None:
    path = "/lake/" + hive_directory(list(values), list(values.values())) + "k=v.parquet"

    assert hive_values(path) == values
