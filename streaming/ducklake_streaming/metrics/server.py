"""Answers GET and HEAD over HTTP, from threads of its own. Runs on the driver.

Whoever asks never delays a batch: answers are made of numbers in memory, connections are few, each has a deadline, and
one that sends or reads nothing is cut off.
"""

from __future__ import annotations

import errno
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from ducklake_core.clock import SYSTEM_CLOCK
from ducklake_core.errors import InvalidInput
from ducklake_core.observe import LOG_RECORDER
from ducklake_streaming.metrics.answers import TEXT, Answer, MakeAnswer
from ducklake_streaming.metrics.events import AnswerFailed, RequestFailed

MAX_CONNECTIONS = 16
DEADLINE_SECONDS = 10.0  # of a connection, from its beginning to its end
_TICK_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and how connections are secured. `client_ca`: only clients with its certificates are answered.

    `key` None: it is in the file of the certificate.
    """

    host: str = "127.0.0.1"
    port: int = 9464
    certificate: str | None = None
    key: str | None = None
    client_ca: str | None = None

    def make_context(self) -> ssl.SSLContext | None:
        """Return what TLS needs; None: there is none. Raises InvalidInput that names the file."""
        if self.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        try:
            context.load_cert_chain(self.certificate, self.key)
            if self.client_ca is not None:
                context.load_verify_locations(self.client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:  # an SSLError is one
            files = ", ".join(f"'{one}'" for one in (self.certificate, self.key, self.client_ca) if one)
            raise InvalidInput(f"the certificates of [metrics] cannot be used ({files}): {error}") from error
        return context


class MetricsServer:
    """Listens from `start` to `close`. `routes`: what makes the answer to each path, which has no secrets."""

    def __init__(
        self,
        address: Address,
        routes: Mapping[str, MakeAnswer],
        seconds: Callable[[], float] = SYSTEM_CLOCK.seconds,
    ) -> None:
        self._server = _listen(address, routes, seconds)
        self._scheme = "http" if address.certificate is None else "https"
        self._thread = threading.Thread(target=self._serve, name="ducklake-metrics", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        host = str(self._server.server_address[0])
        return f"{self._scheme}://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def start(self) -> Self:
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop listening and cut off who is connected."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        self._server.cut_off(older_than_seconds=0.0)

    def _serve(self) -> None:
        self._server.serve_forever(_TICK_SECONDS)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.close()


def _listen(address: Address, routes: Mapping[str, MakeAnswer], seconds: Callable[[], float]) -> _Server:
    context = address.make_context()
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return _Server((address.host, address.port), family, routes, context, seconds)
    except OSError as error:
        raise InvalidInput(_told(address, error), host=address.host, port=address.port) from error


def _told(address: Address, error: OSError) -> str:
    place = f"{address.host}:{address.port}"
    if error.errno == errno.EADDRINUSE:
        return f"metrics cannot be served at {place}: another process has the port; end that, or choose another 'port'"
    if error.errno == errno.EACCES:
        return f"metrics cannot be served at {place}: this user may not use the port; choose one above 1023"
    return f"metrics cannot be served at {place}: {error.strerror or error}; is 'host' an address of this machine?"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a connection that hangs must not keep a job from ending
    request_queue_size = MAX_CONNECTIONS

    def __init__(
        self,
        place: tuple[str, int],
        family: socket.AddressFamily,
        routes: Mapping[str, MakeAnswer],
        context: ssl.SSLContext | None,
        seconds: Callable[[], float],
    ) -> None:
        self._seconds = seconds
        self.address_family = family
        self.routes = routes
        self._open: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        super().__init__(place, _Handler)
        if context is not None:  # who connects shakes hands in a thread of its own, at its first byte
            self.socket = context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def server_bind(self) -> None:
        """Bind without the name of the host, which may take a name server seconds to tell."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 # Any: as the library has it
        """Take a connection unless there are too many."""
        with self._lock:
            if len(self._open) >= MAX_CONNECTIONS:
                return False
            self._open[request] = self._seconds()
            return True

    def close_request(self, request: Any) -> None:  # Any: as the library has it
        with self._lock:
            self._open.pop(request, None)
        super().close_request(request)

    def service_actions(self) -> None:
        self.cut_off(DEADLINE_SECONDS)

    def cut_off(self, older_than_seconds: float) -> None:
        """End the connections that are as old: their threads meet an error and end."""
        limit = self._seconds() - older_than_seconds
        with self._lock:
            late = [one for one, since in self._open.items() if since <= limit]
        for one in late:
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:  # it has ended meanwhile
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 # Any: as the library has it
        """Say at DEBUG what happened to a connection: a client that goes away is none of the operator's concern."""
        error = sys.exception() or OSError("unknown")
        LOG_RECORDER.record(RequestFailed(error))


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "ducklake-streaming"
    sys_version = ""
    timeout = DEADLINE_SECONDS  # of each read and write

    def do_GET(self) -> None:  # the library's name
        self._answer(with_body=True)

    def do_HEAD(self) -> None:  # the library's name
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        answer = self._made()
        self.send_response(answer.status)
        headers = {"Content-Type": answer.content_type, "Content-Length": str(len(answer.body)), **_SAFE_HEADERS}
        headers |= answer.headers
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if with_body:
            self.wfile.write(answer.body)

    def _made(self) -> Answer:
        make = self.server.routes.get(urlsplit(self.path).path)
        if make is None:
            known = " ".join(sorted(self.server.routes))
            return Answer(f"there is only {known}\n".encode(), TEXT, HTTPStatus.NOT_FOUND)
        try:
            return make()
        except Exception as error:  # noqa: BLE001 # whatever it is, the client is answered and the server goes on
            LOG_RECORDER.record(AnswerFailed(urlsplit(self.path).path, error))
            return Answer(b"this answer could not be made: see the log\n", TEXT, HTTPStatus.INTERNAL_SERVER_ERROR)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 # the library's name
        """Log no line for each scrape."""


_SAFE_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",  # the page for people has its own
}
