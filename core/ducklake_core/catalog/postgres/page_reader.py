"""Reads row versions of PostgreSQL page by page, as `joined_decode` joins them, as long as that keeps their order.

Rows that were only ever appended lie nearly in the order of their ids, and need no sort by the server: some pages are
swapped with their neighbours. Updates, deletes, and room that a vacuum has given back disturb it more: from there on
the reader lets the server sort.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Self

from sqlalchemy import BigInteger, ColumnElement, Select, String, Table, bindparam, column, func, literal, select
from sqlalchemy import cast as sql_cast
from sqlalchemy import table as sql_table

from ducklake_core.catalog.inlined_tables import SYSTEM_COLUMNS
from ducklake_core.catalog.postgres.joined_decode import (
    Block,
    CannotSplit,
    JoinPlan,
    block_query,
    column_array,
    int64s,
    page_start,
)
from ducklake_core.catalog.postgres.session import PostgresSession
from ducklake_core.catalog.row_versions import RowVersions, concat_versions, table_of
from ducklake_core.catalog.session import Statement
from ducklake_core.catalog.stored_tables import quoted_name
from ducklake_core.model import Column, SnapshotId
from ducklake_core.prefetch import prefetched
from ducklake_core.spec.thresholds import MIN_PAGES
from ducklake_core.text_repair import with_valid_text

_RANGE_SCANS = 140000  # PostgreSQL 14 finds the rows between two places without a look at all others
_HEAP = 2  # its own way to store tables, by OID
_BLOCK_BYTES = 2**18  # larger ones leave the processor's cache before they are sent
_MAX_PAGES = 64
_MAX_TARGETS = 1664  # what a SELECT of PostgreSQL can return: MaxTupleAttributeNumber
_MAX_BLOCKS = 16  # of one round trip
_CARRIED = 16  # the last rows of a chunk, one in so many, wait for rows of the next that belong before them


@dataclass(frozen=True, slots=True)
class PageScan:
    """What is to be read: an inlined table's rows begun by a snapshot, with the columns as they are selected."""

    table: Table
    picked: tuple[ColumnElement[object], ...]
    columns: tuple[Column, ...]
    snapshot: SnapshotId


def count_pages(session: PostgresSession, name: str, column_count: int) -> int:
    """Return how many pages an inlined table has; 0 when it is not one to be read by scan.

    Values that lie beside the table could make a page of it very large. A block has up to two values of each column.
    """
    is_wide = len(SYSTEM_COLUMNS) + 2 * column_count > _MAX_TARGETS
    if is_wide or session.server_version < _RANGE_SCANS:
        return 0
    [[pages, beside]] = session.query(_SIZES, name=quoted_name(session, name)) or [[0, 0]]
    return 0 if beside or pages < MIN_PAGES else int(pages)


