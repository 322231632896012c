"""What the attempts of one upsert share: data files never change, so that none is searched twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ducklake_core.model import Column

if TYPE_CHECKING:
    from ducklake_core.upsert.search import Hits


@dataclass(slots=True)
class SearchMemory:
    """Rows of one table that have a key of one batch, by the path of their data file; None: there are none.

    For all attempts to write the same batch, and for no other. It ends with the columns that the rows were read by.
    """

    columns: tuple[Column, ...] = ()
    files: dict[str, Hits | None] = field(default_factory=dict)

    def of_columns(self, columns: tuple[Column, ...]) -> dict[str, Hits | None]:
        """Return what is known of rows with these columns."""
        if self.columns != columns:
            self.columns = columns
            self.files.clear()
        return self.files


@dataclass(slots=True)
class UpsertMemory:
    """The same of a table and of its companion."""

    table: SearchMemory = field(default_factory=SearchMemory)
    companion: SearchMemory = field(default_factory=SearchMemory)
