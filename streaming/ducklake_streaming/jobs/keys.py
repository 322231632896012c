"""The base of all that a job file may say: keys, of which a missing one is told with what it means. Pure."""

from __future__ import annotations

from typing import ClassVar

from ducklake_core.settings import Settings


class Keys(Settings):
    """Settings that are a table of TOML."""

    purpose: ClassVar[str] = "a job cannot be run"
    noun: ClassVar[str] = "key"

    @classmethod
    def missing(cls, name: str) -> str:
        field = cls.model_fields[cls.names()[name.rpartition(".")[2]]]
        return f"{name} is missing: {field.description}"
