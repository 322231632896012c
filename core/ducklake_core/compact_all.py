"""Merges or rewrites the files of some or all tables of a lake, each in a snapshot of its own. Runs on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ducklake_core.errors import CatalogUnavailable, CommitConflict, DuckLakeError, InvalidInput, ObjectNotFound
from ducklake_core.log_lines import one_line
from ducklake_core.maintenance.compaction import DROPPED, Compactor, run_in_process
from ducklake_core.maintenance.compaction_method import Merge, Method, Rewrite, TableAt
from ducklake_core.maintenance.report import MaintenanceReport, Work
from ducklake_core.maintenance.run import Done, has_done, run_operation
from ducklake_core.spec.names import fold, join_table_name, quoted, split_table_name
from ducklake_core.spec.quantities import parse_size
from ducklake_core.tasks import Runner

if TYPE_CHECKING:
    from ducklake_core.lake import Lake

Size = int | str


def merge_of(min_file_size: Size | None, max_file_size: Size | None, max_compacted_files: int | None) -> Merge:
    """Return what is merged, from what users say. Raises InvalidInput."""
    least = 0 if min_file_size is None else _bytes("min_file_size", min_file_size, least=0)
    most = None if max_file_size is None else _bytes("max_file_size", max_file_size, least=1)
    if most is not None and least >= most:
        raise InvalidInput(f"min_file_size is {least} bytes, but must be less than max_file_size, which is {most}")
    if max_compacted_files is not None and max_compacted_files < 1:
        raise InvalidInput(f"max_compacted_files is {max_compacted_files}, but must be 1 or more")
    return Merge(least, most, max_compacted_files)


def rewrite_of(delete_threshold: float | None) -> Rewrite:
    """Return what is rewritten, from what users say. Raises InvalidInput."""
    if delete_threshold is not None and not 0 <= delete_threshold <= 1:
        raise InvalidInput(f"delete_threshold is {delete_threshold}, but must be a number from 0 to 1")
    return Rewrite(delete_threshold)


def compact_tables(
    lake: Lake, method: Method, table: str | None, schema: str | None, runner: Runner | None
) -> MaintenanceReport:
    """Compact a table, or all that may be; one that fails does not keep the others from it: its work has the error."""
    names = _names_of_all(lake, schema) if table is None else [_full_name(table, schema)]
    if table is not None:
        _look(lake, names[0])  # raises for a table that is not there
    return run_operation(lake, method.operation, lambda: _compact_each(lake, method, names, runner or run_in_process))


def _compact_each(lake: Lake, method: Method, names: Sequence[str], runner: Runner) -> Done:
    """Compact tables in their order. A catalog that is away ends it: each other table would wait for it as long.

    Raises CatalogUnavailable when nothing was done until then; else the work tells what was, and what was not.
    """
    work: list[Work] = []
    for number, name in enumerate(names):
        try:
            work.append(_compact(lake, method, name, runner))
        except CatalogUnavailable as error:
            if not any(map(has_done, work)):
                raise
            left = "the catalog was away before its turn"
            work += [Work(_shown(name), error=one_line(error))]
            work += [Work(_shown(other), skipped=left) for other in names[number + 1 :]]
            break
    return Done(tuple(work))


def _compact(lake: Lake, method: Method, name: str, runner: Runner) -> Work:
    compactor = Compactor(
        lake.database, lake.storage, lake.committer, lake.clock, lambda: _look(lake, name), method, runner
    )
    try:
        return compactor.run()
    except ObjectNotFound:
        return Work(_shown(name), skipped=DROPPED)
    except CommitConflict as error:
        return Work(_shown(name), skipped=f"others changed it again and again: {error}")
    except CatalogUnavailable:  # no matter of one table
        raise
    except DuckLakeError as error:
        return Work(_shown(name), error=one_line(error))


def _shown(name: str) -> str:
    return join_table_name(*split_table_name(name))


def _look(lake: Lake, name: str) -> TableAt:
    lake.forget()  # a flush may have dropped tables of inlined rows, of which no schema version tells
    definitions = lake.definitions()
    table = definitions.find_table(*split_table_name(name))
    if table is None:
        raise definitions.table_not_found(name)
    return TableAt(definitions.snapshot, table, definitions.options_of(table))


def _names_of_all(lake: Lake, schema: str | None) -> list[str]:
    definitions = lake.definitions()
    tables = [t for t in definitions.tables() if schema is None or fold(t.schema_name) == fold(schema)]
    return [quoted(t.schema_name, t.name) for t in tables if definitions.options_of(t).auto_compact]


def _full_name(table: str, schema: str | None) -> str:
    return table if schema is None else quoted(schema, split_table_name(table)[1])


def _bytes(name: str, value: Size, *, least: int) -> int:
    try:
        return parse_size(value, least=least)
    except ValueError as error:
        raise InvalidInput(f"{name} is {value!r}, but must be {error}") from error
