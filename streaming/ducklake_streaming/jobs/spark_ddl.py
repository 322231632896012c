"""Spark's DDL of a schema (`id bigint, at timestamp`) as a StructType, without Java. Pure; runs before Spark starts.

PySpark asks the JVM to parse it, and sqlglot takes more than Spark does. A test compares this with Spark's own parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pyspark.sql import types as spark_types
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from ducklake_core.spec.names import nearest_name

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<word>\w+)|(?P<sign>[<>(),:]))"""
)
_PLAIN: dict[str, Callable[[], DataType]] = {
    **dict.fromkeys(("bigint", "long"), spark_types.LongType),
    **dict.fromkeys(("int", "integer"), spark_types.IntegerType),
    **dict.fromkeys(("smallint", "short"), spark_types.ShortType),
    **dict.fromkeys(("tinyint", "byte"), spark_types.ByteType),
    **dict.fromkeys(("float", "real"), spark_types.FloatType),
    **dict.fromkeys(("timestamp", "timestamp_ltz"), spark_types.TimestampType),
    "boolean": spark_types.BooleanType,
    "double": spark_types.DoubleType,
    "string": spark_types.StringType,
    "binary": spark_types.BinaryType,
    "date": spark_types.DateType,
    "timestamp_ntz": spark_types.TimestampNTZType,
    "variant": spark_types.VariantType,
}
_DECIMALS = ("decimal", "dec", "numeric")
_SIZED: dict[str, Callable[[int], DataType]] = {
    "char": spark_types.CharType,
    "character": spark_types.CharType,
    "varchar": spark_types.VarcharType,
}
_NESTED = ("array", "map", "struct")
_KNOWN = (*_PLAIN, *_DECIMALS, *_SIZED, *_NESTED)


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text, and where it begins."""

    kind: str
    text: str
    position: int


def parse_ddl(text: str) -> StructType:
    """Return the schema; raise ValueError that says what is wrong and where."""
    parser = _Parser(text)
    fields = parser.fields(end="")
    if not fields:
        raise ValueError("it has no columns")
    return StructType(fields)


class _Parser:
    """Takes the tokens of a text one after the other."""

    def __init__(self, text: str) -> None:
        self._tokens = list(_split(text))
        self._next = 0

    def fields(self, end: str) -> list[StructField]:
        """Take the fields up to a sign, or to the end of the text, which is the empty sign."""
        found: list[StructField] = []
        while self._peek().text != end or (found and self._before() == ","):
            found.append(self._field())
            if self._peek().text != end:
                self._take(",")
        names = [field.name for field in found]
        doubled = next((name for name in names if names.count(name) > 1), None)
        if doubled is not None:
            raise ValueError(f"it has the column '{doubled}' twice")
        return found

    def _field(self) -> StructField:
        token = self._peek()
        if token.kind not in ("word", "quoted"):
            raise self._unexpected("a column's name")
        self._next += 1
        name = token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
        self._skip(":")
        kind = self._type(f"column '{name}'")
        nullable = not self._skip("not")
        if not nullable:
            self._take("null")
        return StructField(name, kind, nullable, self._comment())

    def _comment(self) -> dict[str, str] | None:
        if not self._skip("comment"):
            return None
        token = self._peek()
        if token.kind != "text":
            raise self._unexpected("a comment in quotes")
        self._next += 1
        return {"comment": re.sub(r"\\(.)", r"\1", token.text[1:-1])}

    def _type(self, owner: str) -> DataType:
        token = self._peek()
        name = token.text.lower()
        if token.kind != "word":
            raise self._unexpected(f"the type of {owner}")
        self._next += 1
        if name in _PLAIN:
            return _PLAIN[name]()
        if name in _DECIMALS:
            return self._decimal()
        if name in _SIZED:
            return _SIZED[name](self._numbers(owner, 1)[0])
        if name in _NESTED:
            return self._nested(name, owner)
        near = nearest_name(name, _KNOWN) or _OF_OTHERS.get(name)
        hint = f"did you mean '{near}'?" if near else f"known are {', '.join(sorted(_KNOWN))}"
        raise ValueError(f"{owner} has the unknown type '{token.text}': {hint}")

    def _decimal(self) -> DataType:
        if self._peek().text != "(":
            return DecimalType(10, 0)
        precision, scale, *_ = [*self._numbers("a decimal", 2), 0]
        if not 1 <= precision <= 38 or scale > precision:
            raise ValueError(f"decimal({precision},{scale}) cannot be: 38 digits at most, and no more after the point")
        return DecimalType(precision, scale)

    def _numbers(self, owner: str, most: int) -> list[int]:
        self._take("(")
        found: list[int] = []
        while not found or (len(found) < most and self._skip(",")):
            if not self._peek().text.isdecimal():
                raise self._unexpected(f"a number for the size of {owner}")
            found.append(int(self._peek().text))
            self._next += 1
        self._take(")")
        return found

    def _nested(self, name: str, owner: str) -> DataType:
        self._take("<")
        if name == "struct":
            made: DataType = StructType(self.fields(end=">"))
        elif name == "array":
            made = ArrayType(self._type(owner))
        else:
            key = self._type(owner)
            self._take(",")
            made = MapType(key, self._type(owner))
        self._take(">")
        return made

    def _peek(self) -> Token:
        return self._tokens[self._next]

    def _before(self) -> str:
        return self._tokens[self._next - 1].text

    def _skip(self, text: str) -> bool:
        found = self._peek().kind in ("word", "sign") and self._peek().text.lower() == text
        self._next += found
        return found

    def _take(self, text: str) -> None:
        if not self._skip(text):
            raise self._unexpected(f"'{text.upper()}'")

    def _unexpected(self, wanted: str) -> ValueError:
        token = self._peek()
        found = f"'{token.text}' at position {token.position + 1}" if token.text else "the end"
        return ValueError(f"{wanted} is missing before {found}")


def _split(text: str) -> Iterator[Token]:
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            begin = position + len(text[position:]) - len(text[position:].lstrip())
            raise ValueError(f"{text[begin]!r} at position {begin + 1} cannot be read")
        yield Token(match.lastgroup, match[match.lastgroup], match.start(match.lastgroup))
        position = match.end()
    yield Token("end", "", end)


# Types of other databases, and what Spark calls them.
_OF_OTHERS = {
    "bool": "boolean",
    "blob": "binary",
    "bytes": "binary",
    "bytea": "binary",
    "datetime": "timestamp",
    "float4": "float",
    "float8": "double",
    "hugeint": "decimal(38,0)",
    "interval": "string",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "int32": "int",
    "int64": "bigint",
    "json": "string",
    "jsonb": "string",
    "list": "array",
    "number": "decimal",
    "str": "string",
    "text": "string",
    "time": "string",
    "timestamptz": "timestamp",
    "uuid": "string",
}
