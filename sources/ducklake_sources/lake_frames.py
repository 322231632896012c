"""DataFrames of a lake: a table by the fastest reader that can read it, and what is in the lake. Runs on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame, SparkSession

from ducklake_core import Lake
from ducklake_core.errors import UnreadableFile, UnsupportedType
from ducklake_core.metadata_tables import METADATA
from ducklake_core.setting_texts import storage_text
from ducklake_core.spec.names import fold, join_table_name
from ducklake_sources.native_scan import read_table


@dataclass(frozen=True, slots=True)
class LakeFrames:
    """One lake, as a Spark session reads it; the fields are those of `register_views`."""

    spark: SparkSession
    catalog: str
    metadata_schema: str | None = None
    storage: Mapping[str, object] | None = None

    def open(self) -> Lake:
        return Lake.open(self.catalog, metadata_schema=self.metadata_schema, storage=self.storage)

    def table(self, name: str, version: int | None = None) -> DataFrame:
        """Return a table: each file by Spark's own scan where that gives the same rows, else by our own reader."""
        return read_table(
            self.spark,
            self.catalog,
            name,
            versionAsOf=version,
            metadataSchema=self.metadata_schema,
            storage=self.storage,
        )

    def metadata(self, name: str) -> DataFrame:
        """Return what is in the lake whenever a query asks."""
        return self._load({"metadata": name})

    def _load(self, options: Mapping[str, str]) -> DataFrame:
        given = {"catalog": self.catalog, **options}
        if self.metadata_schema is not None:
            given["metadataSchema"] = self.metadata_schema
        storage = {name: value for name, value in (self.storage or {}).items() if value is not None}
        if storage:
            given["storage"] = storage_text(storage)
        return self.spark.read.format("ducklake").options(**given).load()


@dataclass(frozen=True, slots=True)
class RegisteredViews:
    """What `register_views` did: the names of temporary views, and what got none, each with the reason."""

    tables: dict[str, str] = field(default_factory=dict)  # by the table's name
    metadata: dict[str, str] = field(default_factory=dict)  # by the name of the metadata
    left_out: dict[str, str] = field(default_factory=dict)


def register_views(
    spark: SparkSession,
    catalog: str,
    prefix: str = "lake",
    *,
    metadataSchema: str | None = None,  # noqa: N803 # as the option of format("ducklake") is called
    storage: Mapping[str, object] | None = None,
) -> RegisteredViews:
    """Make a temporary view of each table and of each kind of metadata, for `spark.sql`.

    Table `orders` is `lake_orders`, table `orders` of schema `eu` is `lake_eu_orders`, the snapshots are
    `lake__snapshots`, with two underscores. Views of tables show the newest snapshot of now: call it again to see
    newer ones, and views of metadata are asked for by each query. The view that an earlier call has made of a table
    that is gone since goes, too. Views that the lake has in DuckDB's SQL are left out, as are a table whose view would
    have the name of another one, and one of which a file cannot be read.
    """
    frames = LakeFrames(spark, catalog, metadataSchema, storage)
    done = RegisteredViews(metadata={kind: f"{prefix}__{kind}" for kind in METADATA})
    with frames.open() as lake:
        tables = [(one.version.schema_name, one.version.name) for one in lake.tables()]
        for view in lake.definitions().view_names():
            done.left_out[view] = "a view in DuckDB's SQL, which Spark may understand otherwise"
    for schema, table in tables:
        name = join_table_name(schema, table)
        view = "_".join([prefix, *([] if fold(schema) == "main" else [schema]), table])
        if view.lower() in {taken.lower() for taken in (*done.metadata.values(), *done.tables.values())}:
            done.left_out[name] = f"another table, or metadata, has the view '{view}'"
            continue
        try:
            frames.table(name).createOrReplaceTempView(_quoted(view))
        except (UnsupportedType, UnreadableFile) as error:
            done.left_out[name] = error.message
            continue
        done.tables[name] = view
    for kind, view in done.metadata.items():
        frames.metadata(kind).createOrReplaceTempView(_quoted(view))
    _drop_older(spark, (catalog, metadataSchema, prefix), frozenset(done.tables.values()))
    return done


_MADE: WeakKeyDictionary[SparkSession, dict[tuple[str | None, ...], frozenset[str]]] = WeakKeyDictionary()


def _drop_older(spark: SparkSession, call: tuple[str | None, ...], views: frozenset[str]) -> None:
    """Drop the views of the last such call of a session that this one has not made again."""
    made = _MADE.setdefault(spark, {})
    for view in made.get(call, frozenset()) - views:
        spark.catalog.dropTempView(view)
    made[call] = views


def _quoted(view: str) -> str:
    return "`{}`".format(view.replace("`", "``"))
