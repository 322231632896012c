"""What a job file says of a pipeline's input, by its `kind`. Runs on the driver; opens schema files only."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator
from pydantic.alias_generators import to_camel, to_snake
from pyspark.sql.types import StructType

from ducklake_core.errors import InvalidInput
from ducklake_core.settings import (
    Catalog,
    Duration,
    Flag,
    OptionalCount,
    OptionalText,
    Text,
    derived,
    setting,
)
from ducklake_sources.options import FOR_TABLES_ONLY, SourceOptions
from ducklake_streaming.formats.registry.access import RegistryOptions
from ducklake_streaming.jobs.kafka_options import mistakes_in_options
from ducklake_streaming.jobs.keys import Keys
from ducklake_streaming.jobs.literal_secrets import (
    REMEDY,
    literal_password_of_catalog,
    literal_password_of_url,
    literal_secrets,
)
from ducklake_streaming.jobs.schemas import DdlsByTopic, OptionalDdl, OptionalSchemaFile, read_schema
from ducklake_streaming.jobs.values import (
    Offsets,
    OptionalHttpUrl,
    OptionalPattern,
    Options,
    Servers,
    Texts,
    one_of,
    option_text,
)

KafkaFormat: TypeAlias = Annotated[str, *one_of("json", "csv", "avro", "protobuf", "debezium", "raw")]
FileFormat: TypeAlias = Annotated[str, *one_of("json", "csv", "parquet", "text")]
Truncates: TypeAlias = Annotated[str, *one_of("dead letter", "apply")]
Tombstones: TypeAlias = Annotated[str, *one_of("dead letter", "skip")]


class KafkaInput(Keys):
    """`kind = "kafka"`: topics of a broker, by Spark's own connector."""

    kind: Literal["kafka"]
    servers: Servers = setting("the brokers: `host:port`, several separated by commas")
    topics: Texts = setting("names of topics", default=())
    topic_pattern: OptionalPattern = setting(
        "instead of `topics`: a regular expression (Java's) that a topic's whole name matches", default=None
    )
    format: KafkaFormat = setting("what a record's value is", default="json")
    schema_text: OptionalDdl = setting(
        "the payload's columns as Spark's DDL: `id bigint, at timestamp`", default=None, alias="schema"
    )
    schema_file: OptionalSchemaFile = setting(
        "instead of `schema`: a file with it, as DDL (`.ddl`, `.sql`) or as Spark's JSON (`.json`)", default=None
    )
    schema_by_topic: DdlsByTopic = setting(
        "Debezium, with `sink.route`: the columns of each topic's rows, where topics are tables of their own",
        default={},
    )
    registry: OptionalHttpUrl = setting("the URL of a schema registry", default=None)
    registry_options: RegistryOptions = setting(
        "how the registry is asked: see below", default=RegistryOptions(), shown="none"
    )
    starting_offsets: Offsets = setting(
        'where a new pipeline begins: "earliest", "latest", or the offset of each partition', default="earliest"
    )
    max_records_per_trigger: OptionalCount = setting("the largest number of records in a batch", default=None)
    fail_on_data_loss: Flag = setting(
        "`false`: go on where records are gone before they were read, with a warning that counts them", default=True
    )
    tombstones: Tombstones = setting(
        'what a record without a value is: "dead letter", or "skip"', default="dead letter"
    )
    truncates: Truncates = setting(
        'Debezium: what an event is that has emptied the table: "dead letter", or "apply" where the topic has one '
        "partition",
        default="dead letter",
    )
    timeout: Duration = setting(
        "how long to wait for a broker that cannot be reached", default=timedelta(minutes=2), shown='`"2m"`'
    )
    dead_letter_topic: OptionalText = setting("a topic where dead letters go, too", default=None)
    options: Options = setting("options of Spark's Kafka source, as they are", default={})

    def of_topic(self, topic: str) -> KafkaInput:
        """Return the input for one of its topics. Raises InvalidInput where nobody says its columns."""
        if self.registry is None and topic not in self.schema_by_topic:
            raise InvalidInput(f"input.schema_by_topic lacks topic '{topic}', which the input reads")
        update = {"topics": (topic,), "topic_pattern": None, "schema_text": self.schema_by_topic.get(topic)}
        return self.model_copy(update=update)

    @property
    def columns(self) -> StructType | None:
        """The payload's columns, where `schema` or `schema_file` says them."""
        return read_schema(self.schema_text, self.schema_file)

    @classmethod
    def omissions(
        cls, right: Mapping[str, Any], given: Collection[str]
    ) -> Iterator[str]:  # Any: each is of its own type
        if not {"topics", "topic_pattern"} & set(given):
            yield "topics is missing: name topics, or give a topic_pattern"
        if right.get("topics") == ():
            yield "topics is empty: name topics, or give a topic_pattern"
        if "format" in right or "format" not in given:
            yield from _lacking(right.get("format", "json"), given)

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: see omissions
        yield from _of_topics(right)
        if "truncates" in right and right.get("format", "json") != "debezium":
            yield "truncates is for format 'debezium'"
        yield from _excluding(right)
        yield from mistakes_in_options(right.get("options", {}))
        for key in ("options", "registry_options"):
            for name in literal_secrets(dict(right.get(key, {}))):
                yield f"{key} has a secret in '{name}': {REMEDY}"
        problem = literal_password_of_url(right.get("registry") or "")
        if problem:
            yield f"registry {problem}"


