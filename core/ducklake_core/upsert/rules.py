"""How events are applied to a table, as a user says it. Values only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, Literal, TypedDict, Unpack

from ducklake_core.errors import InvalidInput
from ducklake_core.spec.names import fold
from ducklake_core.spec.quantities import parse_duration

OnDuplicateKeys = Literal["error", "keep_first"]
DEFAULT_KEEP_DELETED = "7d"
SCD_TYPES = (1, 2)


class UpsertArguments(TypedDict, total=False):
    """What `upsert` takes beside the keys; see `UpsertRules`."""

    sequence_by: str | Sequence[str] | None
    apply_as_deletes: str | None
    apply_as_truncates: str | None
    except_columns: Sequence[str]
    ignore_null_updates: bool
    kept_columns: str | None
    old_keys: str | None
    fill_missing: bool
    on_duplicate_keys: OnDuplicateKeys
    keep_deleted_keys: str | float | timedelta
    stored_as_scd_type: int
    track_history_columns: str | Sequence[str]
    inline_rows: int | None
    inline_bytes: int


@dataclass(frozen=True, slots=True)
class UpsertRules:
    """How events are applied.

    `sequence_by`: columns that order events, compared one after the other; () is the order of arrival.
    `apply_as_deletes`, `apply_as_truncates`: a boolean column or a condition over the events' columns.
    `except_columns`: columns of the events that the table does not get. `ignore_null_updates`: a null leaves the value
    that the row has. `kept_columns`: a column of the events with lists of columns that the event does not tell: the
    row keeps their values, and there must be one. `old_keys`: a column of the events with structs of the key that a row
    had before, null where it stays: that key is deleted. `fill_missing`: columns that the events lack keep their
    values, and get defaults in new rows.
    `on_duplicate_keys`: what becomes of a key that the table has twice: an error, or the row of the lowest id is kept.
    `keep_deleted_keys`: how long a deleted key is remembered, so that an event from before it is known to be late.
    `stored_as_scd_type`: 1 keeps the last row of each key, 2 all its versions, each with when it began and ended.
    `track_history_columns`: those of which another value makes a new version; () is all that are no keys.
    `inline_rows`, `inline_bytes`: up to which size rows are kept in the catalog, as in `Transaction.append`.
    """

    keys: tuple[str, ...]
    sequence_by: tuple[str, ...] = ()
    apply_as_deletes: str | None = None
    apply_as_truncates: str | None = None
    except_columns: tuple[str, ...] = ()
    ignore_null_updates: bool = False
    kept_columns: str | None = None
    old_keys: str | None = None
    fill_missing: bool = False
    on_duplicate_keys: OnDuplicateKeys = "error"
    deletes_all: bool = False  # each event deletes its key
    keep_deleted: timedelta = timedelta(days=7)
    stored_as_scd_type: int = 1
    track_history_columns: tuple[str, ...] = ()
    inline_rows: int | None = None
    inline_bytes: int | None = None

    @property
    def keeps_history(self) -> bool:
        return self.stored_as_scd_type == 2

    @property
    def says_all(self) -> bool:
        """Tell whether an event says all that there is of its row."""
        return not self.ignore_null_updates and self.kept_columns is None and not self.fill_missing

    @classmethod
    def of(cls, keys: str | Sequence[str], **arguments: Unpack[UpsertArguments]) -> UpsertRules:
        """Make them of what users say; raise InvalidInput."""
        names = _names(keys)
        if not names:
            raise InvalidInput("an upsert needs keys: name the columns that tell rows apart, as in keys=['id']")
        kept, old = arguments.get("kept_columns"), arguments.get("old_keys")
        excepted = (*_names(arguments.get("except_columns", ())), *(name for name in (kept, old) if name is not None))
        if left_out := {fold(name) for name in names} & {fold(name) for name in excepted}:
            raise InvalidInput(f"except_columns has the key {sorted(left_out)}: rows without it cannot be told apart")
        for problem in history_problems(arguments):
            raise InvalidInput(problem)
        policy = arguments.get("on_duplicate_keys", "error")
        if policy not in ("error", "keep_first"):
            raise InvalidInput(f"on_duplicate_keys is {policy!r}, but must be 'error' or 'keep_first'")
        return cls(
            keys=names,
            sequence_by=_names(arguments.get("sequence_by") or ()),
            apply_as_deletes=arguments.get("apply_as_deletes"),
            apply_as_truncates=arguments.get("apply_as_truncates"),
            except_columns=excepted,
            ignore_null_updates=arguments.get("ignore_null_updates", False),
            kept_columns=kept,
            old_keys=old,
            fill_missing=arguments.get("fill_missing", False),
            on_duplicate_keys=policy,
            keep_deleted=_duration(arguments.get("keep_deleted_keys", DEFAULT_KEEP_DELETED)),
            stored_as_scd_type=arguments.get("stored_as_scd_type", 1),
            track_history_columns=_names(arguments.get("track_history_columns", ())),
            inline_rows=arguments.get("inline_rows"),
            inline_bytes=arguments.get("inline_bytes"),
        )


def history_problems(given: Mapping[str, Any]) -> Iterator[str]:  # Any: each is of its own type
    """Yield what is wrong with arguments about versions of rows."""
    type_, sequence = given.get("stored_as_scd_type", 1), _names(given.get("sequence_by") or ())
    if type_ not in SCD_TYPES:
        yield f"stored_as_scd_type is {type_!r}, but must be 1 or 2"
    elif type_ == 1:
        if given.get("track_history_columns"):
            yield "track_history_columns is about versions of rows: it needs stored_as_scd_type=2"
    elif len(sequence) != 1:
        yield (
            f"stored_as_scd_type=2 needs one column in sequence_by, and has {list(sequence)}: when versions begin and "
            "end is of its type; make one column of several first"
        )
    for name in ("ignore_null_updates", "kept_columns", "apply_as_truncates") if type_ == 2 else ():
        if given.get(name):
            yield f"{name} goes with stored_as_scd_type=1 only: a version is what its own event says"


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


@lru_cache(maxsize=64)
def _duration(given: str | float | timedelta) -> timedelta:
    try:
        return parse_duration(given)
    except ValueError as error:
        raise InvalidInput(f"keep_deleted_keys is {given!r}, but must be {error}") from error
