"""Settings that come as texts, as Spark's options do: each function raises ValueError that says what one must be.

Pure, but for the environment and the files that an address may refer to.
"""

from __future__ import annotations

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
    pairs = [part.partition("=") for part in given.split(",")]
    if not all(name.strip() and separator for name, separator, _ in pairs):
        # What was given is not shown: it may have a secret, though none is taken.
        raise Problem(
            "must be settings such as 'endpoint=https://s3.example.com, region=eu-1', each a name and a value"
        )
    return {name.strip(): _FLAGS.get(value.strip(), value.strip()) for name, _, value in pairs}


def parse_flag(text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise ValueError("'true' or 'false'")
    return _FLAGS[text.lower()]
