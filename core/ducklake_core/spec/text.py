"""DuckDB's text of values, both ways: what catalogs hold as inlined values, statistics and defaults.

`to_text` and `from_text` work on whole columns; `literal_text` and `parse_literal` on one value. Pure; runs everywhere.
"""

from __future__ import annotations

import pyarrow as pa

from ducklake_core.errors import InvalidInput
from ducklake_core.model import Column
from ducklake_core.spec.arrays import single
from ducklake_core.spec.nested_text import nested_from_text, nested_to_text
from ducklake_core.spec.scalar_text import scalar_from_text, scalar_to_text
from ducklake_core.spec.types import arrow_type


def to_text(array: pa.Array | pa.ChunkedArray, column: Column) -> pa.Array:
    """Return the text of each value; `array` has the type `arrow_type(column)`. Null stays null."""
    array = single(array)
    return nested_to_text(array, column) if column.is_nested else scalar_to_text(array, column.type)


def from_text(texts: pa.Array, column: Column) -> pa.Array:
    """Parse texts that we or the extension wrote into an array of `arrow_type(column)`.

    As lenient as a cast in DuckDB; a text that is no value of the type raises `CorruptCatalog`.
    """
    return nested_from_text(texts, column) if column.is_nested else scalar_from_text(texts, column.type, column.name)


def literal_text(value: object, column: Column) -> str:
    """Return the text of one Python value, which must not be None: a default or a bound of a filter."""
    try:
        array = pa.array([value], arrow_type(column))
    except (UnicodeEncodeError, pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(
            f"{value!r} is no value of column '{column.name}' of type '{column.type}': {error}", column=column.name
        ) from error
    return str(to_text(array, column)[0].as_py())


def parse_literal(text: str, column: Column) -> pa.Scalar:
    """Return the value of one text, as an Arrow scalar of `arrow_type(column)`."""
    return from_text(pa.array([text], pa.string()), column)[0]
