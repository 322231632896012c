"""Which decoder an input needs. Runs on the driver."""

from __future__ import annotations

from pyspark.sql import types as T  # noqa: N812 # Spark's own convention

from ducklake_core.errors import InvalidInput
from ducklake_streaming.formats.csv_records import CsvDecoder
from ducklake_streaming.formats.debezium_avro import DebeziumAvroDecoder
from ducklake_streaming.formats.debezium_records import DebeziumDecoder
from ducklake_streaming.formats.decoder import Decoder
from ducklake_streaming.formats.json_records import JsonDecoder
from ducklake_streaming.formats.raw_records import RawDecoder
from ducklake_streaming.formats.registry.decoder import RegistryDecoder
from ducklake_streaming.jobs.input_settings import KafkaInput
from ducklake_streaming.jobs.schemas import read_schema


def make_decoder(source: KafkaInput) -> Decoder:  # noqa: PLR0911 # one for each format
    """Return the decoder of a Kafka input's format. Raises InvalidInput for one that nobody decodes."""
    match source.format:
        case "raw":
            return RawDecoder()
        case "avro" | "protobuf":
            return _registry_decoder(source)
        case "json" if source.registry is not None:
            return _registry_decoder(source)
        case "json":
            return JsonDecoder(_schema(source))
        case "csv":
            return CsvDecoder(_schema(source))
        case "debezium" if source.registry is not None:
            return DebeziumAvroDecoder(source.registry, source.registry_options, source.topics)
        case "debezium":
            return DebeziumDecoder(read_schema(source.schema_text, source.schema_file))
        case other:
            raise InvalidInput(f"records of format '{other}' cannot be decoded")


def _registry_decoder(source: KafkaInput) -> Decoder:
    if source.registry is None:
        raise InvalidInput(f"format '{source.format}' needs a schema registry: name its URL as 'registry'")
    return RegistryDecoder(source.format, source.registry, source.registry_options, source.topics)


def _schema(source: KafkaInput) -> T.StructType:
    found = read_schema(source.schema_text, source.schema_file)
    if found is None:
        raise InvalidInput(f"format '{source.format}' needs the schema of its records: give schema or schema_file")
    return found
