"""Names of tables and columns in text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.errors import InvalidInput
from ducklake_core.spec.names import quote_name, quoted, split_path, split_table_name

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("events", ["events"]),
        ("main.events", ["main", "events"]),
        ('"a.b".c', ["a.b", "c"]),
        ('s."x""y"', ["s", 'x"y']),
        ("we ird.t", ["we ird", "t"]),
        ('"ünï".t', ["ünï", "t"]),
    ],
)
def test_dotted_names_split_outside_of_quotes(text: str, parts: list[str]) -> None:
    assert split_path(text) == parts


@given(st.lists(NAMES, min_size=1, max_size=4))
def test_quoted_parts_come_back_whatever_they_hold(parts: list[str]) -> None:
    assert split_path(quoted(*parts)) == parts


def test_quotes_within_a_quoted_name_are_doubled() -> None:
    assert quoted("main", 'x"y') == '"main"."x""y"'


@given(NAMES)
def test_a_name_quoted_as_duckdb_would_is_one_part(name: str) -> None:
    assert split_path(quote_name(name)) == [name]


@pytest.mark.parametrize("text", ["", ".", "a.", ".a", 'a"', '"a', '"a"b', "a..b", '""'])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a name"):
        split_path(text)


def test_a_lone_table_is_in_main_and_three_parts_are_too_many() -> None:
    assert split_table_name("events") == ("main", "events")
    with pytest.raises(InvalidInput, match=r"a\.b\.c"):
        split_table_name("a.b.c")
