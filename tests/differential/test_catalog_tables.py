"""Our catalog tables are those of the extension: names, order, declared types, nullability, keys."""

from sqlalchemy import create_engine

from ducklake_core.catalog.dialects import dialect_named
from ducklake_core.spec.changes import COMPACTIONS, format_changes, parse_changes
from ducklake_core.spec.tables import catalog_tables
from tests.fixtures.catalogs import Catalog, MakeCatalog, PostgresCatalog, Rows
from tests.fixtures.oracle import Oracle

POSTGRES_COLUMNS = """
    SELECT table_name, ordinal_position, column_name, data_type, is_nullable, column_default,
           character_maximum_length, datetime_precision
    FROM information_schema.columns WHERE table_schema = 'public' ORDER BY table_name, ordinal_position"""
POSTGRES_KEYS = """
    SELECT c.relname, pg_get_constraintdef(k.oid) FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
    JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' ORDER BY 1"""
SQLITE_COLUMNS = """
    SELECT m.name, c.cid, c.name, c.type, c."notnull", c.dflt_value, c.pk
    FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY 1, 2"""
SQLITE_INDEXES = "SELECT tbl_name, name FROM sqlite_schema WHERE type = 'index' ORDER BY 1"


def layout(catalog: Catalog) -> tuple[Rows, Rows]:
    if isinstance(catalog, PostgresCatalog):
        return catalog.query(POSTGRES_COLUMNS), catalog.query(POSTGRES_KEYS)
    return catalog.query(SQLITE_COLUMNS), catalog.query(SQLITE_INDEXES)


def test_the_tables_we_create_are_those_of_the_extension(make_catalog: MakeCatalog, oracle: Oracle) -> None:
    theirs, ours = make_catalog(), make_catalog()
    oracle.attach(theirs.attach, data_path=theirs.data_path)
    oracle.detach()

    engine = create_engine(ours.url)
    catalog_tables(None, dialect_named(engine.dialect.name).values).metadata.create_all(engine)
    engine.dispose()

    assert layout(ours) == layout(theirs)
    assert len(ours.columns()) == 28


WRITES = [
    'CREATE SCHEMA "a ""b"',
    "CREATE SCHEMA s1",
    "CREATE TABLE s1.gone (i INTEGER)",
    "CREATE TABLE d1 (i INTEGER)",
    "CREATE TABLE d2 (i INTEGER)",
    "CREATE VIEW v AS SELECT 1 AS a",
    "CREATE MACRO old(a) AS a",
    "CREATE MACRO old_table(a) AS TABLE SELECT a",
    """BEGIN; CREATE TABLE zz (i INTEGER); CREATE VIEW mm AS SELECT 1 AS a;
    CREATE TABLE "a ""b"."we,ird""x" (i INTEGER); CREATE TABLE aa (i INTEGER);
    CREATE MACRO m2(a) AS a; CREATE MACRO m1(a) AS TABLE SELECT a;
    DROP MACRO old; DROP MACRO TABLE old_table; DROP SCHEMA s1 CASCADE; COMMENT ON VIEW v IS 'x';
    INSERT INTO d2 VALUES (1); INSERT INTO d1 VALUES (2); INSERT INTO zz SELECT * FROM range(100); COMMIT""",
    "BEGIN; INSERT INTO d1 SELECT * FROM range(100); UPDATE d2 SET i = 7; ALTER TABLE d1 ADD COLUMN y INTEGER; COMMIT",
    "DELETE FROM d1 WHERE i > 20",
    "ALTER TABLE d2 RENAME TO d3",
    "CALL ducklake_flush_inlined_data('lake')",
    "CALL ducklake_rewrite_data_files('lake', delete_threshold => 0)",
]


def test_every_changes_text_of_the_extension_survives_our_round_trip(make_catalog: MakeCatalog, oracle: Oracle) -> None:
    place = make_catalog()
    oracle.attach(place.attach, data_path=place.data_path)
    for statement in WRITES:
        oracle.execute(statement)
    oracle.detach()

    texts = [text for (text,) in place.query("SELECT changes_made FROM ducklake_snapshot_changes")]

    assert len(texts) > len(WRITES)
    # We say more of a compaction than the extension does: see ADR 15.
    compactions = [text for text in texts if COMPACTIONS & {change.kind for change in parse_changes(text)}]
    assert [format_changes(parse_changes(text)) for text in texts if text not in compactions] == [
        text for text in texts if text not in compactions
    ]
    assert compactions
    assert [parse_changes(format_changes(parse_changes(text))) for text in compactions] == [
        *map(parse_changes, compactions)
    ]
