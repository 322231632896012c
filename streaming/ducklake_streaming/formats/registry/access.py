"""How a registry is reached: its address, and what it is told to let us in. Made on the driver, pickled with tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from urllib3.util import Url, make_headers, parse_url

from ducklake_core.errors import InvalidInput
from ducklake_core.settings import Duration, OptionalText, setting
from ducklake_streaming.jobs.keys import Keys


class RegistryOptions(Keys):
    """The key `registry_options` of a Kafka input."""

    purpose: ClassVar[str] = "a schema registry cannot be used"
    noun: ClassVar[str] = "registry option"

    subject: OptionalText = setting(
        "the subject of the records' schemas, several separated by commas; default: `TOPIC-value`", default=None
    )
    message: OptionalText = setting(
        "Protobuf: the full name of the message to read; default: the first of the schema", default=None
    )
    user: OptionalText = setting("with `password`: the user to sign in as", default=None)
    password: OptionalText = setting("the user's password", default=None)
    token: OptionalText = setting("instead of a user: a bearer token", default=None)
    ca_file: OptionalText = setting("a file of certificates (PEM) to trust instead of the system's", default=None)
    timeout: Duration = setting(
        "how long one request may take; four are tried", default=timedelta(seconds=10), shown='`"10s"`'
    )

    @classmethod
    def contradictions(cls, right: Mapping[str, Any]) -> Iterator[str]:  # Any: each is of its own type
        if (right.get("user") is None) != (right.get("password") is None):
            yield "user and password are given together"
        if right.get("token") is not None and right.get("user") is not None:
            yield "a token and a user are two ways to sign in: give one"

    def __repr_args__(self) -> Iterator[tuple[str, Any]]:
        """Yield what may be shown."""
        for name, value in super().__repr_args__():
            yield name, "***" if name in {"password", "token"} else value


@dataclass(frozen=True, slots=True)
class RegistryAccess:
    """Where a registry is and how to sign in; equal ones share a client."""

    url: str  # without user and password, so that it may be shown
    headers: tuple[tuple[str, str], ...] = field(repr=False, default=())
    certificates: str | None = field(repr=False, default=None)
    timeout_seconds: float = 10.0

    @classmethod
    def of(cls, url: str, options: RegistryOptions) -> RegistryAccess:
        """Make it of what users say. Raises InvalidInput."""
        parsed = _parse(url)
        return cls(
            url=str(Url(parsed.scheme, None, parsed.host, parsed.port, (parsed.path or "").rstrip("/") or None)),
            headers=tuple(_sign_in(parsed, options).items()),
            certificates=None if options.ca_file is None else _read_certificates(options.ca_file),
            timeout_seconds=options.timeout.total_seconds(),
        )


def _parse(url: str) -> Url:
    try:
        parsed = parse_url(url)
    except ValueError:  # its message has the whole address, which may have a password
        parsed = Url()
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise InvalidInput(
            "the address of a schema registry is like http://registry:8081 or https://…, and this is not"
        )
    return parsed


def _sign_in(url: Url, options: RegistryOptions) -> dict[str, str]:
    if options.token is not None:
        return {"Authorization": f"Bearer {options.token}"}
    if options.user is not None:
        return make_headers(basic_auth=f"{options.user}:{options.password}")
    return make_headers(basic_auth=url.auth) if url.auth else {}


def _read_certificates(file: str) -> str:
    """Read them on the driver: executors need not have the file."""
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the registry's ca_file cannot be read: {error}") from error
