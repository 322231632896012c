"""Is the registry there, and what a pipeline needs of it? Runs on the driver, before Spark."""

from __future__ import annotations

from ducklake_streaming.formats.registry.access import RegistryAccess, RegistryOptions
from ducklake_streaming.formats.registry.client import RegistryClient


def probe(url: str, subject: str, options: RegistryOptions) -> str:
    """Return what the registry has for a subject, as a line for people.

    Raises InvalidInput (address, sign-in), NoSuchSchema (no such subject), RegistryUnavailable.
    """
    client = RegistryClient(RegistryAccess.of(url, options))
    schema_id, schema = client.latest(subject)
    return f"subject '{subject}' has schema id {schema_id} ({schema.kind}) in {client.url}"
