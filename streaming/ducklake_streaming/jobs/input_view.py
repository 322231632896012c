"""The view `input` of a transform: what it shows of Kafka's records. Runs on the driver; SQL texts for Spark."""

from __future__ import annotations

from collections.abc import Sequence

from ducklake_core.errors import InvalidInput
from ducklake_core.spec.names import fold
from ducklake_sinks.dead_letters import RECORD_COLUMN
from ducklake_streaming.formats.decoder import DECODED

VIEW = "input"
METADATA = ("topic", "partition", "offset", "timestamp", "key", "headers")
RECORD = "_record"  # a struct of all metadata and the value, whatever the payload's fields are called


def view_columns(payload: Sequence[str]) -> list[str]:
    """Return the expressions of the view: the payload's fields, the metadata that it does not hide, and `_record`."""
    known = {fold(name) for name in payload}
    if fold(RECORD) in known:
        raise InvalidInput(
            f"a field of the payload is called '{RECORD}', which is the name of the record's metadata: "
            "take it out of the schema"
        )
    shown = [name for name in METADATA if fold(name) not in known]
    whole = ", ".join(f"'{name}', `{name}`" for name in (*METADATA, "value"))
    return [f"{DECODED}.*", *(f"`{name}`" for name in shown), f"named_struct({whole}) AS {RECORD}"]


def record_columns(of: str = "") -> list[str]:
    """Return the expressions of a record as dead letters have it; `of`: the struct that it is in, and a dot."""
    plain = [f"{of}`{name}` AS `{name}`" for name in ("topic", "partition", "offset", "timestamp", "key", "value")]
    return [*plain, f"to_json({of}headers) AS headers"]


def hidden_record() -> str:
    """Return the expression of the record that a row of the view was made from."""
    return f"struct({', '.join(record_columns(f'{RECORD}.'))}) AS {RECORD_COLUMN}"
