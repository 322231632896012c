"""What values in a job file may be: triggers, offsets, lists and mappings of texts, choices. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated, Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import PlainValidator, WithJsonSchema

from ducklake_core.settings import Problem, checked, optional, text
from ducklake_core.spec.names import nearest_name
from ducklake_core.spec.quantities import parse_duration

_SERVER = re.compile(r"(\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}")
AVAILABLE_NOW = "available now"
AS_FAST_AS_POSSIBLE = "as fast as possible"


@dataclass(frozen=True, slots=True)
class TriggerSetting:
    """When a pipeline's next batch begins: every interval, at once (no interval), or until all is read."""

    interval: timedelta = timedelta()
    available_now: bool = False


def parse_trigger(value: object) -> TriggerSetting:
    if isinstance(value, TriggerSetting):
        return value
    words = " ".join(str(value).lower().split())
    if words == AVAILABLE_NOW:
        return TriggerSetting(available_now=True)
    if words == AS_FAST_AS_POSSIBLE:
        return TriggerSetting()
    try:
        return TriggerSetting(parse_duration(value))
    except ValueError:
        near = nearest_name(words, [AVAILABLE_NOW, AS_FAST_AS_POSSIBLE])
        hint = f": did you mean '{near}'?" if near else ""
        told = f"a time such as '1 second' or '500ms', '{AVAILABLE_NOW}' or '{AS_FAST_AS_POSSIBLE}'{hint}"
        raise ValueError(told) from None


def parse_texts(value: object) -> tuple[str, ...]:
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, (list, tuple)) or not all(isinstance(one, str) and one for one in texts):
        raise ValueError('a list of texts, such as ["orders", "payments"]')
    return tuple(texts)


def parse_servers(value: object) -> str:
    servers = value if isinstance(value, str) else ",".join(parse_texts(value))
    if not all(_SERVER.fullmatch(one.strip()) for one in servers.split(",")):
        raise ValueError("'host:port', several separated by commas")
    return servers


def parse_http_url(value: object) -> str:
    url = text(value)
    try:
        is_right = urlsplit(url).scheme in ("http", "https") and urlsplit(url).hostname is not None
    except ValueError:  # such as brackets without an address
        is_right = False
    if not is_right:
        raise ValueError("a URL such as 'http://registry:8081'")
    return url


def parse_pattern(value: object) -> str:
    """Return a regular expression; Java's and Python's differ, but not in what they refuse most often."""
    pattern = text(value)
    try:
        re.compile(pattern)
    except re.error as error:
        raise Problem(f"is {pattern!r}, which is no regular expression: {error}") from None
    return pattern


def parse_options(value: object) -> Mapping[str, str]:
    """Return names and texts: TOML's numbers, true and false are what Spark calls them."""
    if not isinstance(value, Mapping):
        raise ValueError('names and texts, such as { "spark.sql.shuffle.partitions" = "2" }')  # noqa: TRY004 # what pydantic collects
    return {name: option_text(one) for name, one in value.items()}


def option_text(value: object) -> str:
    """Return a value as Spark's options have it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, (datetime, date)):
        return value.isoformat()
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_quoted, value))
    if not isinstance(value, str):
        raise ValueError("a text, a number, true or false")  # noqa: TRY004 # what pydantic collects
    return value


def _quoted(value: object) -> str:
    """Return a name for a list of names."""
    name = option_text(value)
    return name if name.isidentifier() else '"{}"'.format(name.replace('"', '""'))


def parse_offsets(value: object) -> str:
    """Return where to start as Spark's connector has it: a word, or JSON of topics, partitions and offsets."""
    if value in ("earliest", "latest"):
        return str(value)
    try:
        offsets: Any = json.loads(value) if isinstance(value, str) else value  # Any: see _partitions
        return json.dumps({topic: _partitions(of_topic) for topic, of_topic in offsets.items()})
    except (ValueError, AttributeError, TypeError):
        raise ValueError(
            "'earliest', 'latest', or an offset for each partition, such as { orders = { 0 = 23, 1 = -2 } }"
        ) from None


def _partitions(offsets: Mapping[str, Any]) -> dict[str, int]:  # Any: whatever a user may get wrong
    for partition, offset in offsets.items():
        if not str(partition).isdecimal() or isinstance(offset, bool) or not isinstance(offset, int) or offset < -2:
            raise ValueError(partition)
    return {str(partition): offset for partition, offset in offsets.items()}


def one_of(*choices: str) -> tuple[PlainValidator, WithJsonSchema]:
    """Return what makes a type whose values are some words."""

    def parse(value: object) -> str:
        if value not in choices:
            near = nearest_name(str(value).lower(), choices)
            known = ", ".join(f"'{one}'" for one in choices)
            raise Problem(f"is {value!r}: " + (f"did you mean '{near}'?" if near else f"known are {known}"))
        return str(value)

    return checked(parse, {"enum": [*choices]})


Trigger: TypeAlias = Annotated[TriggerSetting, *checked(parse_trigger, {"type": ["string", "number"]})]
Servers: TypeAlias = Annotated[str, *checked(parse_servers, {"type": ["string", "array"], "minLength": 1})]
OptionalHttpUrl: TypeAlias = Annotated[str | None, *checked(optional(parse_http_url), {"type": "string"})]
_TEXTS = {"type": ["string", "array"], "items": {"type": "string", "minLength": 1}}
Texts: TypeAlias = Annotated[tuple[str, ...], *checked(parse_texts, _TEXTS)]
OPTIONS_SCHEMA = {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean"]}}
Options: TypeAlias = Annotated[Mapping[str, str], *checked(parse_options, OPTIONS_SCHEMA)]
Offsets: TypeAlias = Annotated[str, *checked(parse_offsets, {"type": ["string", "object"]})]
OptionalPattern: TypeAlias = Annotated[str | None, *checked(optional(parse_pattern), {"type": "string"})]
