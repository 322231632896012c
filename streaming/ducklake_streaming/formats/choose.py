"""Which decoder an input needs. Runs on the driver."""

from __future__ import annotations

from ducklake_core.errors import InvalidInput
from ducklake_streaming.formats.decoder import Decoder
from ducklake_streaming.formats.raw_records import RawDecoder
from ducklake_streaming.jobs.input_settings import KafkaInput


def make_decoder(source: KafkaInput) -> Decoder:
    """Return the decoder of a Kafka input's format. Raises InvalidInput for a format that nobody decodes yet."""
    match source.format:
        case "raw":
            return RawDecoder()
        case other:
            raise InvalidInput(f"records of format '{other}' cannot be decoded yet: known is raw")
