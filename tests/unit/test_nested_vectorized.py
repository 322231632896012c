"""Texts of nested values parsed all at once are what the parser of single texts makes of them, or left to it."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.errors import CorruptCatalog
from ducklake_core.model import Column
from ducklake_core.spec.nested_text import nested_from_text
from ducklake_core.spec.nested_vectorized import NeedsParser, vectorized_from_text
from ducklake_core.spec.text import to_text
from ducklake_core.spec.thresholds import PARSED_TEXTS
from tests.fixtures.values import arrays, column_of, columns

MANY = PARSED_TEXTS + 1


def one_by_one(texts: pa.Array, column: Column) -> pa.Array:
    return pa.concat_arrays([nested_from_text(texts.slice(i, 1), column) for i in range(len(texts))])


@given(st.data())
def test_all_at_once_is_the_same_as_one_by_one(data: st.DataObject) -> None:
    column = data.draw(columns().filter(lambda c: c.is_nested))
    texts = to_text(data.draw(arrays(column, 5)), column)
    many = pa.concat_arrays([texts] * (MANY // 5 + 1))

    found = nested_from_text(many, column)

    expected = to_text(one_by_one(texts, column), column)
    assert to_text(found, column).equals(pa.concat_arrays([expected] * (MANY // 5 + 1)))


@pytest.mark.parametrize(
    ("type_", "texts"),
    [
        ("struct(a int32, b varchar)", ["{'a':1,'b':'x'}", "{'a': 2, 'b': 'y, z'}", "{'a':NULL,'b':''}", None, "NULL"]),
        ("varchar[]", ["[]", "['a','b']", "[a, b c]", "[NULL, 'NULL', null]", "['[,]','{=}']", None]),
        ("map(varchar, int32[])", ["{}", "{'k'=[1,2],'='=NULL}", "{k=[]}"]),
        ("struct(a struct(b int32[])[])", ["{'a':[{'b':[1]},NULL,{'b':[]}]}", "{'a':NULL}", "{'a':[]}"]),
    ],
)
def test_plain_texts(type_: str, texts: list[str | None]) -> None:
    column = column_of(type_)
    array = pa.array(texts, pa.string())

    found = vectorized_from_text(array, column)

    assert found.equals(one_by_one(array, column))
    assert vectorized_from_text(array.slice(1), column).equals(found.slice(1))


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("struct(a int32, b varchar)", "{'b':'x','a':1}"),
        ("struct(a int32, b varchar)", "{'a':1}"),
        ("struct(a varchar)", "{'a': 'it''s'}"),
        ("varchar[]", "['it''s']"),
        ("varchar[]", "[''']"),
        ("varchar[]", "[ ]"),
        ("varchar[]", "[a , b]"),
        ("varchar[]", "  ['a']"),
        ("varchar[]", "'[a]'"),
        ("varchar[]", "[a"),
        ("varchar[]", "['a"),
        ("varchar[]", "]["),
        ("map(varchar, int32)", "{a=1=2}"),
    ],
)
def test_other_texts_are_left_to_the_slow_parser(type_: str, text: str) -> None:
    with pytest.raises(NeedsParser):
        vectorized_from_text(pa.array([text]), column_of(type_))


def test_texts_with_escapes_keep_their_places() -> None:
    column = column_of("varchar[]")
    texts = pa.array((["['a']", r"['it\'s']", None, '["b"]'] * MANY)[:MANY])

    found = nested_from_text(texts, column).to_pylist()

    assert found == ([["a"], ["it's"], None, ["b"]] * MANY)[:MANY]


def test_a_broken_text_among_many_is_named() -> None:
    texts = pa.array(["[1]"] * MANY + ["[1"])

    with pytest.raises(CorruptCatalog, match=r"no such value: '\[1'"):
        nested_from_text(texts, column_of("int32[]"))
