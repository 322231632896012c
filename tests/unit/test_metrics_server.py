"""The server of metrics: what it answers, to whom, and that nobody can hold it up."""

import errno
import http.client
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress

import pytest

from ducklake_core.errors import InvalidInput
from ducklake_streaming.metrics.answers import Answer, MakeAnswer
from ducklake_streaming.metrics.server import DEADLINE_SECONDS, MAX_CONNECTIONS, Address, MetricsServer
from tests.fixtures.certificates import Certificates
from tests.fixtures.waiting import wait_until

HERE = "127.0.0.1"


def _broken() -> Answer:
    raise ValueError("secret")


ROUTES: Mapping[str, MakeAnswer] = {
    "/metrics": lambda: Answer(b"up 1\n", "text/plain; version=0.0.4"),
    "/broken": _broken,
}


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hand() -> Hand:
    return Hand()


@pytest.fixture
def server(hand: Hand) -> Iterator[MetricsServer]:
    with MetricsServer(Address(port=0), ROUTES, hand) as made:
        yield made


def ask(server: MetricsServer, path: str, method: str = "GET") -> tuple[int, str, Mapping[str, str]]:
    connection = http.client.HTTPConnection(HERE, server.port, timeout=30)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())
    finally:
        connection.close()


def test_answer_of_a_route_is_served_as_it_is(server: MetricsServer) -> None:
    status, body, headers = ask(server, "/metrics?x=1")

    assert (status, body) == (200, "up 1\n")
    assert headers["Content-Type"] == "text/plain; version=0.0.4"
    assert headers["Cache-Control"] == "no-store"


def test_head_has_no_body(server: MetricsServer) -> None:
    status, body, headers = ask(server, "/metrics", "HEAD")

    assert (status, body, headers["Content-Length"]) == (200, "", "5")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 404), ("GET", "/../etc/passwd", 404), ("POST", "/metrics", 501), ("DELETE", "/metrics", 501)],
)
def test_all_else_is_refused(server: MetricsServer, method: str, path: str, status: int) -> None:
    assert ask(server, path, method)[0] == status


def test_answer_that_cannot_be_made_tells_no_details(server: MetricsServer) -> None:
    status, body, _ = ask(server, "/broken")

    assert status == 500
    assert "secret" not in body
    assert ask(server, "/metrics")[0] == 200


def test_it_listens_on_this_machine_unless_told_otherwise(server: MetricsServer) -> None:
    assert server.url == f"http://127.0.0.1:{server.port}/"
    assert Address().host == "127.0.0.1"


def test_port_in_use_is_told_with_what_helps(server: MetricsServer) -> None:
    with pytest.raises(InvalidInput, match=f"{HERE}:{server.port}: another process has the port; .*'port'"):
        MetricsServer(Address(port=server.port), ROUTES)


@pytest.mark.parametrize(
    ("address", "told"), [(Address("203.0.113.1", 0), "is 'host' an address"), (Address("no such host", 0), "host")]
)
def test_host_of_another_machine_is_told(address: Address, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        MetricsServer(address, ROUTES)


def test_silent_connections_are_few_and_cut_off(server: MetricsServer, hand: Hand) -> None:
    """They hold all places, further ones are closed, and after the deadline somebody else is answered."""
    with ExitStack() as stack:
        silent = [stack.enter_context(socket.create_connection((HERE, server.port))) for _ in range(MAX_CONNECTIONS)]
        wait_until(lambda: not _is_answered(server))

        hand.now = DEADLINE_SECONDS

        wait_until(lambda: _is_answered(server))
        for one in silent:
            one.settimeout(30)
            assert one.recv(1) == b""


def _is_answered(server: MetricsServer) -> bool:
    try:
        return ask(server, "/metrics")[0] == 200
    except OSError as error:
        return error.errno not in (None, errno.ECONNRESET, errno.EPIPE)
    except http.client.HTTPException:
        return False


def test_nothing_listens_after_the_end() -> None:
    with MetricsServer(Address(port=0), ROUTES) as server:
        port = server.port
        waiting = socket.create_connection((HERE, port))

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HERE, port))
    with waiting, suppress(ConnectionResetError):  # where it was never taken
        waiting.settimeout(30)
        assert waiting.recv(1) == b""


def ask_with_tls(server: MetricsServer, authority: str, client: str | None) -> int:
    context = ssl.create_default_context(cafile=authority)
    if client is not None:
        context.load_cert_chain(client)
    connection = http.client.HTTPSConnection(HERE, server.port, context=context, timeout=30)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().status
    finally:
        connection.close()


def test_tls_answers_only_clients_with_a_certificate(certificates: Certificates) -> None:
    address = Address(port=0, certificate=certificates.server, client_ca=certificates.authority)
    with MetricsServer(address, ROUTES) as server:
        # Who connects and says nothing must not keep others from shaking hands.
        with socket.create_connection((HERE, server.port)):
            assert ask_with_tls(server, certificates.authority, certificates.client) == 200
        with pytest.raises((ssl.SSLError, OSError)):
            ask_with_tls(server, certificates.authority, None)
        with pytest.raises((http.client.HTTPException, OSError)):
            ask(server, "/metrics")
        assert server.url.startswith("https://")


def test_certificate_that_cannot_be_read_is_named(tmp_path: object) -> None:
    with pytest.raises(InvalidInput, match=r"missing\.pem"):
        MetricsServer(Address(port=0, certificate=f"{tmp_path}/missing.pem"), ROUTES)
