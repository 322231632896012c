"""Versions of the catalog format, and what each can do. The only place that compares versions. Pure.

A version that is not in the table is refused: its catalog may mean something else by the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Self

from ducklake_core.errors import CorruptCatalog, UnsupportedFormatVersion


class Feature(Enum):
    """What a format version may support; the value is how a message names it."""

    READ = "reading"
    WRITE = "writing"


# Oldest first. Development versions are those the reference has ever written.
_FEATURES: dict[str, frozenset[Feature]] = {
    "0.1": frozenset(),
    "0.2": frozenset(),
    "0.3-dev1": frozenset(),
    "0.3": frozenset(),
    "0.4-dev1": frozenset(),
    "0.4": frozenset(),
    "1.0": frozenset({Feature.READ, Feature.WRITE}),
    "1.1-dev1": frozenset(),
    "1.1": frozenset(),
}
_ORDER = {text: rank for rank, text in enumerate(_FEATURES)}


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
        if text not in _FEATURES:
            raise UnsupportedFormatVersion(
                f"cannot use the lake: its format '{text}' is unknown; {_NEWER_REMEDY}", version=text
            )
        return version

    def supports(self, feature: Feature) -> bool:
        return feature in _FEATURES[self.text]

    def require(self, feature: Feature) -> None:
        """Raise UnsupportedFormatVersion, with the remedy, when the version does not support the feature."""
        if self.supports(feature):
            return
        needed = " or ".join(f"'{text}'" for text, features in _FEATURES.items() if feature in features)
        remedy = _OLDER_REMEDY if _ORDER[self.text] < _ORDER[CURRENT.text] else _NEWER_REMEDY
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