class FilesInput(Keys):
    """`kind = "files"`: files that appear in a folder."""

    kind: Literal["files"]
    path: Text = setting("a folder, or a pattern of folders")
    format: FileFormat = setting("what the files are")
    schema_text: OptionalDdl = setting(
        "their columns as Spark's DDL: `id bigint, at timestamp`; not for text", default=None, alias="schema"
    )
    schema_file: OptionalSchemaFile = setting(
        "instead of `schema`: a file with it, as DDL (`.ddl`, `.sql`) or as Spark's JSON (`.json`)", default=None
    )
    max_files_per_trigger: OptionalCount = setting("the largest number of files in a batch", default=None)
    options: Options = setting("options of Spark's reader of such files, as they are", default={})

    @property
    def columns(self) -> StructType | None:
        """The files' columns; None for text, which has one column `value`."""
        return read_schema(self.schema_text, self.schema_file)

    @classmethod
    def omissions(cls, right: Mapping[str, Any], given: Collection[str]) -> Iterator[str]:  # Any: see KafkaInput
        if right.get("format", "text") != "text" and not {"schema", "schema_file"} & set(given):
            yield "schema is missing: a stream of files does not look for it; give schema or schema_file"

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: see KafkaInput
        schemas = _schemas(right)
        if len(schemas) > 1:
            yield f"{' and '.join(schemas)} exclude each other"
        if right.get("format") == "text" and schemas:
            yield f"{schemas[0]} is not for text, which has one column: value"
        for name in right.get("options", {}):
            if name.lower() in _OF_FILES:
                yield f"options has '{name}': use {_OF_FILES[name.lower()]}"


def _as_option(value: object, handler: ValidatorFunctionWrapHandler) -> str:
    """Check a value as the source does, and keep the text that the source takes."""
    text = option_text(value)
    handler(text)
    return text


if TYPE_CHECKING:
    _SourceOptions = Keys
else:
    _SourceOptions = derived(
        "_SourceOptions",
        SourceOptions,
        base=Keys,
        leave_out={name for name, field in SourceOptions.model_fields.items() if field.alias in FOR_TABLES_ONLY}
        | {"catalog"},
        around={"*": WrapValidator(_as_option)},
    )


