"""Settings that come as texts, as Spark's options do: each function raises ValueError that says what one must be.

Pure, but for the environment and the files that an address may refer to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ducklake_core.errors import InvalidInput
from ducklake_core.references import resolve
from ducklake_core.setting_mistakes import Problem
from ducklake_core.settings import catalog

_FLAGS = {"true": True, "false": False}


def parse_catalog(text: str) -> str:
    """Return the address, with what it refers to: Spark shows its options, and so must not be told a password."""
    return catalog(resolve(text))


def parse_storage(given: object) -> object:
    """Return the settings of a store by their names; a mapping, where options need not be texts, is one already."""
    if not isinstance(given, str):
        return given
    pairs = [part.partition("=") for part in re.split(r",(?=\s*\w+\s*=)", given)]  # a value may have commas
    if not all(name.strip() and separator for name, separator, _ in pairs):
        # What was given is not shown: it may have a secret, though none is taken.
        raise Problem(
            "must be settings such as 'endpoint=https://s3.example.com, region=eu-1', each a name and a value"
        )
    return {name.strip(): _FLAGS.get(value.strip().lower(), value.strip()) for name, _, value in pairs}


def storage_text(storage: Mapping[str, object]) -> str:
    """Return the text of settings, which `parse_storage` reads; raise InvalidInput for those that no text can tell."""
    text = ", ".join(f"{name}={value}" for name, value in storage.items())
    read = parse_storage(text)
    if not isinstance(read, dict) or _lower(read) != _lower(storage):
        raise InvalidInput(f"cannot hand the storage settings {', '.join(storage)} to Spark: a value has ', name='")
    return text


def parse_flag(text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ValueError("'true' or 'false'")
    return _FLAGS[text.lower()]


def _lower(settings: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value).lower() for name, value in settings.items()}
