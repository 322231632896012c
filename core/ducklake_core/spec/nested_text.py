r"""The text of nested values: lists, structs and maps, both ways. Pure; runs everywhere.

Written is DuckDB's cast format with everything quoted that is no number or boolean, and **no blank after a colon**:
`{'a':1,'b':['it\'s',NULL]}`. The extension reads that. For a struct at the root it writes SQL literals instead, which
it cannot read back: `{'a': 1, 'b': CAST('2024-01-01' AS DATE), 'c': 'it''s'}`; there a backslash is a backslash. The
blank after the first colon tells the two apart.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core.errors import CorruptCatalog
from ducklake_core.model import Column
from ducklake_core.spec.arrays import (
    concatenated,
    filled,
    has_text,
    list_lengths,
    list_members,
    no_text,
    text_scalar,
)
from ducklake_core.spec.kinds import NESTED, Kind
from ducklake_core.spec.nested_vectorized import SPECIAL, NeedsParser, vectorized_from_text
from ducklake_core.spec.scalar_text import scalar_from_text, scalar_to_text
from ducklake_core.spec.thresholds import PARSED_TEXTS
from ducklake_core.spec.types import arrow_field, arrow_type

_BARE = (Kind.BOOLEAN, Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL, *NESTED)  # whose texts need no quotes


def nested_to_text(array: pa.Array, column: Column) -> pa.Array:
    """Return the literal of each value; null stays null."""
    if column.kind is Kind.STRUCT:
        return _struct_to_text(array, column)
    if column.kind is Kind.LIST:
        return _list_to_text(array, column)
    return _map_to_text(array, column)


def nested_from_text(texts: pa.Array, column: Column) -> pa.Array:
    """Parse literals of either syntax; raise `CorruptCatalog` naming the column and the text that is none."""
    if len(texts) <= PARSED_TEXTS:
        return _each_from_text(texts, column)
    try:
        if not any(has_text(texts, sign) for sign in SPECIAL):
            return vectorized_from_text(texts, column)
        special = pc.fill_null(pc.match_substring_regex(texts, f"[{re.escape(SPECIAL)}]"), fill_value=False)
        plain = vectorized_from_text(texts.filter(pc.invert(special)), column)
    except NeedsParser:
        return _each_from_text(texts, column)
    both = pa.concat_arrays([plain, _each_from_text(texts.filter(special), column)])
    flags = np.asarray(special.to_numpy(zero_copy_only=False), dtype=bool)
    return both.take(pa.array(np.where(flags, len(plain) + np.cumsum(flags) - 1, np.cumsum(~flags) - 1)))


def _each_from_text(texts: pa.Array, column: Column) -> pa.Array:
    """Parse literals one by one, in whatever form."""
    values: list[object] = []
    for text in texts.to_pylist():
        try:
            values.append(None if text is None else _parse(text, column))
        except ValueError:
            raise CorruptCatalog(
                f"column '{column.name}' of type '{column.type}' holds a text that is no such value: {text!r}",
                column=column.name,
                text=text,
            ) from None
    return _build(values, column, column.name)


# ------------------------------------------------------------------------------------------ to text


def _member(array: pa.Array, column: Column) -> pa.Array:
    """Return the texts of values inside a container, `NULL` for a null."""
    text = nested_to_text(array, column) if column.is_nested else scalar_to_text(array, column.type)
    return filled(text if is_bare(column) else _quoted(text), "NULL")


def _quoted(text: pa.Array) -> pa.Array:
    if has_text(text, "\\"):
        text = pc.replace_substring(text, "\\", "\\\\")
    if has_text(text, "'"):
        text = pc.replace_substring(text, "'", "\\'")
    return concatenated("'", text, "'")


def is_bare(column: Column) -> bool:
    """Tell whether the texts of values stand inside a container without quotes."""
    return column.kind in _BARE


def quoted_name(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _struct_to_text(array: pa.Array, column: Column) -> pa.Array:
    parts: list[pa.Array | str] = []
    for child, values in zip(column.children, array.flatten(), strict=True):
        parts += ["," if parts else "{", f"{quoted_name(child.name)}:", _member(values, child)]
    text = concatenated(*parts, "}")
    return _with_nulls_of(array, text)


def _list_to_text(array: pa.Array, column: Column) -> pa.Array:
    (elements,) = list_members(array)
    return _joined(array, _member(elements, column.children[0]), "[", "]")


def _map_to_text(array: pa.Array, column: Column) -> pa.Array:
    keys, values = (_member(a, child) for a, child in zip(list_members(array), column.children, strict=True))
    return _joined(array, concatenated(keys, values, between="="), "{", "}")


def _joined(array: pa.Array, members: pa.Array, opening: str, closing: str) -> pa.Array:
    """Join the texts of the members of each list; `members` are those of the lists that are not null, in order."""
    offsets = np.zeros(len(array) + 1, np.int32)
    list_lengths(array).cumsum(out=offsets[1:])
    joined = pc.call_function("binary_join", [pa.ListArray.from_arrays(pa.array(offsets), members), text_scalar(",")])
    return _with_nulls_of(array, concatenated(opening, joined, closing))


def _with_nulls_of(array: pa.Array, text: pa.Array) -> pa.Array:
    return pc.if_else(array.is_valid(), text, no_text()) if array.null_count else text


# -------------------------------------------------------------------------------------------- parse
# A parsed value is None, the text of a scalar, a list of values, a list of pairs (map) or a tuple (struct).


def _parse(text: str, column: Column) -> object:
    reader = _Reader(text)
    if column.kind is Kind.STRUCT and re.match(r"\s*\{\s*'(?:[^'\\]|''|\\.)*':\s", text, re.DOTALL):
        try:
            return reader.whole(column, sql=True)
        except ValueError:  # cast format with blanks after the colons, as DuckDB itself writes it
            reader = _Reader(text)
    return reader.whole(column, sql=False)


class _Reader:
    """A position in a text. `sql` says that strings follow SQL's quoting: the extension's structs do."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def whole(self, column: Column, *, sql: bool) -> object:
        value = self.value(column, "", sql=sql)
        if self.peek():
            raise ValueError(self.text)
        return value

    def value(self, column: Column, end: str, *, sql: bool) -> object:
        """Read one value; a bare word ends before a character of `end`."""
        if not column.is_nested:
            return self.scalar(end, sql=sql)
        if self.peek() not in ("[", "{"):
            return self.boxed(column, end, sql=sql)
        if column.kind is Kind.LIST:
            return self.members("[", "]", lambda: self.value(column.children[0], ",]", sql=False))
        if column.kind is Kind.MAP:
            return self.members("{", "}", lambda: self.pair(column))
        return self.struct(column, sql=sql)

    def boxed(self, column: Column, end: str, *, sql: bool) -> object:
        """Read a container that is NULL, or in quotes."""
        is_quoted = self.peek() in ("'", '"')
        text = self.scalar(end, sql=sql)
        if text is not None and not is_quoted:
            raise ValueError(self.text)
        return None if text is None else _parse(text, column)

    def struct(self, column: Column, *, sql: bool) -> tuple[object, ...]:
        fields: dict[str, object] = {}

        def field() -> None:
            name = self.scalar(":", sql=sql)
            self.expect(":")
            child = column.child(name) if name is not None else None
            if child is None:
                raise ValueError(self.text)
            fields[child.name] = self.value(child, ",}", sql=sql)

        self.members("{", "}", field)
        return tuple(fields.get(child.name) for child in column.children)

    def pair(self, column: Column) -> tuple[object, object]:
        key = self.value(column.children[0], "=", sql=False)
        self.expect("=")
        return key, self.value(column.children[1], ",}", sql=False)

    def members(self, opening: str, closing: str, read: Callable[[], object]) -> list[object]:
        self.expect(opening)
        values: list[object] = []
        if self.peek() != closing:
            values.append(read())
            while self.peek() == ",":
                self.expect(",")
                values.append(read())
        self.expect(closing)
        return values

    def scalar(self, end: str, *, sql: bool) -> str | None:
        """Read a scalar's text: quoted, `CAST('…' AS …)`, `CONCAT('…', chr(0), …)` or a bare word."""
        start = self.peek()
        if start and start in "'\"":
            return self.quoted(start, sql=sql)
        if self.text.startswith("CAST(", self.position):
            return self.cast()
        if self.text.startswith("CONCAT(", self.position):
            return self.concat()
        return self.bare(end)

    def quoted(self, quote: str, *, sql: bool) -> str:
        """Read a quoted text; a doubled quote is one, and outside of SQL a backslash protects what follows."""
        if sql:
            return self.match(rf"{quote}((?:[^{quote}]|{quote}{quote})*){quote}")[1].replace(quote * 2, quote)
        text = self.match(rf"{quote}((?:[^{quote}\\]|\\.|{quote}{quote})*){quote}")[1]
        return re.sub(rf"\\(.)|{quote}{quote}", lambda m: m[1] or quote, text, flags=re.DOTALL)

    def cast(self) -> str:
        self.match(r"CAST\(")
        text = self.quoted("'", sql=True)
        self.match(r"\s+AS\s+[A-Za-z_ ]+(?:\(\d+,\s*\d+\))?\)")
        return text

    def concat(self) -> str:
        self.match(r"CONCAT")
        parts = self.members("(", ")", self.concat_part)
        return "".join(str(part) for part in parts)

    def concat_part(self) -> str:
        if self.peek() == "'":
            return self.quoted("'", sql=True)
        return chr(int(self.match(r"chr\((\d+)\)")[1]))

    def bare(self, end: str) -> str | None:
        match = self.match(rf"[^{re.escape(end)}]*" if end else r".*")
        text = match[0].strip()
        if not text:
            raise ValueError(self.text)
        return None if text.upper() == "NULL" else text

    def match(self, pattern: str) -> re.Match[str]:
        match = re.compile(pattern, re.DOTALL).match(self.text, self.position)
        if match is None:
            raise ValueError(self.text)
        self.position = match.end()
        return match

    def peek(self) -> str:
        """Skip blanks and return the next character, or nothing at the end."""
        while self.text[self.position : self.position + 1].isspace():
            self.position += 1
        return self.text[self.position : self.position + 1]

    def expect(self, character: str) -> None:
        if self.peek() != character:
            raise ValueError(self.text)
        self.position += 1


