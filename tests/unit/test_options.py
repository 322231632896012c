"""Options: their values, their scopes."""

import pytest

from ducklake_core.errors import InvalidInput
from ducklake_core.model import SchemaId, TableId
from ducklake_core.spec.options import TableOptions, normalize_option


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("data_inlining_row_limit", 1000, "1000"),
        ("target_file_size", "10MB", "10000000"),
        ("target_file_size", "1MiB", "1048576"),
        ("target_file_size", 512, "512"),
        ("parquet_compression", "ZSTD", "zstd"),
        ("parquet_version", 2, "V2"),
        ("hive_file_pattern", False, "false"),
        ("rewrite_delete_threshold", 0.5, "0.500000"),
        ("DATA_INLINING_ROW_LIMIT", "7", "7"),
    ],
)
def test_values_become_the_texts_that_the_reference_stores(name: str, value: object, text: str) -> None:
    assert normalize_option(name, value) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("data_inlining_row_limit", -1),
        ("data_inlining_row_limit", "many"),
        ("target_file_size", "10 furlongs"),
        ("parquet_compression", "zip"),
        ("parquet_version", 3),
        ("hive_file_pattern", "maybe"),
        ("rewrite_delete_threshold", 2),
    ],
)
def test_a_bad_value_is_refused_by_the_option_s_name(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=f"option '{name}'"):
        normalize_option(name, value)


def test_an_unknown_option_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InvalidInput, match="did you mean 'data_inlining_row_limit'"):
        normalize_option("data_inlining_rows_limit", 1)


def test_the_narrowest_scope_wins() -> None:
    options = {
        (None, None): {"a": "lake", "b": "lake", "c": "lake"},
        ("schema", 0): {"b": "schema", "c": "schema"},
        ("table", 5): {"c": "table"},
        ("table", 6): {"a": "other"},
    }

    assert TableOptions.of_table(options, SchemaId(0), TableId(5)).texts == {"a": "lake", "b": "schema", "c": "table"}


def test_the_row_limit_defaults_to_the_reference_s_and_says_when_the_lake_s_is_no_number() -> None:
    assert TableOptions().row_limit == 10
    assert TableOptions({"data_inlining_row_limit": "0"}).row_limit == 0
    with pytest.raises(InvalidInput, match="'many'"):
        _ = TableOptions({"data_inlining_row_limit": "many"}).row_limit


def test_a_bad_value_hinders_only_those_who_need_it() -> None:
    options = TableOptions({"parquet_compression": "none of all", "encrypted": "true", "auto_compact": "false"})

    assert (options.row_limit, options.encrypted, options.auto_compact) == (10, True, False)
    with pytest.raises(InvalidInput, match="parquet_compression"):
        _ = options.files


def test_the_lake_s_own_options_are_in_force_where_no_table_has_a_say() -> None:
    options = {(None, None): {"require_commit_message": "true"}, ("table", 5): {"require_commit_message": "false"}}

    assert TableOptions.of_lake(options).requires_message
    assert not TableOptions.of_table(options, SchemaId(0), TableId(5)).requires_message
    assert not TableOptions.of_lake({}).requires_message
