"""What the doctor found, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How bad it is. Error: rows are wrong or cannot be read, or the next write makes them so."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of thing that is broken in one table; `table` None: in the lake as a whole.

    `code` is its stable name. `found` says how often it is there, and where, with ids. `sql` shows it: it runs as it
    stands in the catalog's database. `helps` says what to do. `can_repair`: the doctor itself can mend it; `repaired`
    says what he did.
    """

    code: str
    severity: Severity
    table: str | None
    found: str
    sql: str
    helps: str
    can_repair: bool = False
    repaired: str | None = None
