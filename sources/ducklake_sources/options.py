"""What a read is told: Spark's options, parsed and checked once, every mistake at once. Opens nothing; pickles.

Runs where Spark makes the data source (a Python process of the driver). Spark's option names are camelCase and equal
regardless of case. No message and no repr shows a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from ducklake_core.catalog.urls import CatalogUrl
from ducklake_core.errors import DuckLakeError, InvalidInput
from ducklake_core.feed.change_types import ChangeType
from ducklake_core.model import SnapshotId
from ducklake_core.spec.names import nearest_name, split_table_name
from ducklake_core.spec.paths import hide_password
from ducklake_core.spec.quantities import parse_duration, parse_size
from ducklake_sources.refusals import no_tables_of_spark


class Start(Enum):
    """Where a change feed begins, when it is not a snapshot's id."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of `format("ducklake")`; `docs/read-tables.md` explains them. None: not given.

    Timestamps have a time zone: UTC, where none was given. Versions are snapshot ids.
    """

    catalog: str
    table: str
    metadata_schema: str | None = None
    data_path: str | None = None
    catalog_timeout: timedelta = timedelta(minutes=2)
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    filter_pushdown: bool = False
    version_as_of: SnapshotId | None = None
    timestamp_as_of: datetime | None = None
    read_change_feed: bool = False
    starting_version: SnapshotId | Start | None = None
    starting_timestamp: datetime | None = None
    ending_version: SnapshotId | None = None
    ending_timestamp: datetime | None = None
    change_types: frozenset[ChangeType] = frozenset(ChangeType)
    net_changes: bool = False
    max_versions_per_trigger: int = 1000
    max_rows_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    fail_on_data_loss: bool = True
    skip_change_commits: bool = False
    ignore_deletes: bool = False
    schema_tracking_location: str | None = None
    consumer_id: str | None = None
    consumer_expiration: timedelta = timedelta(days=7)

    @property
    def shown_catalog(self) -> str:
        """The catalog's address without its password."""
        return CatalogUrl.parse(self.catalog).shown

    def __repr__(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        shown["catalog"] = self.shown_catalog
        if self.data_path is not None:
            shown["data_path"] = hide_password(self.data_path)
        return f"SourceOptions({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Return the options; raise InvalidInput that lists everything that is wrong with them."""
    if "provider" in {key.lower() for key in given}:  # Spark's, of a table in its own catalog
        raise no_tables_of_spark()
    problems: list[str] = []
    values: dict[str, Any] = {}  # Any: each option is of its own type
    for key, text in given.items():
        name = _NAMES.get(key.lower())
        if name is None:
            problems.append(_unknown(key))
            continue
        try:
            values[_field(name)] = _PARSERS[name](text.strip())
        except DuckLakeError as error:
            problems.append(f"{name} is wrong: {error}")
        except ValueError as error:
            problems.append(f"{name} is {text!r}, but must be {error}")
    given_names = {key.lower() for key in given}
    problems += [f"{name} is missing: {why}" for name, why in _REQUIRED.items() if name not in given_names]
    problems += _contradictions(values)
    if problems:
        raise InvalidInput("cannot read from a DuckLake: " + "; ".join(problems), problems=problems)
    return SourceOptions(**values)


def check_table_read(options: SourceOptions) -> None:
    """Refuse options that would not be heeded when the table itself is read as a batch."""
    _refuse(options, _RANGE, "is for a change feed: add readChangeFeed=true, or use versionAsOf or timestampAsOf")
    _refuse(options, (*_STREAM_ONLY, "failOnDataLoss"), "is for streams: use readStream, or leave it out")


def check_change_read(options: SourceOptions) -> None:
    """Refuse options that would not be heeded when changes are read as a batch."""
    _refuse(options, _STREAM_ONLY, "is for streams: use readStream, or leave it out")


def has_range(options: SourceOptions) -> bool:
    """Tell whether some snapshots were chosen, and not one."""
    return any(getattr(options, _field(name)) is not None for name in _RANGE)


def check_stream(options: SourceOptions) -> None:
    """Refuse options that would not be heeded by a stream."""
    _refuse(options, _TIME_TRAVEL, "is for batch reads: a stream begins at startingVersion or startingTimestamp")
    _refuse(options, _FILTERS, "is for batch reads of a table: filter the stream itself")


def _refuse(options: SourceOptions, names: tuple[str, ...], why: str) -> None:
    defaults = {f.name: f.default for f in fields(SourceOptions)}
    problems = [f"{name} {why}" for name in names if getattr(options, _field(name)) != defaults[_field(name)]]
    if problems:
        raise InvalidInput("cannot read from a DuckLake: " + "; ".join(problems), problems=problems)


# ------------------------------------------------------------------------------------------ one value


def _text(text: str) -> str:
    if not text:
        raise ValueError("a text that is not empty")
    return text


def _catalog(text: str) -> str:
    CatalogUrl.parse(text)
    return text


def _table(text: str) -> str:
    split_table_name(text)
    return text


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("'true' or 'false'")
    return text.lower() == "true"


def _count(text: str) -> int:
    if not re.fullmatch(r"0*[1-9]\d*", text):
        raise ValueError("a number of at least 1")
    return int(text)


def _version(text: str) -> SnapshotId:
    if not re.fullmatch(r"\d+", text):
        raise ValueError("the id of a snapshot, a number such as 12")
    return SnapshotId(int(text))


def _start(text: str) -> SnapshotId | Start:
    if text.lower() in {start.value for start in Start}:
        return Start(text.lower())
    try:
        return _version(text)
    except ValueError:
        raise ValueError("'earliest', 'latest' or the id of a snapshot, a number such as 12") from None


def _timestamp(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("a time such as '2026-01-31', '2026-01-31 12:30:00' or '2026-01-31T12:30:00+02:00'") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _columns(text: str) -> tuple[str, ...]:
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


def _change_types(text: str) -> frozenset[ChangeType]:
    known = {kind.name: kind for kind in ChangeType}
    words = [word.strip().lower() for word in text.split(",")]
    if any(word not in known for word in words):
        raise ValueError(f"some of {', '.join(known)}, separated by commas")
    return frozenset(known[word] for word in words)


_PARSERS: Mapping[str, Callable[[str], object]] = {
    "catalog": _catalog,
    "table": _table,
    "metadataSchema": _text,
    "dataPath": _text,
    "catalogTimeout": parse_duration,
    "columns": _columns,
    "filter": _text,
    "filterPushdown": _flag,
    "versionAsOf": _version,
    "timestampAsOf": _timestamp,
    "readChangeFeed": _flag,
    "startingVersion": _start,
    "startingTimestamp": _timestamp,
    "endingVersion": _version,
    "endingTimestamp": _timestamp,
    "changeTypes": _change_types,
    "netChanges": _flag,
    "maxVersionsPerTrigger": _count,
    "maxRowsPerTrigger": _count,
    "maxBytesPerTrigger": parse_size,
    "failOnDataLoss": _flag,
    "skipChangeCommits": _flag,
    "ignoreDeletes": _flag,
    "schemaTrackingLocation": _text,
    "consumerId": _text,
    "consumerExpiration": parse_duration,
}
_NAMES = {name.lower(): name for name in _PARSERS}
_REQUIRED = {
    "catalog": "give the address of the catalog, such as 'postgresql://user@host/database' or 'sqlite:///lake.sqlite'",
    "table": "give the name of a table, such as 'main.events'",
}


def _field(name: str) -> str:
    """Return the field of SourceOptions for an option: `maxRowsPerTrigger` is `max_rows_per_trigger`."""
    return re.sub(r"[A-Z]", lambda match: f"_{match.group().lower()}", name)


def _unknown(key: str) -> str:
    if key.lower() in ("path", "paths"):  # what load("…") sets; not shown, for it may be an address with a password
        return "load() takes no path here: name the lake by the option 'catalog' and the table by the option 'table'"
    if key.lower().replace("_", "") in _NAMES:
        return f"there is no option '{key}': did you mean '{_NAMES[key.lower().replace('_', '')]}'?"
    argument = next((name for name in SINK_ARGUMENTS if name.replace("_", "") == key.lower().replace("_", "")), None)
    if argument is not None:
        return f"'{key}' is no option of reads: it is the argument {argument} of DuckLakeSink, which writes"
    if key.lower() in _OF_OTHERS:
        return f"there is no option '{key}': {_OF_OTHERS[key.lower()]}"
    near = nearest_name(key.lower(), _NAMES)
    hint = f"did you mean '{_NAMES[near]}'?" if near else f"known are {', '.join(_PARSERS)}"
    return f"there is no option '{key}': {hint}"


# What only writes take; a test compares it with the sink's own list.
SINK_ARGUMENTS = (
    *("route", "stream", "partition_by", "sorted_by", "table_options", "merge_schema", "inline_rows", "inline_bytes"),
    *("flush", "on_bad_row", "dead_letter_table", "job", "catalog_timeout"),
)
# What sources of other formats call something else, or what belongs elsewhere.
_OF_OTHERS = {
    "checkpointlocation": "it is an option of writeStream",
    "ignorechanges": "use skipChangeCommits to leave such snapshots out, or readChangeFeed=true to read every change",
    "inferschema": "a table has its schema",
    "maxfilespertrigger": "use maxVersionsPerTrigger, maxRowsPerTrigger or maxBytesPerTrigger",
    "maxoffsetspertrigger": "use maxRowsPerTrigger",
    "readchangedata": "use readChangeFeed",
    "startingoffsets": "use startingVersion, 'earliest' or 'latest'",
}


# -------------------------------------------------------------------------------------- several values


_TIME_TRAVEL = ("versionAsOf", "timestampAsOf")
_FILTERS = ("filter", "filterPushdown")
_RANGE = ("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")
_STREAM_ONLY = (
    "maxVersionsPerTrigger",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "skipChangeCommits",
    "ignoreDeletes",
    "schemaTrackingLocation",
    "consumerId",
)
_EXCLUDE_EACH_OTHER = (
    ("versionAsOf", "timestampAsOf"),
    ("startingVersion", "startingTimestamp"),
    ("endingVersion", "endingTimestamp"),
    *((travel, bound) for travel in _TIME_TRAVEL for bound in _RANGE),
)


def _contradictions(values: Mapping[str, Any]) -> Iterator[str]:  # Any: see parse_options
    """Yield what is wrong only together, of the values that are right alone."""
    given = {name for name in _PARSERS if (value := values.get(_field(name))) is not None and value is not False}
    for one, other in _EXCLUDE_EACH_OTHER:
        if one in given and other in given:
            yield f"{one} and {other} exclude each other"
    yield from _of_change_feed(given)
    if "consumerExpiration" in given and "consumerId" not in given:
        yield "consumerExpiration needs consumerId: it is the consumer that expires"
    yield from _of_range(values)
    if "catalog" in given and "metadataSchema" in given:
        try:
            CatalogUrl.parse(values["catalog"], values["metadata_schema"])
        except InvalidInput as error:
            yield str(error).replace("metadata_schema", "metadataSchema")


def _of_change_feed(given: set[str]) -> Iterator[str]:
    if "readChangeFeed" not in given:
        for name in ("changeTypes", "netChanges"):
            if name in given:
                yield f"{name} needs readChangeFeed=true"
        return
    for name in _TIME_TRAVEL:
        if name in given:
            yield f"{name} and readChangeFeed exclude each other: a change feed has startingVersion and endingVersion"
    for name in _FILTERS:
        if name in given:
            yield f"{name} and readChangeFeed exclude each other: filter the DataFrame"
    for name in ("skipChangeCommits", "ignoreDeletes"):
        if name in given:
            yield f"{name} and readChangeFeed exclude each other: a change feed has every change, choose by changeTypes"


def _of_range(values: Mapping[str, Any]) -> Iterator[str]:  # Any: see parse_options
    start, end = values.get("starting_version"), values.get("ending_version")
    if isinstance(start, int) and end is not None and start > end:
        yield f"startingVersion {start} is after endingVersion {end}"
    since, until = values.get("starting_timestamp"), values.get("ending_timestamp")
    if since is not None and until is not None and since > until:
        yield f"startingTimestamp {since} is after endingTimestamp {until}"
