"""Which decoder an input needs. Runs on the driver."""

from __future__ import annotations

from ducklake_core.errors import InvalidInput
from ducklake_streaming.formats.decoder import Decoder
from ducklake_streaming.formats.raw_records import RawDecoder
from ducklake_streaming.formats.registry.access import RegistryOptions
from ducklake_streaming.formats.registry.decoder import RegistryDecoder
from ducklake_streaming.jobs.input_settings import KafkaInput


def make_decoder(source: KafkaInput) -> Decoder:
    """Return the decoder of a Kafka input's format. Raises InvalidInput for a format that nobody decodes yet."""
    match source.format:
        case "raw":
            return RawDecoder()
        case "avro" | "protobuf":
            return _registry_decoder(source)
        case "json" if source.registry is not None:
            return _registry_decoder(source)
        case other:
            known = "raw, avro, protobuf, and json with a registry"
            raise InvalidInput(f"records of format '{other}' cannot be decoded yet: known are {known}")


def _registry_decoder(source: KafkaInput) -> Decoder:
    if source.registry is None:
        raise InvalidInput(f"format '{source.format}' needs a schema registry: name its URL as 'registry'")
    options = RegistryOptions.parse(source.registry_options)
    return RegistryDecoder(source.format, source.registry, options, source.topics)
