"""What a read is told: Spark's options, parsed and checked once, every mistake at once. Opens nothing; pickles.

Runs where Spark makes the data source (a Python process of the driver). Spark's option names are camelCase and equal
regardless of case. No message and no repr shows a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

from ducklake_core.errors import InvalidInput
from ducklake_core.feed.change_types import ChangeType
from ducklake_core.model import SnapshotId
from ducklake_core.setting_texts import parse_catalog, parse_flag, parse_storage
from ducklake_core.settings import (
    Duration,
    OptionalSize,
    OptionalText,
    Settings,
    TableName,
    check_catalog,
    checked,
    setting,
    shown_catalog,
)
from ducklake_core.spec.names import nearest_name
from ducklake_core.storage_settings import StorageSettings
from ducklake_sources.option_values import (
    Start,
    parse_change_types,
    parse_columns,
    parse_count,
    parse_start,
    parse_timestamp,
    parse_version,
)
from ducklake_sources.refusals import no_tables_of_spark

Flag = Annotated[bool, *checked(parse_flag, {"type": "boolean"})]
Count = Annotated[int, *checked(parse_count, {"type": "integer", "minimum": 1})]
Version = Annotated[SnapshotId, *checked(parse_version, {"type": "integer", "minimum": 0})]
Time = Annotated[datetime, *checked(parse_timestamp, {"type": "string"})]
_NAMES_SCHEMA = {"type": ["string", "array"], "items": {"type": "string"}}  # a list, where options need not be texts
_START_SCHEMA = {"type": ["integer", "string"]}


class SourceOptions(Settings):
    """The options of `format("ducklake")`. None: not given.

    Timestamps have a time zone: UTC, where none was given. Versions are snapshot ids.
    """

    model_config = ConfigDict(alias_generator=to_camel)
    purpose: ClassVar[str] = "cannot read from a DuckLake"
    noun: ClassVar[str] = "option"

    catalog: Annotated[str, *checked(parse_catalog, {"type": "string", "minLength": 1})] = setting(
        "a URL such as `postgresql://lake@db/lake` or `sqlite:///lake.sqlite`, or the string of DuckDB's ATTACH; "
        "`${env:NAME}` and `${file:/path}` in it stand for [values that Spark shall not show](secrets.md)"
    )
    table: TableName = setting('`table` or `schema.table`; quote odd parts, as in `main."my.table"`')
    metadata: OptionalText = setting(
        "in place of the rows of a table: what is in the lake, such as `snapshots`; `table` may be left out then. See "
        "[what is in a lake](from-delta-or-iceberg.md#what-is-in-a-lake)",
        default=None,
        shown="none",
    )
    metadata_schema: OptionalText = setting("the PostgreSQL schema of the catalog's tables", default=None, shown="none")
    data_path: OptionalText = setting(
        "where the lake keeps its files, if you want that checked", default=None, shown="none"
    )
    storage: Annotated[StorageSettings | None, BeforeValidator(parse_storage)] = setting(
        "how an S3 store is reached, such as `endpoint=https://s3.example.com, region=eu-1`: see "
        "[keep data on S3](object-storage.md)",
        default=None,
        shown="none",
    )
    override_data_path: Flag = setting(
        "take `dataPath` though the catalog has another one: its files were moved", default=False, shown="`false`"
    )
    catalog_timeout: Duration = setting(
        "how long to wait for a catalog that cannot be reached; then `CatalogUnavailable`",
        default=timedelta(minutes=2),
        shown="`2m`",
    )
    columns: Annotated[tuple[str, ...] | None, *checked(parse_columns, _NAMES_SCHEMA)] = setting(
        "names separated by commas; quote odd ones with double quotes or backticks. Spark does not tell a source which "
        "columns a query needs",
        default=None,
        shown="all",
    )
    filter: OptionalText = setting(
        "a condition in DuckDB's SQL, such as `day >= '2026-01-01' AND city = 'Bonn'`", default=None, shown="all rows"
    )
    filter_pushdown: Flag = setting("see below", default=False, shown="`false`")
    version_as_of: Version | None = setting("the id of a snapshot", default=None, shown="the newest")
    timestamp_as_of: Time | None = setting(
        "a time, such as `2026-01-31 12:00:00` or `2026-01-31T12:00:00+02:00`; without a zone, in UTC. The last "
        "snapshot that is not after it is read",
        default=None,
        shown="the newest",
    )
    read_change_feed: Flag = setting(
        "`true`: every change, with the four columns above. `false`: inserted rows only; a snapshot that updates or "
        "deletes rows stops the stream with `RowsChanged`",
        default=False,
        shown="`false`",
    )
    skip_change_commits: Flag = setting(
        "for inserted rows only: skip snapshots that update or delete", default=False, shown="`false`"
    )
    ignore_deletes: Flag = setting(
        "for inserted rows only: skip snapshots that only delete", default=False, shown="`false`"
    )
    starting_version: Annotated[SnapshotId | Start | None, *checked(parse_start, _START_SCHEMA)] = setting(
        "the first snapshot whose changes are read: its id, `earliest` or `latest`. Default: the table as it is comes "
        "first, as inserts",
        default=None,
        shown="none",
    )
    starting_timestamp: Time | None = setting(
        "instead of it: the first snapshot that is not older", default=None, shown="none"
    )
    ending_version: Version | None = setting("the last snapshot that is read", default=None, shown="none")
    ending_timestamp: Time | None = setting(
        "instead of it: the last snapshot that is not younger", default=None, shown="none"
    )
    change_types: Annotated[frozenset[ChangeType], *checked(parse_change_types, _NAMES_SCHEMA)] = setting(
        "some of `insert`, `delete`, `update_preimage`, `update_postimage`, separated by commas",
        default=frozenset(ChangeType),
        shown="all",
    )
    net_changes: Flag = setting(
        "`true`: one row for each `_rowid` of a batch, its final change; an update has its last image, and a row that "
        "was inserted and deleted again has none",
        default=False,
        shown="`false`",
    )
    max_versions_per_trigger: Count = setting(
        "the largest number of snapshots (that change the table) in a batch. This and the next two need Spark 4.2",
        default=1000,
        shown="`1000`",
    )
    max_rows_per_trigger: Count | None = setting(
        "how many changes in a batch at most, as far as the catalog tells. Of a file that many snapshots "
        "filled (a flush, a merge, a delete file) all rows count for the first of these, so batches can be "
        "much smaller",
        default=None,
        shown="none",
    )
    max_bytes_per_trigger: OptionalSize = setting(
        "about how many bytes of data files in a batch, such as `64MB`", default=None, shown="none"
    )
    fail_on_data_loss: Flag = setting(
        "`false`: go on if snapshots expired before they were read, with a warning; the offset then has "
        "`lost_snapshots`",
        default=True,
        shown="`true`",
    )
    schema_tracking_location: OptionalText = setting(
        "a folder for this stream alone, to go on after columns were renamed or dropped", default=None, shown="none"
    )
    consumer_id: OptionalText = setting(
        "a name under which the catalog records how far this stream has read", default=None, shown="none"
    )
    consumer_expiration: Duration = setting(
        "how long that record counts after the stream last reported", default=timedelta(days=7), shown="`7d`"
    )

    @property
    def shown_catalog(self) -> str:
        """The catalog's address without its password."""
        return shown_catalog(self.catalog)

    @classmethod
    def unknown(cls, name: str) -> str:
        return _unknown(name)

    @classmethod
    def missing(cls, name: str) -> str:
        return f"{name} is missing: {_REQUIRED[name]}"

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: each is of its own type
        return _contradictions(right)


