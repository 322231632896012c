"""Creates lakes and opens them: what is at an address, and whether it can be used."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from uuid import UUID, uuid4

from sqlalchemy import insert, select
from sqlalchemy.schema import CreateSchema, CreateTable

from ducklake_core.catalog import queries
from ducklake_core.catalog.database import Database
from ducklake_core.catalog.driver_errors import driver_error
from ducklake_core.catalog.session import Session, Statement
from ducklake_core.catalog.stored_tables import table_exists
from ducklake_core.errors import (
    CatalogError,
    CorruptCatalog,
    DataPathMismatch,
    InvalidInput,
    LakeExists,
    NoLakeFound,
)
from ducklake_core.spec.paths import hide_password, same_storage
from ducklake_core.spec.rows import MetadataRow
from ducklake_core.spec.versions import CURRENT, Feature, FormatVersion
from ducklake_core.version import package_version


def create_lake(database: Database, data_path: str, now: datetime) -> str:
    """Create the catalog's tables and the first snapshot; return the data path as stored."""
    stored = normalize_data_path(data_path)
    if database.dialect.is_file:
        Path(database.url.url.database or "").parent.mkdir(parents=True, exist_ok=True)
    main_uuid = uuid4()

    def create(session: Session) -> None:
        if not table_exists(session, "ducklake_metadata"):
            session.write_and_commit(bootstrap_statements(database, stored, main_uuid, now))
        elif not _has_schema(session, main_uuid):  # else an attempt of ours, whose COMMIT got no answer, has landed
            raise LakeExists(f"there is a lake at '{database.url.shown}' already: open it instead")

    try:
        database.write_alone("create a lake in", create, checks_version=False)
    except CorruptCatalog as error:
        raise _not_a_catalog(database, error) from error
    return stored


def _has_schema(session: Session, uuid: UUID) -> bool:
    schemas = session.tables.ducklake_schema
    return bool(session.query(select(schemas.c.schema_id).where(schemas.c.schema_uuid == uuid)))


def open_lake(database: Database, data_path: str | None, *, override: bool) -> str:
    """Check that there is a lake that can be read and written; return its data path."""
    file = database.url.url.database or ""
    if database.dialect.is_file and not Path(file).exists():
        raise NoLakeFound(f"there is no lake at '{database.url.shown}': no such file; create it with Lake.create")
    metadata = _read_metadata(database)
    format_version = FormatVersion.parse(metadata.get("version"))
    format_version.require(Feature.READ)
    format_version.require(Feature.WRITE)
    database.use(format_version)
    stored = metadata.get("data_path")
    if stored is None:
        raise CatalogError(f"the lake at '{database.url.shown}' does not say where its files are (no 'data_path')")
    return _settle_data_path(database, stored, data_path, override=override)


def normalize_data_path(data_path: str) -> str:
    """Return the path as the catalog keeps it: local paths absolute, one slash at the end."""
    if not data_path:
        raise InvalidInput("a lake needs a data path: the directory or URL for its files")
    if "://" not in data_path:
        data_path = str(Path(data_path).absolute())
    return data_path.rstrip("/") + "/"


def is_absolute(data_path: str) -> bool:
    """Tell whether a data path is the same in every working directory."""
    return "://" in data_path or Path(data_path).is_absolute()


def _settle_data_path(database: Database, stored: str, wanted: str | None, *, override: bool) -> str:
    if wanted is None:
        return normalize_data_path(stored)
    is_same = same_storage(normalize_data_path(wanted)) == same_storage(normalize_data_path(stored))
    if not is_same and not override:
        raise DataPathMismatch(
            f"the lake at '{database.url.shown}' keeps its files in '{hide_password(stored)}', not in "
            f"'{hide_password(wanted)}': leave data_path out, or set override_data_path as well if they are there",
            stored=stored,
            wanted=wanted,
        )
    return normalize_data_path(wanted)


def _read_metadata(database: Database) -> dict[str, str]:
    def read(session: Session) -> list[MetadataRow]:
        if not table_exists(session, "ducklake_metadata"):
            raise NoLakeFound(
                f"there is no lake at '{database.url.shown}': no table 'ducklake_metadata' there; create "
                "it with Lake.create, or name the schema that holds it with metadata_schema"
            )
        return queries.metadata(session.tables).ask(session)

    try:
        rows = database.ask(read, checks_version=False)
    except CorruptCatalog as error:
        raise _not_a_catalog(database, error) from error
    return {row.key: row.value for row in rows if not row.scope}


def bootstrap_statements(database: Database, data_path: str, main_uuid: UUID, now: datetime) -> list[Statement]:
    t = database.tables
    schema = database.url.metadata_schema
    creates = [Statement(CreateSchema(schema, if_not_exists=True))] if schema else []
    creates += [Statement(CreateTable(table)) for table in t.metadata.tables.values()]
    inserts = {
        t.ducklake_metadata: _metadata_rows(data_path),
        t.ducklake_snapshot: [_first_snapshot_row(now)],
        t.ducklake_snapshot_changes: [_first_changes_row()],
        t.ducklake_schema: [_main_schema_row(main_uuid)],
    }
    return [*creates, *(Statement(insert(table), rows) for table, rows in inserts.items())]


def _metadata_rows(data_path: str) -> list[dict[str, object]]:
    facts = {
        "version": CURRENT.text,
        "created_by": f"ducklake-streaming {package_version()}",
        "data_path": data_path,
        "encrypted": "false",
    }
    return [{"key": key, "value": value, "scope": None, "scope_id": None} for key, value in facts.items()]


def _first_snapshot_row(now: datetime) -> dict[str, object]:
    return {"snapshot_id": 0, "snapshot_time": now, "schema_version": 0, "next_catalog_id": 1, "next_file_id": 0}


def _first_changes_row() -> dict[str, object]:
    nobody = {"author": None, "commit_message": None, "commit_extra_info": None}
    return {"snapshot_id": 0, "changes_made": 'created_schema:"main"', **nobody}


def _main_schema_row(uuid: UUID) -> dict[str, object]:
    place = {"schema_name": "main", "path": "main/", "path_is_relative": True}
    return {"schema_id": 0, "schema_uuid": uuid, "begin_snapshot": 0, "end_snapshot": None, **place}


def _not_a_catalog(database: Database, error: Exception) -> CorruptCatalog:
    return CorruptCatalog(f"'{database.url.shown}' cannot be used as a catalog: {driver_error(error)}")
