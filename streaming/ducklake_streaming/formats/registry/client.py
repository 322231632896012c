"""Asks a schema registry: Confluent's API, of which others have the same part. Runs on driver and executors."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

import urllib3
from urllib3.util import Retry, Timeout

from ducklake_core.clock import SYSTEM_CLOCK, Clock
from ducklake_core.errors import InvalidInput
from ducklake_streaming.formats.registry.access import RegistryAccess
from ducklake_streaming.formats.registry.errors import NoSuchSchema, RegistryUnavailable, UnusableSchema

ATTEMPTS = 4
_BACKOFF_SECONDS = 0.5  # waits of 0, 1 and 2 seconds between four attempts
_TRIED_AGAIN = (429, 500, 502, 503, 504)
_UNKNOWN_SECONDS = 30.0  # an id that the registry does not have may be registered later
_DEEPEST_REFERENCES = 50
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it, with all those that it refers to, each after those that it needs."""

    kind: str  # AVRO, PROTOBUF or JSON
    text: str
    references: tuple[tuple[str, str], ...] = ()  # (name, text)


class RegistryClient:
    """Asks one registry. A schema id means the same for ever, so each is asked for once."""

    def __init__(self, access: RegistryAccess, clock: Clock = SYSTEM_CLOCK) -> None:
        self.url = access.url
        self._clock = clock
        self._pool = _make_pool(access)
        self._by_id: dict[int, RegisteredSchema] = {}
        self._unknown: dict[int, float] = {}  # until when an id is taken for unknown

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return a schema by its id. Raises NoSuchSchema, RegistryUnavailable."""
        if schema_id not in self._by_id:
            self._by_id[schema_id] = self._fetch(schema_id)
        return self._by_id[schema_id]

    def latest(self, subject: str) -> tuple[int, RegisteredSchema]:
        """Return the newest schema of a subject and its id. Raises NoSuchSchema, RegistryUnavailable."""
        answer = self._get(f"/subjects/{_quoted(subject)}/versions/latest", f"subject '{subject}'")
        schema_id = int(answer["id"])
        self._by_id[schema_id] = self._with_references(answer)
        return schema_id, self._by_id[schema_id]

    def subjects_of(self, schema_id: int) -> set[str]:
        """Return the subjects that have a version of this id."""
        versions = self._get(f"/schemas/ids/{schema_id}/versions", f"schema id {schema_id}")
        return {str(version["subject"]) for version in versions}

    def add_known(self, schemas: Mapping[int, RegisteredSchema]) -> None:
        """Take schemas that somebody else has asked for."""
        self._by_id.update(schemas)

    def _fetch(self, schema_id: int) -> RegisteredSchema:
        if self._unknown.get(schema_id, 0.0) > self._clock.seconds():
            raise self._no_such(f"schema id {schema_id}")
        try:
            return self._with_references(self._get(f"/schemas/ids/{schema_id}", f"schema id {schema_id}"))
        except NoSuchSchema:
            self._unknown[schema_id] = self._clock.seconds() + _UNKNOWN_SECONDS
            raise

    def _with_references(self, answer: Any) -> RegisteredSchema:  # Any: JSON
        found: dict[str, str] = {}
        self._add_references(answer, found, 0)
        return RegisteredSchema(answer.get("schemaType") or "AVRO", str(answer["schema"]), tuple(found.items()))

    def _add_references(self, answer: Any, found: dict[str, str], depth: int) -> None:  # Any: JSON
        if depth > _DEEPEST_REFERENCES:
            raise UnusableSchema(f"a schema of {self.url} refers to itself, or to others more than {depth} deep")
        for reference in answer.get("references") or ():
            if reference["name"] not in found:
                subject, version = reference["subject"], reference["version"]
                what = f"version {version} of subject '{subject}', to which a schema refers,"
                other = self._get(f"/subjects/{_quoted(subject)}/versions/{version}", what)
                self._add_references(other, found, depth + 1)
                found[reference["name"]] = str(other["schema"])

    def _get(self, path: str, what: str) -> Any:  # Any: JSON
        try:
            answer = self._pool.request("GET", self.url + path)
        except urllib3.exceptions.HTTPError as error:
            raise RegistryUnavailable(
                f"the schema registry {self.url} cannot be reached, asked {ATTEMPTS} times for {what}: {_cause(error)}"
            ) from error
        return self._checked(answer, what)

    def _checked(self, answer: urllib3.BaseHTTPResponse, what: str) -> Any:  # Any: JSON
        match answer.status:
            case 200:
                return self._parsed(answer, what)
            case 404:
                raise self._no_such(what)
            case 401 | 403:
                raise InvalidInput(
                    f"the schema registry {self.url} does not let us read {what} ({answer.status}): "
                    "see user, password and token in registry_options"
                )
            case status:
                raise RegistryUnavailable(f"the schema registry {self.url} answers {status} when asked for {what}")

    def _parsed(self, answer: urllib3.BaseHTTPResponse, what: str) -> Any:  # Any: JSON
        try:
            return json.loads(answer.data)
        except ValueError as error:
            raise RegistryUnavailable(
                f"what is at {self.url} is no schema registry: asked for {what}, it does not answer in JSON"
            ) from error

    def _no_such(self, what: str) -> NoSuchSchema:
        return NoSuchSchema(f"{what} is not in the schema registry {self.url}")


@lru_cache(maxsize=16)
def client_of(access: RegistryAccess) -> RegistryClient:
    """Return this process's client of a registry."""
    return RegistryClient(access)


def _make_pool(access: RegistryAccess) -> urllib3.PoolManager:
    retries = Retry(
        total=ATTEMPTS - 1,
        redirect=3,
        backoff_factor=_BACKOFF_SECONDS,
        status_forcelist=_TRIED_AGAIN,
        raise_on_status=False,
    )
    return urllib3.PoolManager(
        headers={"Accept": _ACCEPT, **dict(access.headers)},
        retries=retries,
        timeout=Timeout(connect=access.timeout_seconds, read=access.timeout_seconds),
        ssl_context=ssl.create_default_context(cadata=access.certificates),  # None: those of the system
    )


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _cause(error: urllib3.exceptions.HTTPError) -> object:
    """Return what happened, without urllib3's name of the connection."""
    reason = getattr(error, "reason", None) or error
    return getattr(reason, "args", (reason,))[-1] if reason is not error else error
