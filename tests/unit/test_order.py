"""A value has one place in the order of its type, in whatever form it comes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ducklake_core.plan.order import key_of_item, key_of_scalar, key_of_text
from ducklake_core.spec.arrays import plain
from ducklake_core.spec.small_rows import extractor_of
from ducklake_core.spec.text import to_text
from tests.fixtures.values import SCALAR_TYPES, arrays, column_of

WITH_ITEMS = [type_ for type_ in SCALAR_TYPES if extractor_of(type_) is not None and type_ != "blob"]
# As fields are compared with literals: a float32's text is not its value, and blobs, json and timetz have no ranges.
WITH_SCALARS = [t for t in SCALAR_TYPES if t not in ("float32", "blob", "json", "timetz", "interval")]


@pytest.mark.parametrize("type_", WITH_ITEMS)
@given(data=st.data())
def test_items_have_the_keys_of_their_texts(type_: str, data: st.DataObject) -> None:
    column = column_of(type_)
    array = data.draw(arrays(column, data.draw(st.integers(1, 6))))
    take = extractor_of(type_)
    assert take is not None
    items, _ = take(plain(array))

    for item, text in zip(items, to_text(array, column).to_pylist(), strict=True):
        if item is not None:
            assert key_of_item(type_)(item) == key_of_text(type_)(text)


@pytest.mark.parametrize("type_", WITH_SCALARS)
@given(data=st.data())
def test_scalars_have_the_keys_of_their_texts(type_: str, data: st.DataObject) -> None:
    column = column_of(type_)
    array = data.draw(arrays(column, data.draw(st.integers(1, 6))))

    for scalar, text in zip(plain(array), to_text(array, column).to_pylist(), strict=True):
        if text is not None:
            assert key_of_scalar(scalar, type_) == key_of_text(type_)(text)
