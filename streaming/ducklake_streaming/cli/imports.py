"""The commands `import`: Parquet files and tables of other formats become part of a lake. They need no Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from ducklake_streaming.cli.lake_command import LakeAccess, add_lake_command
from ducklake_streaming.overview.fields import Field
from ducklake_streaming.overview.values import shown_count

if TYPE_CHECKING:
    from ducklake_core import Lake
    from ducklake_core.table_import import ImportReport

FIELDS = (
    Field("table", "table"),
    Field("files", "files", shown_count, is_number=True),
    Field("rows", "rows", shown_count, is_number=True),
    Field("counted_files", "counted before", shown_count, is_number=True),
    Field("snapshot", "snapshot", is_number=True),
)
_PATH = "The folder, as DuckDB will find it too: a path of this machine, or a URL of the lake's storage."
_HELP = "Make existing Parquet files part of a lake, without copying them."
_Path = Annotated[str, typer.Argument(help=_PATH)]
_Table = Annotated[str, typer.Argument(help="The table, as `orders` or `schema.orders`.")]


def register(app: typer.Typer) -> None:
    """Add the group."""
    group = typer.Typer(help=_HELP, no_args_is_help=True)
    app.add_typer(group, name="import")
    add_lake_command(group, "parquet", import_folder)
    add_lake_command(group, "delta", import_delta_table)
    add_lake_command(group, "iceberg", import_iceberg_table)


def import_folder(
    access: LakeAccess,
    path: _Path,
    table: _Table,
    *,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Columns that a file lacks are null there.")
    ] = False,
    ignore_extra_columns: Annotated[
        bool, typer.Option("--ignore-extra-columns", help="Columns that the table lacks are left out.")
    ] = False,
) -> None:
    """Add all Parquet files of a folder to a table, in one snapshot; a table that is not there is created.

    The files stay where they are, and must stay there: from now on the lake reads them. Expiry, merges and clean-up of
    the lake leave files outside of its own folder alone.

    Example: `ducklake-stream import parquet /data/orders orders`
    """
    from ducklake_core.files.foreign_fields import AddRules  # noqa: PLC0415 # see the docstring of the package
    from ducklake_core.table_import import import_parquet  # noqa: PLC0415 # likewise

    rules = AddRules(allow_missing, ignore_extra_columns)
    _show(access, lambda lake: import_parquet(lake, path, table, rules))


def import_delta_table(access: LakeAccess, path: _Path, table: _Table) -> None:
    """Make a new table of the newest version of a Delta Lake table, in one snapshot.

    The files stay where they are: stop writing to the Delta table, and never VACUUM it again. Tables with deletion
    vectors or column mapping are refused.

    Example: `ducklake-stream import delta /data/orders_delta orders`
    """
    from ducklake_core.table_import import import_delta  # noqa: PLC0415 # see the docstring of the package

    _show(access, lambda lake: import_delta(lake, path, table))


def import_iceberg_table(access: LakeAccess, path: _Path, table: _Table) -> None:
    """Make a new table, without partitions, of the current snapshot of an Iceberg table, in one snapshot.

    PATH is the table's folder, or the metadata file that its catalog names. The files stay where they are: stop writing
    to the Iceberg table, and never expire its snapshots again. Tables with delete files or renamed columns are refused.

    Example: `ducklake-stream import iceberg /warehouse/db/orders orders`
    """
    from ducklake_core.table_import import import_iceberg  # noqa: PLC0415 # see the docstring of the package

    _show(access, lambda lake: import_iceberg(lake, path, table))


def _show(access: LakeAccess, act: Callable[[Lake], ImportReport]) -> None:
    with access.lake() as lake:
        report = act(lake)
    row = {
        "table": report.table,
        "files": report.files,
        "rows": report.rows,
        "counted_files": report.counted,
        "snapshot": None if report.snapshot is None else report.snapshot.snapshot_id,
    }
    access.output.show(FIELDS, [row])
