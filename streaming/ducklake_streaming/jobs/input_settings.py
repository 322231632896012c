"""What a job file says of a pipeline's input, by its `kind`. Runs on the driver; opens schema files only."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field, ValidatorFunctionWrapHandler, WrapValidator
from pydantic.alias_generators import to_camel

from ducklake_core.settings import (
    Catalog,
    Duration,
    Flag,
    OptionalCount,
    OptionalText,
    Settings,
    Text,
    derived,
    setting,
)
from ducklake_sources.options import FOR_TABLES_ONLY, SourceOptions
from ducklake_streaming.jobs.values import Offsets, OptionalPattern, Options, Texts, one_of, option_text

KafkaFormat: TypeAlias = Annotated[str, *one_of("json", "csv", "avro", "protobuf", "debezium", "raw")]
FileFormat: TypeAlias = Annotated[str, *one_of("json", "csv", "parquet", "text")]
Tombstones: TypeAlias = Annotated[str, *one_of("dead letter", "skip")]


class KafkaInput(Settings):
    """`kind = "kafka"`: topics of a broker, by Spark's own connector."""

    purpose: ClassVar[str] = "an input cannot be made"
    noun: ClassVar[str] = "key"

    kind: Literal["kafka"]
    servers: Text = setting("the brokers: `host:port`, several separated by commas")
    topics: Texts = setting("names of topics", default=())
    topic_pattern: OptionalPattern = setting(
        "instead of `topics`: a regular expression (Java's) that a topic's whole name matches", default=None
    )
    format: KafkaFormat = setting("what a record's value is", default="json")
    schema_text: OptionalText = setting(
        "the payload's columns as Spark's DDL: `id bigint, at timestamp`", default=None, alias="schema"
    )
    schema_file: OptionalText = setting("instead of `schema`: a file with it", default=None)
    registry: OptionalText = setting("the URL of a schema registry", default=None)
    registry_options: Options = setting("what the registry needs: `subject`, `user`, `password`", default={})
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
    timeout: Duration = setting(
        "how long to wait for a broker that cannot be reached", default=timedelta(minutes=2), shown='`"2m"`'
    )
    dead_letter_topic: OptionalText = setting("a topic where dead letters go, too", default=None)
    options: Options = setting("options of Spark's Kafka source, as they are", default={})


class FilesInput(Settings):
    """`kind = "files"`: files that appear in a folder."""

    purpose: ClassVar[str] = "an input cannot be made"
    noun: ClassVar[str] = "key"

    kind: Literal["files"]
    path: Text = setting("a folder, or a pattern of folders")
    format: FileFormat = setting("what the files are")
    schema_text: OptionalText = setting(
        "their columns as Spark's DDL: `id bigint, at timestamp`; not for text", default=None, alias="schema"
    )
    schema_file: OptionalText = setting("instead of `schema`: a file with it", default=None)
    max_files_per_trigger: OptionalCount = setting("the largest number of files in a batch", default=None)
    options: Options = setting("options of Spark's reader of such files, as they are", default={})


def _as_option(value: object, handler: ValidatorFunctionWrapHandler) -> str:
    """Check a value as the source does, and keep the text that the source takes."""
    text = option_text(value)
    handler(text)
    return text


if TYPE_CHECKING:
    _SourceOptions = Settings
else:
    _SourceOptions = derived(
        "_SourceOptions",
        SourceOptions,
        leave_out={name for name, field in SourceOptions.model_fields.items() if field.alias in FOR_TABLES_ONLY}
        | {"catalog"},
        around={"*": WrapValidator(_as_option)},
    )


class DuckLakeInput(_SourceOptions):
    """`kind = "ducklake"`: the change feed of a table, of this lake or of another."""

    purpose: ClassVar[str] = "an input cannot be made"
    noun: ClassVar[str] = "key"

    kind: Literal["ducklake"]
    catalog: Catalog | None = setting("another lake; default: that of `[catalog]`", default=None)

    if TYPE_CHECKING:  # the derived ones that others ask for by name
        table: str

    def source_options(self) -> dict[str, str]:
        """Return what the file says, as options of `format("ducklake")`, but the catalog."""
        given = self.model_fields_set - {"kind", "catalog"}
        return {to_camel(name): getattr(self, name) for name in type(self).model_fields if name in given}


class RateInput(Settings):
    """`kind = "rate"`: Spark's own rows of a timestamp and a number, to try things out."""

    purpose: ClassVar[str] = "an input cannot be made"
    noun: ClassVar[str] = "key"

    kind: Literal["rate"]
    rows_per_second: OptionalCount = setting("how many", default=1)


Input: TypeAlias = Annotated[KafkaInput | FilesInput | DuckLakeInput | RateInput, Field(discriminator="kind")]
