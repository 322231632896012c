"""Types as other formats write them in JSON → DuckLake's type texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ducklake_core.errors import UnsupportedType
from ducklake_core.spec.names import quoted


@dataclass(frozen=True, slots=True)
class TypeWords:
    """What a format calls its types. `list_type`: its word for lists; the others are keys of nested types."""

    format: str
    scalars: Mapping[str, str]
    list_type: str
    element: str
    key: str
    value: str

    def type_text(self, type_: Any, column: str) -> str:  # Any: a name, or an object that describes a nested type
        """Return the text of a type; raise UnsupportedType for one that a lake cannot hold."""
        if isinstance(type_, str):
            return self._scalar(type_, column)
        kind = type_["type"]
        if kind == "struct":
            fields = [f"{quoted(field['name'])} {self.type_text(field['type'], column)}" for field in type_["fields"]]
            return f"struct({', '.join(fields)})"
        if kind == self.list_type:
            return f"list({self.type_text(type_[self.element], column)})"
        if kind == "map":
            return f"map({self.type_text(type_[self.key], column)}, {self.type_text(type_[self.value], column)})"
        raise self._unknown(kind, column)

    def _scalar(self, type_: str, column: str) -> str:
        if re.fullmatch(r"decimal\(\d+,\s*\d+\)", type_):
            return type_
        found = self.scalars.get(type_.partition("[")[0])  # Iceberg has `fixed[16]`
        if found is None:
            raise self._unknown(type_, column)
        return found

    def _unknown(self, type_: str, column: str) -> UnsupportedType:
        message = f"column '{column}' has the type '{type_}' of {self.format}, which a lake cannot hold"
        return UnsupportedType(message, column=column)
