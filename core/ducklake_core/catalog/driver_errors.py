"""What the drivers of catalog databases raise, and which error of ours that is. Runs at the edge of a session.

Each database tells what the errors of its driver mean, in a folder of its own; here they get their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from ducklake_core.errors import (
    CatalogError,
    CatalogForbidden,
    CatalogLimitExceeded,
    CatalogTableMissing,
    CatalogUnavailable,
    ContentionError,
    CorruptCatalog,
    DuckLakeError,
    InvalidInput,
)


class Fault(Enum):
    """What an error of a driver means for us."""

    AWAY = auto()  # not reached, not ready or locked: the same may go well in a moment
    CONTENTION = auto()  # another has written the same: the same may go well at once, on what is there now
    NOT_LET_IN = auto()
    FORBIDDEN = auto()
    READ_ONLY = auto()  # nobody may write there: a standby, until it is the primary, or a setting
    WRONG_ADDRESS = auto()
    LIMIT = auto()
    MISSING = auto()
    INVALID = auto()
    CORRUPT = auto()
    REFUSED = auto()  # whatever else: a fault of the catalog, of its database or of ours


@dataclass(frozen=True, slots=True)
class Meaning:
    """What an error means, and what helps; `sqlstate` is its code, where the database has such."""

    fault: Fault
    helps: str = ""
    sqlstate: str | None = None


def _never(_: BaseException) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class DriverErrors:
    """What one driver raises: its own errors, which SQLAlchemy may have wrapped, are taken out before it is asked.

    `refusal`: what an error means that was raised when connecting, if that is another matter.
    `is_stale_assumption`: whether the database has found that the head is not what was assumed; None: it is given no
    guard, the head is always read. `is_other_layout`: whether it does not know a table or column, or not as we do.
    `leaves_doubt`: whether an error of COMMIT does not tell what became of it.
    """

    raised: type[Exception]
    meaning_of: Callable[[Exception], Meaning]
    refusal: Callable[[Exception], Meaning] | None = None
    is_stale_assumption: Callable[[BaseException], bool] | None = None
    is_other_layout: Callable[[BaseException], bool] = _never
    leaves_doubt: Callable[[BaseException], bool] = _never

    def meaning(self, error: BaseException, *, when_connecting: bool = False) -> Meaning:
        """Return what an error means, of the driver or of SQLAlchemy's own."""
        if not isinstance(error, self.raised):
            return Meaning(Fault.AWAY if isinstance(error, PoolTimeout) else Fault.REFUSED)
        return (self.refusal if when_connecting and self.refusal else self.meaning_of)(error)


def named(error: BaseException, meaning: Meaning, act: str, catalog: str) -> DuckLakeError:
    """Return the error that says what a driver's error was: what was attempted, on which catalog, and what helps.

    `act` is such as "read", "connect to".
    """
    found = f"catalog '{catalog}': {first_line(driver_error(error))}"
    helps = f"; {meaning.helps}" if meaning.helps else ""
    facts = {} if meaning.sqlstate is None else {"sqlstate": meaning.sqlstate}
    match meaning.fault:
        case Fault.AWAY:
            return CatalogUnavailable(f"cannot {act} {found}{helps}", **facts)
        case Fault.CONTENTION:
            return ContentionError(f"another has changed {found}; retries are exhausted", **facts)
        case Fault.FORBIDDEN | Fault.READ_ONLY:
            return CatalogForbidden(f"may not {act} {found}{helps}", **facts)
        case fault:
            return _TERMINAL[fault](f"cannot {act} {found}{helps}", **facts)


_TERMINAL: Mapping[Fault, type[DuckLakeError]] = {
    Fault.NOT_LET_IN: CatalogForbidden,
    Fault.WRONG_ADDRESS: CatalogError,
    Fault.LIMIT: CatalogLimitExceeded,
    Fault.MISSING: CatalogTableMissing,
    Fault.INVALID: InvalidInput,
    Fault.CORRUPT: CorruptCatalog,
    Fault.REFUSED: CatalogError,
}


def longest_match(known: Mapping[str, Meaning], code: str) -> Meaning:
    """Return the meaning of the longest entry that a code begins with."""
    prefixes = [prefix for prefix in known if code.startswith(prefix)]
    return known[max(prefixes, key=len)] if prefixes else Meaning(Fault.REFUSED)


def driver_error(error: BaseException) -> BaseException:
    """Return the driver's own error beneath what SQLAlchemy and we have made of it."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        return error.orig
    if isinstance(error, DuckLakeError) and error.__cause__ is not None:
        return driver_error(error.__cause__)
    return error


def first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
