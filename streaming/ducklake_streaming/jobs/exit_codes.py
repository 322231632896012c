"""With which code a job ends, and what an error says in one line. Pure; needs no Spark to be imported.

Errors of a batch come as they were raised. Others come from Spark as a text: those of its own Kafka source, and those
of our source, which runs in a process of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum

from ducklake_core import errors
from ducklake_core.errors import DuckLakeError, InvalidInput, LedgerBehind, SnapshotsExpired, StreamFenced
from ducklake_core.log_lines import one_line
from ducklake_streaming.kafka.errors import BrokerUnavailable, RecordsLost


class ExitCode(IntEnum):
    """How a command ended, for whoever started it."""

    ENDED = 0  # as told: by a signal, or because there was no more to do
    FAILED = 1
    USAGE = 2  # the command line or the job file is wrong
    DATA_LOSS = 3  # what was to be read next is gone, or what was acknowledged
    FENCED = 4  # another run has taken over the stream


_CODES: tuple[tuple[type[DuckLakeError], ExitCode], ...] = (
    (StreamFenced, ExitCode.FENCED),
    (SnapshotsExpired, ExitCode.DATA_LOSS),
    (LedgerBehind, ExitCode.DATA_LOSS),
    (RecordsLost, ExitCode.DATA_LOSS),
    (InvalidInput, ExitCode.USAGE),
)
# A Python error in a text of Spark, by the last line of its traceback.
_OURS = re.compile(r"(?:ducklake_core|ducklake_streaming\.kafka)\.errors\.(\w+)(?::\s*(.*))?")
# What Spark's Kafka source and Kafka's own client say when records are gone.
_LOST = re.compile(r"KAFKA_DATA_LOSS|OffsetOutOfRangeException|[Ss]ome data may have been (?:lost|missed)")
_AWAY = re.compile(
    r"org\.apache\.kafka\.common\.errors\."
    r"(?:TimeoutException|DisconnectException|NetworkException|BrokerNotAvailableException|LeaderNotAvailableException"
    r"|NotLeaderOrFollowerException|CoordinatorNotAvailableException)"
    r"|No resolvable bootstrap urls"
)

# Spark gives a Python process of its own ten seconds to start, and no setting changes that.
_LATE = re.compile(r"Python worker failed to connect back")


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the code of an error, also of one that Spark has wrapped; an unknown one is FAILED."""
    known = find_own_error(error)
    if known is not None:
        return next((code for kind, code in _CODES if isinstance(known, kind)), ExitCode.FAILED)
    return ExitCode.DATA_LOSS if is_data_loss(error) else ExitCode.FAILED


def find_own_error(error: BaseException) -> DuckLakeError | None:
    """Return the error of ours that made this one: itself, among its causes, or named in the text of one."""
    for one in _chain(error):
        if isinstance(one, DuckLakeError):
            return one
        if found := _OURS.findall(str(one)):
            return _rebuilt(*found[-1])  # a traceback ends with what was raised at last
    return None


def is_data_loss(error: BaseException) -> bool:
    """Tell whether Spark's Kafka source says that records are gone."""
    return any(_LOST.search(str(one)) for one in _chain(error))


def is_broker_away(error: BaseException) -> bool:
    """Tell whether a query has failed for want of a broker: it may go on from its checkpoint."""
    if isinstance(find_own_error(error), BrokerUnavailable):
        return True
    return not is_data_loss(error) and any(_AWAY.search(str(one)) for one in _chain(error))


def is_python_late(error: BaseException) -> bool:
    """Tell whether a query has failed because a Python process of Spark did not start in time: it may begin again."""
    return find_own_error(error) is None and any(_LATE.search(str(one)) for one in _chain(error))


def line_of_error(error: BaseException) -> str:
    """Return an error as one line without a stack: ours by its message, others with their type."""
    known = find_own_error(error)
    return one_line(error) if known is None else known.message


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, and those that caused it."""
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen:
        seen.add(id(one))
        yield one
        one = one.__cause__ or one.__context__


def _rebuilt(name: str, message: str) -> DuckLakeError | None:
    kind = _kinds().get(name)
    return None if kind is None else kind(message.strip() or name)


def _kinds() -> dict[str, type[DuckLakeError]]:
    """Return the errors by name."""
    found: dict[str, type[DuckLakeError]] = {}
    kinds: list[type[DuckLakeError]] = [errors.DuckLakeError]
    while kinds:
        kind = kinds.pop()
        found[kind.__name__] = kind
        kinds += kind.__subclasses__()
    return found
