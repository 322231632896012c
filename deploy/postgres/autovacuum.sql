-- Lets PostgreSQL clean up the catalog's busy tables soon. docs/postgres.md has measurements.
--
-- Run it in the catalog's database when the lake is there, and again when tables of the lake have come or changed:
-- each has tables of inlined rows of its own. With it, set autovacuum_naptime = 10s in the server's configuration.
--
-- A flush deletes all rows of a table of inlined rows. Default settings look once a minute, and vacuum a table when a
-- fifth of it is dead. A vacuum of a table without live rows gives its space back to the disk.

DO $$
DECLARE
    one text;
BEGIN
    FOR one IN SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
        WHERE schemaname = current_schema() AND (tablename ~ '^ducklake_inlined_(data_\d+_\d+|delete_\d+)$' OR tablename IN
            ('ducklake_table_stats', 'ducklake_table_column_stats', 'ducklake_streaming_epochs',
             'ducklake_streaming_consumers', 'ducklake_streaming_leases'))
    LOOP
        EXECUTE format('ALTER TABLE %s SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, '
            'autovacuum_vacuum_cost_delay = 0)', one);
    END LOOP;
END
$$;