class DuckLakeInput(_SourceOptions):
    """`kind = "ducklake"`: the change feed of a table, of this lake or of another."""

    kind: Literal["ducklake"]
    catalog: Catalog | None = setting("another lake; default: that of `[catalog]`", default=None)

    if TYPE_CHECKING:  # the derived ones that others ask for by name
        table: str

    @classmethod
    def unknown(cls, name: str) -> str:
        if to_camel(name) in FOR_TABLES_ONLY:
            return f"'{name}' is for batch reads: a stream begins at starting_version, and is filtered by a transform"
        return super().unknown(name)

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: see KafkaInput
        options = {to_camel(name): value for name, value in right.items() if name != "kind"}
        try:
            SourceOptions.parse({"table": "any", "catalog": "postgresql://", **options})
        except InvalidInput as error:
            yield from (_CAMEL.sub(lambda match: to_snake(match.group()), told) for told in error.problems)
        problem = literal_password_of_catalog(right["catalog"]) if "catalog" in right else None
        if problem:
            yield f"catalog {problem}"

    @property
    def reads_change_feed(self) -> bool:
        """Whether rows come with the type of their change; else all that come are inserts."""
        return self.source_options().get("readChangeFeed") == "true"

    def source_options(self) -> dict[str, str]:
        """Return what the file says, as options of `format("ducklake")`, but the catalog."""
        given = self.model_fields_set - {"kind", "catalog"}
        return {to_camel(name): getattr(self, name) for name in type(self).model_fields if name in given}


class RateInput(Keys):
    """`kind = "rate"`: Spark's own rows of a timestamp and a number, to try things out."""

    kind: Literal["rate"]
    rows_per_second: OptionalCount = setting("how many", default=1)


# Which of schema, schema_file and registry a format of Kafka's records may be given.
_SCHEMAS_OF = {
    "json": ("schema", "schema_file", "registry"),
    "debezium": ("schema", "schema_file", "registry", "schema_by_topic"),
    "csv": ("schema", "schema_file"),
    **dict.fromkeys(("avro", "protobuf"), ("registry",)),
    "raw": (),
}
_WITHOUT_SCHEMA = ("debezium", "raw")
_OF_FILES = {"path": "path", "maxfilespertrigger": "max_files_per_trigger"}
_CAMEL = re.compile("|".join(name for name in SourceOptions.names() if name.lower() != name))


def _schemas(right: Mapping[str, Any]) -> list[str]:  # Any: see KafkaInput
    names = {"schema": "schema_text", "schema_file": "schema_file", "registry": "registry"}
    found = [name for name, field in names.items() if field in right]
    return [*found, *(["schema_by_topic"] if right.get("schema_by_topic") else [])]


def _of_topics(right: Mapping[str, Any]) -> Iterator[str]:  # Any: see KafkaInput
    topics, pattern = right.get("topics", ()), right.get("topic_pattern")
    if "topics" in right and pattern is not None:
        yield "topics and topic_pattern exclude each other"
    dead = right.get("dead_letter_topic")
    if dead is not None and (dead in topics or (pattern is not None and re.fullmatch(pattern, dead))):
        yield f"dead_letter_topic is {dead!r}, which is read, too: dead letters would come back for ever"
    offsets = right.get("starting_offsets", "")
    for topic in json.loads(offsets) if offsets.startswith("{") and topics else ():
        if topic not in topics:
            yield f"starting_offsets names '{topic}', which is none of the topics"


def _lacking(format_: str, given: Collection[str]) -> Iterator[str]:
    needed = _SCHEMAS_OF[format_]
    if format_ not in _WITHOUT_SCHEMA and not {"schema", "schema_file", "registry"} & set(given):
        yield f"{needed[0]} is missing: format '{format_}' needs {' or '.join(needed)}"


def _excluding(right: Mapping[str, Any]) -> Iterator[str]:  # Any: see KafkaInput
    found, format_ = _schemas(right), right.get("format", "json")
    for name in found:
        if name not in _SCHEMAS_OF[format_]:
            wanted = " or ".join(_SCHEMAS_OF[format_]) or "none: its values are bytes"
            yield f"{name} is not for format '{format_}', which takes {wanted}"
    if len(found) > 1:
        yield f"{' and '.join(found)} exclude each other: a payload has one schema"
    if "registry_options" in right and "registry" not in right:
        yield "registry_options needs registry"


Input: TypeAlias = Annotated[KafkaInput | FilesInput | DuckLakeInput | RateInput, Field(discriminator="kind")]
