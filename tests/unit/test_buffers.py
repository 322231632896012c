"""Arrays made by their buffers are those that Arrow makes."""

import numpy as np
import pyarrow as pa
import pytest

from ducklake_core.spec.buffers import from_integers, from_mask, from_texts, integers_of


@pytest.mark.parametrize("values", [[], [1], [-1, 2**40, 3], range(100)], ids=str)
def test_integers_there_and_back(values: list[int]) -> None:
    numbers = np.array(values, np.int64)

    assert from_integers(numbers).equals(pa.array(numbers))
    assert from_integers(numbers[::2]).equals(pa.array(numbers[::2]))
    assert from_integers(numbers.astype(np.int8)).equals(pa.array(numbers.astype(np.int8)))
    assert integers_of(pa.array(numbers)).tolist() == list(values)
    assert integers_of(pa.array(numbers).slice(1)).tolist() == list(values)[1:]
    assert integers_of(pa.chunked_array([numbers[:1], numbers[1:], numbers[:0]])).tolist() == list(values)
    assert integers_of(pa.chunked_array([], pa.int64())).dtype == np.int64


def test_integers_with_nulls_are_those_of_arrow() -> None:
    array = pa.chunked_array([[1, None]], pa.int64())

    assert np.array_equal(integers_of(array), array.to_numpy(), equal_nan=True)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
def test_masks(count: int) -> None:
    kept = np.arange(count) % 3 == 0

    made = from_mask(kept)
    made.validate(full=True)

    assert made.equals(pa.array(kept))


@pytest.mark.parametrize("texts", [[], [""], ["a", "", "Zoë ✓"]], ids=str)
def test_texts(texts: list[str]) -> None:
    made = from_texts(texts)
    made.validate(full=True)

    assert made.equals(pa.array(texts, pa.string()))
