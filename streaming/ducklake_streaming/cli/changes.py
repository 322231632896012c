"""The command `changes`: what the rows of a table did, once or as a live tail. It needs no Spark.

A range is read in pieces of some snapshots each, oldest first, so that memory does not grow with it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ducklake_streaming.cli.completion import complete_table
from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command
from ducklake_streaming.cli.values import parse_moment

if TYPE_CHECKING:
    import pyarrow as pa

    from ducklake_core import TableFeed
    from ducklake_core.model import Snapshot, SnapshotId
    from ducklake_streaming.cli.row_writers import RowWriter

_MAX_SNAPSHOTS = 1_000  # whose changes are read at once
_MAX_ROWS = 100_000  # likewise, about


def register(app: typer.Typer) -> None:
    """Add the command."""
    add_lake_command(app, "changes", changes)


def changes(
    access: LakeAccess,
    table: Annotated[str, typer.Argument(help="As `orders` or `shop.orders`.", autocompletion=complete_table)],
    start: Annotated[
        str | None, typer.Option(help="The first snapshot, by its id or a time; by default the oldest there is.")
    ] = None,
    end: Annotated[str | None, typer.Option(help="The last snapshot, likewise; by default the newest.")] = None,
    *,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="Go on with new changes until Ctrl-C; without --start, only with them."),
    ] = False,
    interval: Annotated[float, typer.Option(min=0.05, help="Seconds from one look to the next.")] = 1.0,
    row_format: Annotated[
        Literal["table", "json", "csv"], typer.Option("--format", help="How rows are written.")
    ] = "table",
) -> None:
    """Show what the rows of a table did: each with `_change_type`, `_commit_version`, `_commit_timestamp`, `_rowid`.

    A live tail waits for a catalog that is away. Ctrl-C ends it with code 130.

    Example: `ducklake-stream changes orders --follow`
    """
    if follow and end is not None:
        raise typer.BadParameter("--follow has no --end")
    writer = ChangeWriter("json" if access.output.as_json else row_format)
    with access.lake() as lake:
        feed = lake.feed(table)
        now = access.clock.now()
        first, last = parse_moment(start, now), parse_moment(end, now)
        head = feed.head() if last is None else feed.snapshot(last)
        before = _start(feed, first, head, follow=follow)
        for rows in read_range(feed, before, head):
            writer.write(rows)
        if follow:
            seen = head.snapshot_id if first is None else max(before, head.snapshot_id)
            _follow(feed, seen, writer, lambda: access.clock.sleep(interval))


def _start(feed: TableFeed, first: object, head: Snapshot, *, follow: bool) -> SnapshotId:
    from datetime import datetime  # noqa: PLC0415 # see the docstring of the package

    if isinstance(first, int | datetime):
        return feed.before(first)
    return head.snapshot_id if follow else feed.before_earliest()


def _follow(feed: TableFeed, seen: int, writer: ChangeWriter, wait: Callable[[], None]) -> None:
    """Write new changes as they come, for ever. A catalog that is away is waited for; the recorder says so."""
    from ducklake_core.errors import CatalogUnavailable  # noqa: PLC0415 # see the docstring of the package
    from ducklake_core.model import SnapshotId  # noqa: PLC0415 # likewise

    while True:
        try:
            head = feed.refresh()
            for rows in read_range(feed, SnapshotId(seen), head):
                writer.write(rows)
                seen = max(seen, rows.column("_commit_version")[-1].as_py())
            seen = max(seen, head.snapshot_id)
        except CatalogUnavailable:
            continue  # it has waited already
        sys.stdout.flush()
        wait()


def read_range(feed: TableFeed, start: SnapshotId, end: Snapshot) -> Iterator[pa.Table]:
    """Yield the changes of `(start, end]`, in the order of snapshots and rows; no piece is empty."""
    from ducklake_core.feed.task import FeedMode  # noqa: PLC0415 # see the docstring of the package

    while start < end.snapshot_id:
        last = _piece(feed, start, end)
        columns = feed.table_at(last).columns
        rows = feed.read(start, last, columns, mode=FeedMode.CHANGES)
        if rows.num_rows:
            order = [("_commit_version", "ascending"), ("_rowid", "ascending"), ("_change_type", "descending")]
            yield rows.sort_by(order)
        start = last.snapshot_id


def _piece(feed: TableFeed, start: SnapshotId, end: Snapshot) -> Snapshot:
    """Return up to which snapshot to read at once: one at least, then by about how many rows it has."""
    from ducklake_core.model import SnapshotId, SnapshotSpan  # noqa: PLC0415 # see the docstring of the package

    until = min(end.snapshot_id, start + _MAX_SNAPSHOTS)
    history = feed.history(SnapshotSpan(start, SnapshotId(until)))
    sizes, rows, last = feed.sizes(history), 0, None
    for snapshot in history.snapshots:
        size = sizes.get(snapshot.snapshot_id)
        rows += size.rows if size else 0
        if last is not None and rows > _MAX_ROWS:
            break
        last = snapshot.snapshot_id
    return end if last is None or last == end.snapshot_id else feed.snapshot(last)


class ChangeWriter:
    """Writes changes; where the table's columns have changed, it begins anew with the new ones."""

    def __init__(self, row_format: Literal["table", "json", "csv"]) -> None:
        self._format: Literal["table", "json", "csv"] = row_format
        self._writer: RowWriter | None = None
        self._schema: pa.Schema | None = None

    def write(self, rows: pa.Table) -> None:
        from ducklake_streaming.cli.row_writers import make_writer  # noqa: PLC0415 # see the docstring of the package

        if self._writer is None or rows.schema != self._schema:
            self._writer, self._schema = make_writer(self._format, rows.schema), rows.schema
        for batch in rows.combine_chunks().to_batches():
            self._writer.write(batch)
        sys.stdout.flush()
