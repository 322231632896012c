"""Whether a connection to PostgreSQL lives, and why one was refused, as a code that no language changes.

Runs wherever the catalog is asked. libpq gives the SQLSTATE of every error but that of a connection which fails: there
it has only a message, in the server's language. But its messages can be told to have nothing but the code
(`PQsetErrorVerbosity`), from the moment when a connection has begun. psycopg has no call for that, so libpq is called
directly, and the server asked once more.
"""

from __future__ import annotations

import ctypes
import re
import select
import socket
import sys
from collections.abc import Callable, Sequence
from functools import cache

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo
from psycopg.pq.misc import find_libpq_full_path
from sqlalchemy import Connection

from ducklake_core.clock import SYSTEM_CLOCK

_ONLY_CODES = 3  # PQERRORS_SQLSTATE: https://www.postgresql.org/docs/current/libpq-control.html
_CODE = re.compile(rb":  ([0-9A-Z]{5})\n?$", re.MULTILINE)  # after the severity, which is in the server's language
_DEADLINE_SECONDS = 10.0
NO_PASSWORD = "28P01"  # noqa: S105 # the code of a wrong password, for a password that was asked for and not given
WRONG_PARAMETER = "08001"  # as the SQL standard has it for a client that cannot connect; no server sends it

# Refusals without a code that would tell the reason. PgBouncer has one for all, 08P01, and speaks English alone; what a
# server has told it, it repeats without the code, and asks that server again only a quarter of a minute later.
# libpq itself has none; in another language than English, its own refusals are waited for.
_WITHOUT_CODE = {
    re.compile(r"FATAL:  .*\bauthentication failed"): "28P01",
    re.compile(r"FATAL:  no such user"): "28000",
    re.compile(r"FATAL:  no such database|FATAL:  database \".*\" does not exist"): "3D000",
    re.compile(r"FATAL:  unsupported startup parameter"): WRONG_PARAMETER,
    re.compile(
        r"definition of service .* not found|could not parse network address|invalid port number"
    ): WRONG_PARAMETER,
    re.compile(
        r"SSL was required|root certificate file|certificate verify failed|does not match host name"
    ): WRONG_PARAMETER,
    re.compile(r"authentication method requirement|channel binding required"): WRONG_PARAMETER,
}


def is_alive(connection: Connection) -> bool:
    """Tell whether a connection to PostgreSQL is not known to be dead: an idle one has nothing to say but its end."""
    driver = connection.connection.driver_connection
    if driver is None or driver.closed:
        return False
    arrived = select.poll()
    arrived.register(driver.fileno(), select.POLLIN)
    while arrived.poll(0):
        try:
            driver.pgconn.consume_input()  # the end comes after the last words, if there are any
        except psycopg.OperationalError:
            return False
        if driver.pgconn.status != pq.ConnStatus.OK:
            return False
    return True


def refusal_code(error: psycopg.Error) -> str | None:
    """Return the SQLSTATE for which the server refused a connection; None when it did not answer, or lets us in now."""
    said = next((code for text, code in _WITHOUT_CODE.items() if text.search(str(error))), None)
    if said is not None or error.sqlstate is not None:
        return said or error.sqlstate
    failed = error.pgconn
    if failed is None or isinstance(error, psycopg.errors.ConnectionTimeout):
        return None
    if failed.needs_password:
        return NO_PASSWORD
    conninfo = _conninfo(failed.info)
    return WRONG_PARAMETER if has_wrong_parameter(conninfo) else _ask_again(conninfo)


def has_wrong_parameter(conninfo: str) -> bool:
    """Tell whether libpq would not even begin with these parameters: it does not, although somebody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = make_conninfo(conninfo, host="127.0.0.1", hostaddr="127.0.0.1", port=listener.getsockname()[1])
        begun = pq.PGconn.connect_start(there.encode())
        is_bad = begun.status == pq.ConnStatus.BAD
        begun.finish()
    return is_bad


def _conninfo(options: Sequence[pq.ConninfoOption]) -> str:
    return make_conninfo("", **{o.keyword.decode(): o.val.decode() for o in options if o.val})


def _ask_again(conninfo: str) -> str | None:
    library = _libpq()
    if library is None:
        return None
    connection = pq.PGconn.connect_start(conninfo.encode())
    try:
        library.PQsetErrorVerbosity(ctypes.c_void_p(connection.pgconn_ptr), _ONLY_CODES)  # type: ignore[attr-defined] # the protocol lacks it
        _poll(connection)
        codes = _CODE.findall(connection.error_message)
    finally:
        connection.finish()
    return codes[-1].decode() if codes else None  # the last: with and without encryption are two attempts


def _poll(connection: pq.abc.PGconn, seconds: Callable[[], float] = SYSTEM_CLOCK.seconds) -> None:
    """Connect, or fail to, until the deadline."""
    deadline = seconds() + _DEADLINE_SECONDS
    while connection.status != pq.ConnStatus.BAD and seconds() < deadline:
        events = {pq.PollingStatus.READING: select.POLLIN, pq.PollingStatus.WRITING: select.POLLOUT}
        wanted = events.get(pq.PollingStatus(connection.connect_poll()))
        if wanted is None:
            return
        ready = select.poll()
        ready.register(connection.socket, wanted)
        ready.poll(1000 * max(0.0, deadline - seconds()))


@cache
def _libpq() -> ctypes.CDLL | None:
    """Return the libpq that psycopg uses: what its extension module is linked with, else what it has loaded itself."""
    own = getattr(sys.modules[pq.PGconn.__module__], "__file__", None) or ""
    for path in (own if not own.endswith(".py") else None, find_libpq_full_path()):
        try:
            library = ctypes.CDLL(path) if path else None
        except OSError:
            continue
        if library is not None and hasattr(library, "PQsetErrorVerbosity"):
            return library
    return None  # then a refusal is taken for a server that is away, and waited for
