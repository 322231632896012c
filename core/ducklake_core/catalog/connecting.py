"""Opens connections, and waits for none that nobody needs any more: no driver's own wait can be ended.

Runs wherever the catalog is asked.
"""

from __future__ import annotations

from concurrent.futures import Future
from threading import Thread

from sqlalchemy import Connection, Engine

from ducklake_core.errors import CatalogUnavailable
from ducklake_core.retries import Patience

_NAP_SECONDS = 0.5  # a server that answers by then is used: who is stopped may be about to end well


def connect(engine: Engine, patience: Patience, catalog: str) -> Connection:
    """Return a new connection. Raises CatalogUnavailable when the patience is stopped before there is one."""
    if not patience.can_be_stopped:
        return engine.connect()
    opened: Future[Connection] = Future()
    Thread(target=_open, args=(engine, opened), daemon=True).start()
    while True:
        try:
            return opened.result(_NAP_SECONDS)
        except TimeoutError:
            if opened.done():  # the driver's own
                raise
            if patience.is_stopped():
                break
    opened.add_done_callback(_close)
    raise CatalogUnavailable(f"cannot connect to catalog '{catalog}': no answer until the query was stopped")


def _open(engine: Engine, opened: Future[Connection]) -> None:
    try:
        opened.set_result(engine.connect())
    except BaseException as error:  # noqa: BLE001 # it is raised again where the connection is waited for
        opened.set_exception(error)


def _close(opened: Future[Connection]) -> None:
    if opened.exception() is None:
        opened.result().close()
