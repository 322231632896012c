"""The doctor as `Lake` calls him: looks a lake over, mends it if told to, and returns what he found."""

from __future__ import annotations

from dataclasses import replace

from ducklake_core.catalog import totals
from ducklake_core.catalog.checks.question import EXAMPLES, Answer
from ducklake_core.catalog.database import Database
from ducklake_core.clock import Clock
from ducklake_core.errors import CatalogError
from ducklake_core.files.storage import Storage
from ducklake_core.maintenance.doctor.examination import Examination, Progress
from ducklake_core.maintenance.doctor.finding import Finding, Severity
from ducklake_core.maintenance.doctor.kinds import KINDS
from ducklake_core.maintenance.doctor.notes import Notes
from ducklake_core.maintenance.doctor.repairs import repair

_ORDER = list(Severity)


def examine(
    database: Database, storage: Storage, data_path: str, clock: Clock, progress: Progress, *, full: bool, mend: bool
) -> list[Finding]:
    """Return what is broken, the worst first."""
    examination = Examination(database, storage, data_path, full, progress)
    answers = examination.run()
    names = _names(database) if answers else {}
    done: dict[tuple[str, int | None], str] = {}
    if mend and all(answer.code != "format-changed" for answer in answers):
        done = repair(answers, replace(examination, full=True, notes=Notes()), clock.now())
    findings = [_finding(answer, names, done.get((answer.code, answer.table_id))) for answer in answers]
    return sorted(findings, key=lambda one: (_ORDER.index(one.severity), one.table or "", one.code))


def _names(database: Database) -> dict[int, str]:
    try:
        return database.ask(totals.read_object_names)
    except CatalogError:  # of another format, or broken
        return {}


def _finding(answer: Answer, names: dict[int, str], repaired: str | None) -> Finding:
    kind = KINDS[answer.code]
    more = ", …" if answer.count > min(EXAMPLES, len(answer.examples)) else ""
    found = f"{kind.what} ({answer.count}): {'; '.join(answer.examples)}{more}"
    table = None if answer.table_id is None else names.get(answer.table_id, f"table {answer.table_id}")
    return Finding(kind.code, kind.severity, table, found, answer.sql, kind.helps, kind.can_repair, repaired)
