"""The client against a real registry: schemas, references, subjects, and what it says of those that are not there."""

import pickle
import socket
from threading import Thread

import pytest

from ducklake_core.errors import InvalidInput
from ducklake_streaming.demo.local_postgres import HOST, free_port
from ducklake_streaming.formats.registry.access import RegistryAccess, RegistryOptions
from ducklake_streaming.formats.registry.client import RegisteredSchema, RegistryClient
from ducklake_streaming.formats.registry.errors import NoSuchSchema, RegistryUnavailable
from ducklake_streaming.formats.registry.probe import probe
from tests.fixtures.registry import Registry

pytestmark = pytest.mark.slow

INNER = {"type": "record", "name": "Inner", "namespace": "x", "fields": [{"name": "a", "type": "int"}]}
OUTER = {"type": "record", "name": "Outer", "namespace": "x", "fields": [{"name": "i", "type": "x.Inner"}]}


def test_schema_comes_with_those_that_it_refers_to(registry: Registry) -> None:
    topic = registry.new_topic()
    registry.register(f"{topic}-inner", INNER)
    reference = {"name": "x.Inner", "subject": f"{topic}-inner", "version": 1}
    schema_id = registry.register(f"{topic}-value", OUTER, references=[reference])
    client = _client(registry.url)

    by_id = client.schema(schema_id)

    assert (by_id.kind, [name for name, _ in by_id.references]) == ("AVRO", ["x.Inner"])
    assert client.latest(f"{topic}-value") == (schema_id, by_id)
    assert client.subjects_of(schema_id) == {f"{topic}-value"}
    assert probe(registry.url, f"{topic}-value", RegistryOptions()).startswith(
        f"subject '{topic}-value' has schema id {schema_id} (AVRO)"
    )


def test_what_is_not_there_is_named(registry: Registry) -> None:
    client = _client(registry.url)

    with pytest.raises(NoSuchSchema, match=rf"^schema id 999999 is not in the schema registry {registry.url}$"):
        client.schema(999999)
    with pytest.raises(NoSuchSchema, match=r"^subject 'a/b c' is not in the schema registry"):
        client.latest("a/b c")
    with pytest.raises(NoSuchSchema, match=r"^subject 'nothing' is not in"):
        probe(registry.url, "nothing", RegistryOptions())


def test_registry_that_is_away_is_named_without_its_password() -> None:
    url = f"http://scott:tiger@{HOST}:{free_port()}"

    with pytest.raises(RegistryUnavailable, match="cannot be reached, asked 4 times for subject 's'") as caught:
        probe(url, "s", RegistryOptions.parse({"timeout": "1s"}))

    assert "tiger" not in str(caught.value)
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), RegistryUnavailable)  # noqa: S301 # our own


@pytest.mark.parametrize(
    ("url", "options", "header"),
    [
        ("http://{}", {"user": "u", "password": "p"}, b"authorization: Basic dTpw"),
        ("http://u:p@{}", {}, b"authorization: Basic dTpw"),
        ("http://{}", {"token": "abc"}, b"authorization: Bearer abc"),
    ],
    ids=["user", "in the address", "token"],
)
def test_sign_in_that_is_refused_says_so_and_shows_no_secret(url: str, options: dict[str, str], header: bytes) -> None:
    heard: list[bytes] = []
    with socket.create_server((HOST, 0)) as server:
        Thread(target=_refuse_once, args=(server, heard)).start()
        with pytest.raises(InvalidInput, match=r"does not let us read subject 's' \(401\)"):
            probe(url.format(f"{HOST}:{server.getsockname()[1]}"), "s", RegistryOptions.parse(options))

    assert header.lower() in heard[0].lower()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"user": "u"}, "user and password are given together"),
        ({"user": "u", "password": "p", "token": "t"}, "two ways to sign in"),
        ({"subjct": "s"}, "did you mean 'subject'?"),
        ({"ca_file": "/nowhere"}, "ca_file cannot be read"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_options_are_told(options: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        RegistryAccess.of("http://localhost:8081", RegistryOptions.parse(options))
    assert problem in str(caught.value)


def test_no_secret_is_in_a_repr() -> None:
    options = RegistryOptions.parse({"user": "scott", "password": "tiger"})
    access = RegistryAccess.of("http://scott:tiger@localhost:8081/", options)
    assert access.url == "http://localhost:8081"
    assert "tiger" not in f"{options!r} {access!r}"
    assert pickle.loads(pickle.dumps(access)) == access  # noqa: S301 # our own


def test_address_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInput, match="address of a schema registry is like"):
        RegistryAccess.of("registry:tiger", RegistryOptions.parse({}))


def test_schema_survives_pickling() -> None:
    schema = RegisteredSchema("AVRO", "{}", (("a", "b"),))
    assert pickle.loads(pickle.dumps(schema)) == schema  # noqa: S301 # our own


def _client(url: str) -> RegistryClient:
    return RegistryClient(RegistryAccess.of(url, RegistryOptions.parse({})))


def _refuse_once(server: socket.socket, heard: list[bytes]) -> None:
    connection, _ = server.accept()
    with connection:
        heard.append(connection.recv(4096))
        connection.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