def read_in_order(
    session: PostgresSession, scan: PageScan, count: int, chunk_bytes: int
) -> Generator[tuple[RowVersions, int], None, None]:
    """Yield row versions by row id and begin, in chunks of about so many bytes, each with the page to go on from.

    Ends before the last page where the order ends, where the rows cannot be taken apart, or where a page is too large.
    """
    session.query(_SETTINGS)
    last, page, size = (-1, -1), 0, 0
    carried, parts = list[RowVersions](), list[RowVersions]()
    with closing(prefetched(_fetch(session, scan, count, chunk_bytes))) as fetched:
        for blocks, next_page in fetched:
            try:
                parts += [_versions(blocks, scan)] if blocks else []  # while the server joins the next ones
            except CannotSplit:
                break
            size += sum(block.size_bytes for block in blocks)
            if (size < chunk_bytes and next_page < count) or not (carried or parts):
                continue
            found = concat_versions([*carried, *parts]).sorted()
            if found.key(0) < last:
                break
            page = next_page
            done = len(found) - (len(found) // _CARRIED if page < count else 0)
            yield found.slice(0, done), page
            last = found.key(done - 1)
            carried = [found.slice(done, len(found))] if done < len(found) else []
            parts, size = [], sum(rest.rows.nbytes for rest in carried)
    for rest in carried:
        yield rest, page


def _versions(blocks: Sequence[Block], scan: PageScan) -> RowVersions:
    row_ids, begins, ends = (int64s(blocks, index) for index in range(len(SYSTEM_COLUMNS)))
    arrays = [column_array(blocks, index, c) for index, c in enumerate(scan.columns, len(SYSTEM_COLUMNS))]
    rows = table_of(arrays, scan.columns, len(row_ids))
    return RowVersions(with_valid_text(rows, scan.table.name), row_ids, begins, ends)


def _fetch(
    session: PostgresSession, scan: PageScan, count: int, chunk_bytes: int
) -> Generator[tuple[list[Block], int], None, None]:
    """Yield the blocks of each round trip, and the page after them; end before a page that is too large by itself."""
    plan, limits = JoinPlan(scan.columns), BlockLimits.of_chunk(chunk_bytes)
    page, step = 0, 1
    while page < count:
        starts = range(page, count, step)[: limits.at_once if step > 1 else 1]
        ranges = [(start, min(start + step, count)) for start in starts]
        found = _query(session, scan, plan, ranges, limits.most_bytes)
        if found is None and step == 1:
            return
        if found is None:
            step = 1
            continue
        nulls = frozenset[int]().union(*(plan.unexpected_nulls(block) for block in found))
        if nulls:
            plan = replace(plan, with_nulls=plan.with_nulls | nulls)
            continue
        page = ranges[-1][1]
        yield found, page
        step = next_step(step, sum(block.size_bytes for block in found) // len(starts), limits.wanted_bytes)


@dataclass(frozen=True, slots=True)
class BlockLimits:
    """How many blocks a round trip may have, how large one should be, and how large it may be.

    Together they are no more than half a chunk.
    """

    at_once: int
    wanted_bytes: int
    most_bytes: int

    @classmethod
    def of_chunk(cls, chunk_bytes: int) -> Self:
        at_once = max(1, min(_MAX_BLOCKS, chunk_bytes // (4 * _BLOCK_BYTES)))
        most_bytes = chunk_bytes // (2 * at_once)
        return cls(at_once, min(_BLOCK_BYTES, most_bytes // 2), most_bytes)


def next_step(step: int, block_bytes: int, wanted_bytes: int = _BLOCK_BYTES) -> int:
    """Return how many pages the next blocks should have, by what the last ones had: at most twice as many."""
    wanted = step * wanted_bytes // max(1, block_bytes)
    return max(1, min(wanted, 2 * step, _MAX_PAGES))


def _query(
    session: PostgresSession, scan: PageScan, plan: JoinPlan, ranges: Sequence[tuple[int, int]], most_bytes: int
) -> list[Block] | None:
    """Return the blocks of some ranges of pages that have rows; None when one of them is too large."""
    query = block_query(scan.table, scan.picked, plan)
    common: dict[str, object] = {"snapshot": scan.snapshot, "most_bytes": most_bytes}
    statements = [
        Statement(query, {**common, "first": page_start(first), "after": page_start(after)}) for first, after in ranges
    ]
    rows = session.run_raw(statements)
    if not all(rows):
        return None
    found = (plan.block(row) for row in rows)
    return [block for block in found if block is not None]


def _sizes() -> Select[*tuple[Any, ...]]:
    """The pages of a plain table, and the bytes of values that lie beside it."""
    classes = sql_table("pg_class", column("oid"), column("relam"), column("reltoastrelid"), schema="pg_catalog")
    page_bytes = sql_cast(func.current_setting("block_size"), BigInteger)
    beside = func.pg_relation_size(func.nullif(classes.c.reltoastrelid, 0))
    wanted = func.to_regclass(bindparam("name", type_=String))
    return select(func.pg_relation_size(classes.c.oid) / page_bytes, func.coalesce(beside, 0)).where(
        classes.c.oid == wanted, classes.c.relam == _HEAP
    )


# Until the end of the transaction: one plan for all ranges, of which each is a scan of its own scan.
_SETTINGS = select(
    *(
        func.set_config(name, value, literal(value=True))
        for name, value in (
            ("plan_cache_mode", "force_generic_plan"),
            ("enable_seqscan", "off"),
            ("max_parallel_workers_per_gather", "0"),
            ("jit", "off"),
        )
    )
)
_SIZES = _sizes()
