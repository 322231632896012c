"""What a mode of writing is. Runs on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from ducklake_core import Transaction
from ducklake_core.errors import CommitConflict
from ducklake_core.upsert.report import UpsertReport
from ducklake_sinks.destination import Destination
from ducklake_sinks.part import Part


class OnConflict(Enum):
    """What follows on a conflict with another writer."""

    REBUILD = "rebuild"  # the same parts are staged again, in a new transaction of the lake
    GIVE_UP = "give up"  # the conflict is the batch's error


class Mode(Protocol):
    """One for each batch: its frames are accepted first; then all parts are prepared and staged, anew in each attempt.

    `dead_letters`: those that were staged last, whether they came as such or were found while staging. `applied`: what
    became of changes that were staged last, each with their table.
    """

    @property
    def dead_letters(self) -> Sequence[Part]: ...

    @property
    def looks_for_rows(self) -> bool:
        """Whether rows of tables are looked for, as far as is known: then it must begin with the last commit."""

    @property
    def applied(self) -> Sequence[tuple[str, UpsertReport]]: ...

    def accept(self, destination: Destination) -> None:
        """Take notice of where rows go, before they are read; raise InvalidInput where this mode cannot write them."""

    def prepare(self, core: Transaction, parts: Sequence[Part]) -> None:
        """Make the tables ready for all parts, before any of them is staged."""

    def stage(self, core: Transaction, part: Part) -> None:
        """Put one part into the lake's transaction."""

    def finish(self, core: Transaction) -> None:
        """Put into the lake's transaction what is known only after all parts are staged."""

    def on_conflict(self, error: CommitConflict) -> OnConflict:
        """Say what follows on a conflict of what was prepared last."""
