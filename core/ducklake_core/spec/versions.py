"""Versions of the catalog format: what each can do, and how its tables differ. The only place that compares them. Pure.

A version that is not in the table is refused: its catalog may mean something else by the same rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from ducklake_core.errors import CorruptCatalog, UnsupportedFormatVersion


class Feature(Enum):
    """What a format version may support; the value is how a message names it."""

    READ = "reading"
    WRITE = "writing"


@dataclass(frozen=True, slots=True)
class Layout:
    """In what the catalog tables of a format differ from those of 1.0, which `spec/tables.py` lists.

    Keys are tables, or columns as `table.column`. `names`: what the format calls one. `lacks`: what those who read find
    in each row instead of a column that is not there; a table that is not there has no rows. What a format adds needs
    no entry: nobody asks for it.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    lacks: Mapping[str, str | int | bool | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Format:
    """What is known of one version."""

    features: frozenset[Feature] = frozenset()
    layout: Layout = field(default_factory=Layout)


# Oldest first. Development versions are those the reference has ever written.
FORMATS: dict[str, Format] = {
    "0.1": Format(),
    "0.2": Format(),
    "0.3-dev1": Format(),
    "0.3": Format(),
    "0.4-dev1": Format(),
    "0.4": Format(),
    "1.0": Format(frozenset({Feature.READ, Feature.WRITE})),
    "1.1-dev1": Format(),
    "1.1": Format(),
}


@dataclass(frozen=True, slots=True)
class FormatVersion:
    """The version of a catalog. Build it with `parse`."""

    text: str

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Take the value of the catalog's `version` row; raise UnsupportedFormatVersion for an unknown one."""
        if text is None:
            raise CorruptCatalog("cannot use the lake: its 'ducklake_metadata' has no row with key 'version'")
        version = cls(text)
        if text not in FORMATS:
            raise UnsupportedFormatVersion(
                f"cannot use the lake: its format '{text}' is unknown; {_NEWER_REMEDY}", version=text
            )
        return version

    @property
    def layout(self) -> Layout:
        return FORMATS[self.text].layout

    def supports(self, feature: Feature) -> bool:
        return feature in FORMATS[self.text].features

    def require(self, feature: Feature) -> None:
        """Raise UnsupportedFormatVersion, with the remedy, when the version does not support the feature."""
        if self.supports(feature):
            return
        needed = " or ".join(f"'{text}'" for text, format_ in FORMATS.items() if feature in format_.features)
        order = list(FORMATS)
        remedy = _OLDER_REMEDY if order.index(self.text) < order.index(CURRENT.text) else _NEWER_REMEDY
        raise UnsupportedFormatVersion(
            f"the lake has format '{self.text}', but {feature.value} needs format {needed}; {remedy}",
            version=self.text,
            feature=feature.value,
        )


CURRENT = FormatVersion("1.0")  # of the lakes we create
# DuckDB 2.0 would go on to 1.1, and no lake ever comes back from a newer format.
_OLDER_REMEDY = (
    "upgrade the lake to 1.0 by attaching it once with DuckDB 1.5: ATTACH 'ducklake:…' AS lake (AUTOMATIC_MIGRATION "
    "true); or with DuckDB 2.0: ATTACH 'ducklake:…' AS lake (AUTOMATIC_MIGRATION true, DUCKLAKE_VERSION '1.0')"
)
_NEWER_REMEDY = "upgrade ducklake-streaming to a release that knows it"
