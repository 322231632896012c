-- Roles for a lake's catalog, each with the rights that its task needs. docs/postgres.md explains them.
--
-- Run it in the catalog's database when the lake is there, as a superuser or as one who may create roles and owns the
-- tables:  psql "$LAKE" -v ON_ERROR_STOP=1 -f deploy/postgres/roles.sql
-- Run it again whenever you like: after an upgrade of this project or of the format, or for a lake that was restored.
-- It is for the first schema of the search path, as we are: with a metadata_schema, set PGOPTIONS='-c search_path=NAME'.
--
--   lake_reader      reads tables and change feeds
--   lake_consumer    also notes how far a change feed was read (consumerId)
--   lake_sink        also writes: a sink, a job, a flush. Creates tables of inlined rows. Drops no table of a lake
--   lake_maintainer  also merges, rewrites, expires and cleans up
--   lake_owner       owns the catalog: changes and drops tables of the lake, repairs it, migrates its format
--
-- None of them can log in. Give people and jobs users of their own, which act as one of these (see users.sql).

BEGIN;
SET LOCAL client_min_messages = warning; -- what is there already is no news

-- Beside the tables of the format there are some of ours. The owner has them, so that they are made now.
CREATE TABLE IF NOT EXISTS ducklake_streaming_epochs (
    stream varchar PRIMARY KEY, query_id varchar NOT NULL, run_id varchar NOT NULL, batch_id bigint NOT NULL,
    snapshot_id bigint, row_count bigint NOT NULL, committed_at timestamp with time zone NOT NULL
);
CREATE TABLE IF NOT EXISTS ducklake_streaming_consumers (
    consumer varchar PRIMARY KEY, table_uuid uuid NOT NULL, snapshot_id bigint NOT NULL,
    updated_at timestamp with time zone NOT NULL, expires_at timestamp with time zone
);
CREATE TABLE IF NOT EXISTS ducklake_streaming_leases (
    name varchar PRIMARY KEY, holder varchar NOT NULL, purpose varchar NOT NULL,
    expires_at timestamp with time zone NOT NULL
);
CREATE TABLE IF NOT EXISTS ducklake_streaming_maintenance (
    run_id varchar NOT NULL, operation varchar NOT NULL, table_name varchar,
    started_at timestamp with time zone NOT NULL, seconds double precision NOT NULL, outcome varchar NOT NULL,
    files_before bigint NOT NULL, files_after bigint NOT NULL, bytes_before bigint NOT NULL,
    bytes_after bigint NOT NULL, row_count bigint NOT NULL, snapshots bigint NOT NULL, detail varchar
);

DO $$
DECLARE
    place text := quote_ident(current_schema());
    one text;
    holder text;
BEGIN
    FOREACH one IN ARRAY ARRAY['lake_reader', 'lake_consumer', 'lake_sink', 'lake_maintainer', 'lake_owner'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = one) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN', one);
        END IF;
    END LOOP;

    -- Each has what those before it have.
    GRANT lake_reader TO lake_consumer;
    GRANT lake_consumer TO lake_sink;
    GRANT lake_sink TO lake_maintainer;
    GRANT lake_maintainer TO lake_owner;
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        EXECUTE format('GRANT lake_owner TO %I', current_user); -- who gives tables away must be one of those who get them
    END IF;

    EXECUTE format('REVOKE CREATE ON SCHEMA %s FROM PUBLIC', place); -- which PostgreSQL 14 grants
    EXECUTE format('GRANT USAGE ON SCHEMA %s TO lake_reader', place);
    EXECUTE format('GRANT CREATE ON SCHEMA %s TO lake_sink', place); -- for tables of inlined rows

    -- Tables of inlined rows are made and dropped by sinks, as the lake's tables come and change.
    FOR one, holder IN
        SELECT format('%s.%I', place, tablename),
            CASE WHEN tablename ~ '^ducklake_inlined_(data_\d+_\d+|delete_\d+)$' THEN 'lake_sink' ELSE 'lake_owner' END
        FROM pg_tables WHERE schemaname = current_schema() AND tablename LIKE 'ducklake\_%'
    LOOP
        EXECUTE format('ALTER TABLE %s OWNER TO %I', one, holder);
        EXECUTE format('REVOKE ALL ON %s FROM PUBLIC, lake_reader, lake_consumer, lake_maintainer', one);
        IF holder = 'lake_owner' THEN
            EXECUTE format('REVOKE ALL ON %s FROM lake_sink', one);
        END IF;
        EXECUTE format('GRANT SELECT ON %s TO lake_reader', one);
        EXECUTE format('GRANT INSERT ON %s TO lake_sink', one);
        EXECUTE format('GRANT DELETE ON %s TO lake_maintainer', one);
    END LOOP;

    -- What a sink changes beside what it adds. Who may not update ducklake_table can drop no table of the lake.
    FOREACH one IN ARRAY ARRAY['metadata', 'table_stats', 'table_column_stats', 'column', 'data_file', 'delete_file',
        'streaming_epochs', 'streaming_consumers'] LOOP
        EXECUTE format('GRANT UPDATE ON %s.%I TO lake_sink', place, 'ducklake_' || one);
    END LOOP;
    FOREACH one IN ARRAY ARRAY['inlined_data_tables', 'delete_file'] LOOP
        EXECUTE format('GRANT DELETE ON %s.%I TO lake_sink', place, 'ducklake_' || one);
    END LOOP;
    EXECUTE format('GRANT INSERT, UPDATE ON %s.ducklake_streaming_consumers TO lake_consumer', place);

    -- Tables that are made from now on: all of them are of inlined rows.
    FOREACH one IN ARRAY ARRAY['lake_sink', 'lake_maintainer', 'lake_owner'] LOOP
        EXECUTE format('ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %s GRANT SELECT ON TABLES TO lake_reader', one, place);
        EXECUTE format(
            'ALTER DEFAULT PRIVILEGES FOR ROLE %I IN SCHEMA %s GRANT INSERT, UPDATE, DELETE ON TABLES TO lake_sink',
            one, place);
    END LOOP;
END
$$;

COMMIT;
