"""Decodes records whose schemas are in a registry. Runs on the driver; each record is decoded on executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 # Spark's own convention
from pyspark.sql import types as T  # noqa: N812 # Spark's own convention
from pyspark.sql.pandas.functions import arrow_udf

from ducklake_core.errors import InvalidInput
from ducklake_streaming.formats.decoder import DECODED, ERROR, STALE
from ducklake_streaming.formats.registry.access import RegistryAccess, RegistryOptions
from ducklake_streaming.formats.registry.client import RegisteredSchema, RegistryClient, client_of
from ducklake_streaming.formats.registry.columns import merge_columns
from ducklake_streaming.formats.registry.errors import NoSuchSchema, UnusableSchema
from ducklake_streaming.formats.registry.readers import reader_of
from ducklake_streaming.formats.registry.task import IS_STALE, REASON, VALUES, DecodeTask
from ducklake_streaming.formats.registry.wire import HEADER_BYTES

_RESULT = "_registry_result"
_HEADER = "hex(substring(value, 1, 5))"  # a zero byte and the schema id


class RegistryDecoder:
    """Decodes by the schema of each record's writer, into the columns of all schemas that it knows.

    It knows the newest schema of each subject, and those of records that it has met. A record whose schema has more
    than these columns is stale: `refresh` learns its schema, or why it cannot be taken.
    """

    def __init__(self, record_format: str, url: str, options: RegistryOptions, topics: Sequence[str] = ()) -> None:
        """Learn the newest schemas. `topics`: all there are; none if only the records tell."""
        self._format = record_format
        self._options = options
        self._access = RegistryAccess.of(url, options)
        self._client: RegistryClient = client_of(self._access)
        self._required = _subjects(options, topics)
        self._found: dict[str, None] = {}  # subjects of topics that only records have named
        self._met: set[int] = set()  # ids of schemas of records
        self._columns = T.StructType([])
        self._known: dict[int, RegisteredSchema] = {}
        self._refused: dict[int, str] = {}
        self._last: DataFrame | None = None
        if self._required:
            self._learn()

    @property
    def columns(self) -> T.StructType:
        """The columns of the schemas that it knows."""
        return self._columns

    def decode(self, records: DataFrame) -> DataFrame:
        """Return the records with what they hold, as `Decoder` says."""
        self._last = records
        if not self._columns.fields:
            self.refresh()
        task = DecodeTask(
            self._access, self._format, self._options.message, self._columns, dict(self._known), dict(self._refused)
        )
        with_result = records.withColumn(_RESULT, _udf(task)(F.col("value")))
        added = {DECODED: f"{_RESULT}.{VALUES}", ERROR: f"{_RESULT}.{REASON}", STALE: f"{_RESULT}.{IS_STALE}"}
        return with_result.withColumns({name: F.col(source) for name, source in added.items()}).drop(_RESULT)

    def refresh(self) -> None:
        """Learn the newest schemas, and those of the records that were decoded last."""
        if self._last is not None:
            headers = self._last.selectExpr("topic", f"{_HEADER} AS header").distinct().collect()
            self._met |= set(_schema_ids(row.header for row in headers))
            if self._options.subject is None:
                self._found |= {_subject_of(row.topic): None for row in headers}
        self._learn()

    def _learn(self) -> None:
        """Make the columns anew: of the newest schemas first, then of those that were met."""
        self._columns, self._known, self._refused = T.StructType([]), {}, {}
        for subject in {**self._required, **self._found}:
            self._add_latest(subject)
        for schema_id in sorted(self._met - self._known.keys()):
            try:
                self._add_met(schema_id)
            except UnusableSchema as error:
                self._refused[schema_id] = f"schema id {schema_id} cannot be taken: {error}"
            except NoSuchSchema:
                continue  # executors say so of each record

    def _add_latest(self, subject: str) -> None:
        try:
            self._add(*self._client.latest(subject))
        except NoSuchSchema as error:
            if subject in self._required:
                remedy = "register its schema, or name the subject by 'subject' in registry_options"
                raise InvalidInput(f"{error}: {remedy}") from error
        except UnusableSchema as error:
            raise InvalidInput(
                f"the newest schema of subject '{subject}' in {self._client.url} cannot be taken: {error}"
            ) from error

    def _add_met(self, schema_id: int) -> None:
        schema = self._client.schema(schema_id)
        theirs, ours = self._client.subjects_of(schema_id), {**self._required, **self._found}.keys()
        if not theirs & ours:
            raise UnusableSchema(f"it is of subject {_listed(theirs)}, and the input reads {_listed(ours)}")
        self._add(schema_id, schema)

    def _add(self, schema_id: int, schema: RegisteredSchema) -> None:
        reader = reader_of(schema, self._format, self._options.message)
        self._columns = merge_columns(self._columns, reader.columns)
        self._known[schema_id] = schema


def _udf(task: DecodeTask) -> Callable[[Column], Column]:
    def decode(values: pa.Array) -> pa.Array:
        return task.decode(values)

    made: Any = arrow_udf(decode, task.result_type)  # type: ignore[call-overload]  # Spark's stubs know none that it names itself
    # Else Spark takes it for free, and decodes once more for a filter on the result.
    decoding: Callable[[Column], Column] = made.asNondeterministic()
    return decoding


def _subjects(options: RegistryOptions, topics: Sequence[str]) -> dict[str, None]:
    """Return the subjects in order: those that were named, or those of the topics."""
    if options.subject is not None:
        return {name.strip(): None for name in options.subject.split(",") if name.strip()}
    return {_subject_of(topic): None for topic in topics}


def _subject_of(topic: str) -> str:
    return f"{topic}-value"


def _schema_ids(headers: Iterable[str | None]) -> Iterable[int]:
    for header in headers:
        if header is not None and len(header) == 2 * HEADER_BYTES and header.startswith("00"):
            yield int(header, 16)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))
