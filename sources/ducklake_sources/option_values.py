"""The values of a read's options, from their texts: each raises ValueError that says what it must be. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import Enum

from ducklake_core.feed.change_types import ChangeType
from ducklake_core.model import SnapshotId


class Start(Enum):
    """Where a change feed begins, when it is not a snapshot's id."""

    EARLIEST = "earliest"
    LATEST = "latest"


def parse_count(text: str) -> int:
    if not re.fullmatch(r"0*[1-9]\d*", text):
        raise ValueError("a number of at least 1")
    return int(text)


def parse_version(text: str) -> SnapshotId:
    if not re.fullmatch(r"\d+", text):
        raise ValueError("the id of a snapshot, a number such as 12")
    return SnapshotId(int(text))


def parse_start(text: str) -> SnapshotId | Start:
    if text.lower() in {start.value for start in Start}:
        return Start(text.lower())
    try:
        return parse_version(text)
    except ValueError:
        raise ValueError("'earliest', 'latest' or the id of a snapshot, a number such as 12") from None


def parse_timestamp(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a time such as '2026-01-31', '2026-01-31 12:30:00' or '2026-01-31T12:30:00+02:00'") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def parse_columns(text: str) -> tuple[str, ...]:
    """Split names by commas; a name in double quotes or backticks may hold anything, with its quote doubled."""
    names: list[str] = []
    position = 0
    while match := _COLUMN.match(text, position):
        quoted, name = match.group(1) or match.group(2), match.group(3)
        names.append(name.strip() if quoted is None else quoted[1:-1].replace(quoted[0] * 2, quoted[0]))
        position = match.end()
        if position == len(text) and not match.group(4):
            return tuple(names)
    raise ValueError('names separated by commas, odd ones quoted, as in: id, name, "unit, price"')


_COLUMN = re.compile(r"""\s*(?:("(?:[^"]|"")+")|(`(?:[^`]|``)+`)|([^",`]*[^",`\s]))\s*(?:(,)|$)""", re.DOTALL)


def parse_change_types(text: str) -> frozenset[ChangeType]:
    known = {kind.name: kind for kind in ChangeType}
    words = [word.strip().lower() for word in text.split(",")]
    if any(word not in known for word in words):
        raise ValueError(f"some of {', '.join(known)}, separated by commas")
    return frozenset(known[word] for word in words)
