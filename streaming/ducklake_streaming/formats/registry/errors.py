"""What can go wrong between a registry and a record. They travel from executor to driver."""

from __future__ import annotations

from ducklake_core.errors import TerminalError, TransientError


class RegistryUnavailable(TransientError):
    """The registry cannot be reached, or does not answer as one, though it was asked several times."""


class NoSuchSchema(TerminalError):
    """The registry has no such subject, version or schema id."""


class UnusableSchema(TerminalError):
    """A schema cannot be read, or has no columns that could hold its values."""