# -------------------------------------------------------------------------------------------- build


def _build(values: list[object], column: Column, path: str) -> pa.Array:
    """Make an Arrow array of parsed values, parsing the scalars of each leaf all at once; `path` is for errors."""
    if not column.is_nested:
        return scalar_from_text(pa.array(values, pa.string()), column.type, path)
    mask = pa.array([value is None for value in values], pa.bool_())
    if column.kind is Kind.STRUCT:
        children = _build_children([_as_tuple(value, len(column.children)) for value in values], column, path)
        return pa.StructArray.from_arrays(children, fields=[arrow_field(c) for c in column.children], mask=mask)
    lists = [_as_list(value) for value in values]
    offsets = pa.array([0, *accumulate(len(one) for one in lists)], pa.int32())
    members = list(chain.from_iterable(lists))
    if column.kind is Kind.LIST:
        (element,) = _build_children([(member,) for member in members], column, path)
        return pa.ListArray.from_arrays(offsets, element, type=arrow_type(column), mask=mask)
    keys, items = _build_children([_as_tuple(pair, 2) for pair in members], column, path)
    return pa.MapArray.from_arrays(offsets, keys, items, type=arrow_type(column), mask=mask)


def _build_children(rows: Sequence[tuple[object, ...]], column: Column, path: str) -> list[pa.Array]:
    return [
        _build([row[index] for row in rows], child, f"{path}.{child.name}")
        for index, child in enumerate(column.children)
    ]


def _as_list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _as_tuple(value: object, width: int) -> tuple[object, ...]:
    return value if isinstance(value, tuple) else (None,) * width