ALL_TABLES = "*"  # the table of a read of metadata that names none
_NAMES = {name.lower(): name for name in SourceOptions.names()}
_REQUIRED = {
    "catalog": "give the address of the catalog, such as 'postgresql://user@host/database' or 'sqlite:///lake.sqlite'",
    "table": "give the name of a table, such as 'main.events'",
}


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Return the options; raise InvalidInput that lists everything that is wrong with them."""
    if "provider" in {key.lower() for key in given}:  # Spark's, of a table in its own catalog
        raise no_tables_of_spark()
    named = {_NAMES.get(key.lower(), key): text.strip() for key, text in given.items()}
    if "metadata" in named:
        named.setdefault("table", ALL_TABLES)
    return SourceOptions.parse(named)


def check_table_read(options: SourceOptions) -> None:
    """Refuse options that would not be heeded when the table itself is read as a batch."""
    _refuse(options, _RANGE, "is for a change feed: add readChangeFeed=true, or use versionAsOf or timestampAsOf")
    _refuse(options, (*_STREAM_ONLY, "failOnDataLoss"), "is for streams: use readStream, or leave it out")


def check_change_read(options: SourceOptions) -> None:
    """Refuse options that would not be heeded when changes are read as a batch."""
    _refuse(options, _STREAM_ONLY, "is for streams: use readStream, or leave it out")


def check_metadata_read(options: SourceOptions) -> None:
    """Refuse options that would not be heeded when metadata are read: they are those of the newest snapshot."""
    chosen = (*_TIME_TRAVEL, *_FILTERS, *_RANGE, *_STREAM_ONLY, "columns", "readChangeFeed", "failOnDataLoss")
    _refuse(options, chosen, "and metadata exclude each other: choose from the DataFrame")


def has_range(options: SourceOptions) -> bool:
    """Tell whether some snapshots were chosen, and not one."""
    return any(getattr(options, _field(name)) is not None for name in _RANGE)


def check_stream(options: SourceOptions) -> None:
    """Refuse options that would not be heeded by a stream."""
    _refuse(options, _TIME_TRAVEL, "is for batch reads: a stream begins at startingVersion or startingTimestamp")
    _refuse(options, _FILTERS, "is for batch reads of a table: filter the stream itself")
    _refuse(options, ("metadata",), "is for batch reads")


def _refuse(options: SourceOptions, names: tuple[str, ...], why: str) -> None:
    defaults = {name: field.default for name, field in SourceOptions.model_fields.items()}
    problems = [f"{name} {why}" for name in names if getattr(options, _field(name)) != defaults[_field(name)]]
    if problems:
        raise InvalidInput("cannot read from a DuckLake: " + "; ".join(problems), problems=problems)


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
    hint = f"did you mean '{_NAMES[near]}'?" if near else f"known are {', '.join(SourceOptions.names())}"
    return f"there is no option '{key}': {hint}"


# What only writes take; a test compares it with the sink's own list.
SINK_ARGUMENTS = (
    *("route", "stream", "partition_by", "sorted_by", "table_options", "merge_schema", "inline_rows", "inline_bytes"),
    *("flush", "on_bad_row", "dead_letter_table", "job", "catalog_timeout"),
    *("mode", "keys", "sequence_by", "apply_as_deletes", "apply_as_truncates", "except_columns"),
    *("ignore_null_updates", "kept_columns", "old_keys", "on_duplicate_keys", "keep_deleted_keys"),
    *("stored_as_scd_type", "track_history_columns"),
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
FOR_TABLES_ONLY = frozenset((*_TIME_TRAVEL, *_FILTERS, "metadata"))
FOR_CHANGES_ONLY = frozenset(
    (*_RANGE, *_STREAM_ONLY, "readChangeFeed", "changeTypes", "netChanges", "failOnDataLoss", "consumerExpiration")
)
_EXCLUDE_EACH_OTHER = (
    ("versionAsOf", "timestampAsOf"),
    ("startingVersion", "startingTimestamp"),
    ("endingVersion", "endingTimestamp"),
    *((travel, bound) for travel in _TIME_TRAVEL for bound in _RANGE),
)


def _contradictions(values: Mapping[str, Any]) -> Iterator[str]:  # Any: see parse_options
    """Yield what is wrong only together, of the values that are right alone."""
    given = {
        name for name in SourceOptions.names() if (value := values.get(_field(name))) is not None and value is not False
    }
    for one, other in _EXCLUDE_EACH_OTHER:
        if one in given and other in given:
            yield f"{one} and {other} exclude each other"
    yield from _of_change_feed(given)
    if "consumerExpiration" in given and "consumerId" not in given:
        yield "consumerExpiration needs consumerId: it is the consumer that expires"
    yield from _of_range(values)
    if "catalog" in given and "metadataSchema" in given:
        try:
            check_catalog(values["catalog"], values["metadata_schema"])
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
