"""What the attempts of one upsert share: data files never change, so that none is searched twice. Who searches them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ducklake_core.model import Column
from ducklake_core.tasks import Runner
from ducklake_core.upsert.key_index import KeyIndex

if TYPE_CHECKING:
    from ducklake_core.upsert.hits import Hits


@dataclass(frozen=True, slots=True)
class ReadValues:
    """Which values of rows were read: those of some columns of a file, as the table has its columns."""

    path: str
    columns: tuple[Column, ...]
    table_columns: tuple[Column, ...]


@dataclass(slots=True)
class SearchMemory:
    """Rows of one table that have a key of one batch, by the path of their data file; None: there are none.

    `values`: what such rows have, by their positions. For all attempts to write the same batch. It ends with the
    columns that rows were read by, and with the keys: rows are known by the number of their key in the batch, which
    says nothing of a batch that has other ones. `runner`: who does tasks elsewhere, where much is to be read; `asked`:
    what they do with rows that they have found.
    """

    columns: tuple[Column, ...] = ()
    index: KeyIndex | None = None
    files: dict[str, Hits | None] = field(default_factory=dict)
    values: dict[ReadValues, tuple[np.ndarray, pa.Table]] = field(default_factory=dict)
    runner: Runner | None = None
    asked: object = None

    def of(self, columns: tuple[Column, ...], index: KeyIndex, asked: object = None) -> dict[str, Hits | None]:
        """Return what is known of rows with these columns and of these keys, by tasks that were asked the same."""
        is_same = self.columns == columns and self.asked == asked
        if not is_same or self.index is None or not self.index.has_same_numbers(index):
            self.files.clear()
            self.values.clear()
        self.columns, self.index, self.asked = columns, index, asked
        return self.files


@dataclass(slots=True)
class UpsertMemory:
    """The same of a table and of its companion."""

    table: SearchMemory = field(default_factory=SearchMemory)
    companion: SearchMemory = field(default_factory=SearchMemory)

    @classmethod
    def searched_by(cls, runner: Runner) -> UpsertMemory:
        """Return an empty one, of an upsert whose large searches are done elsewhere."""
        return cls(SearchMemory(runner=runner), SearchMemory(runner=runner))
