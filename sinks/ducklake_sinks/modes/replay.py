"""Dead letters are fed in again: their rows are added, and the letters marked, in one snapshot. Runs on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from ducklake_core import Transaction
from ducklake_sinks.collector import BatchSize
from ducklake_sinks.destination import Destination
from ducklake_sinks.letter_positions import positions_of
from ducklake_sinks.modes.append import AppendMode
from ducklake_sinks.options import SinkOptions
from ducklake_sinks.part import Part, Quarantine
from ducklake_sinks.table_setup import TableSetup

Place: TypeAlias = tuple[str, int, int]  # topic, partition, offset


class ReplayMode(AppendMode):
    """Adds the rows of some letters. Those that fail again keep their letter, with the new reason.

    `ids`: the row ids of the letters, which they keep, here and however often their table is flushed. In each attempt
    their versions of before are looked for and ended: another who feeds in the same letters meanwhile gets a conflict.
    """

    def __init__(
        self, setup: TableSetup, options: SinkOptions, quarantine: Quarantine, ids: Sequence[int], letters: pa.Table
    ) -> None:
        super().__init__(setup, options, quarantine)
        self._ids = ids
        self._letters = letters
        self._at = quarantine.batch.at
        self._failed: dict[Place, dict[str, Any]] = {}  # Any: columns of a letter
        self._setup.tables.sizes[options.dead_letters] = BatchSize.SMALL  # letters that fail come to the driver

    @property
    def failed(self) -> int:
        """How many letters have failed again."""
        return len(self._failed)

    def accept(self, destination: Destination) -> None:
        super().accept(destination)
        self._setup.tables.sizes[destination.key] = BatchSize.SMALL

    def prepare(self, core: Transaction, parts: Sequence[Part]) -> None:
        self._failed.clear()
        super().prepare(core, parts)

    def stage(self, core: Transaction, part: Part) -> None:
        if part.schema is not None:
            super().stage(core, part)
        elif part.rows is not None:
            is_known = pc.is_valid(part.rows.column("offset"))
            self._failed.update({_place(letter): letter for letter in part.rows.filter(is_known).to_pylist()})
            others = part.rows.filter(pc.invert(is_known))  # rows of several records: they get letters of their own
            if others.num_rows:
                super().stage(core, replace(part, rows=others))

    def finish(self, core: Transaction) -> None:
        table = self._options.dead_letters
        positions = positions_of(self._setup.lake, table, self._ids, at=core.base.snapshot_id)
        core.end_rows(table, positions, core.base.snapshot_id)
        letters = [_renewed(letter, self._failed.get(_place(letter)), self._at) for letter in self._letters.to_pylist()]
        rows = pa.Table.from_pylist(letters, self._letters.schema)
        core.append(table, rows, inline_rows=self._options.inline_rows, row_ids=self._ids)


def _place(letter: dict[str, Any]) -> Place:  # Any: columns of a letter
    return letter["topic"], letter["partition"], letter["offset"]


def _renewed(letter: dict[str, Any], failed: dict[str, Any] | None, at: datetime) -> dict[str, Any]:  # Any: see above
    """Return a letter that was fed in: marked, or with why it has failed again."""
    if failed is None:
        return {**letter, "replayed_at": at}
    return {**letter, **{name: failed[name] for name in ("table_name", "reason", "row")}, "quarantined_at": at}
