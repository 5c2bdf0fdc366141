"""Everything that is asked of PostgreSQL: constants without parameters.

Views and columns: PostgreSQL 14 to 18, "The Cumulative Statistics System", "System Views" and
pg_stat_statements.
"""

from __future__ import annotations

SERVER = """
SELECT current_setting('server_version') AS version,
  current_setting('max_connections')::int AS max_connections,
  (SELECT sum(numbackends)::int FROM pg_stat_database) AS connections,
  pg_is_in_recovery() AS in_recovery,
  extract(epoch FROM clock_timestamp() - pg_postmaster_start_time())::float8 AS up_s,
  extract(epoch FROM clock_timestamp() - pg_conf_load_time())::float8 AS loaded_s,
  (SELECT string_agg(name, ', ' ORDER BY name) FROM pg_settings WHERE pending_restart) AS pending,
  current_setting('default_transaction_read_only') AS read_only,
  (SELECT sum(deadlocks)::float8 FROM pg_stat_database) AS deadlocks
"""
# pg_blocking_pids takes the lock manager for itself: call it for waiting sessions only.
SESSIONS = """
SELECT a.pid, a.datname AS database, a.usename AS user, a.application_name AS application,
  a.backend_type, a.state, left(a.query, 4000) AS query,
  extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS open_s,
  extract(epoch FROM clock_timestamp() - a.state_change)::float8 AS state_s,
  CASE WHEN a.wait_event_type = 'Lock' THEN pg_blocking_pids(a.pid) END AS blockers,
  extract(epoch FROM clock_timestamp() - w.waits_since)::float8 AS waited_s, w.lock
FROM pg_stat_activity a
LEFT JOIN LATERAL (
  SELECT min(l.waitstart) AS waits_since, min(l.relation::regclass::text) FILTER
    (WHERE l.database = (SELECT oid FROM pg_database WHERE datname = current_database())) AS lock
  FROM pg_locks l
  WHERE a.wait_event_type = 'Lock' AND l.pid = a.pid AND (NOT l.granted OR l.locktype = 'tuple')
) w ON true
WHERE a.pid <> pg_backend_pid()
ORDER BY w.waits_since, a.xact_start LIMIT 1000
"""
REPLICAS = """
SELECT r.application_name AS name, host(r.client_addr) AS host, r.state,
  extract(epoch FROM r.replay_lag)::float8 AS lag_s,
  CASE WHEN NOT pg_is_in_recovery()
    THEN pg_wal_lsn_diff(pg_current_wal_lsn(), r.replay_lsn)::float8 END AS lag_bytes
FROM pg_stat_replication r WHERE r.backend_start IS NOT NULL LIMIT 100
"""
SLOTS = """
SELECT s.slot_name AS name, s.active, s.wal_status,
  CASE WHEN NOT pg_is_in_recovery()
    THEN pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn)::float8 END AS kept_bytes
FROM pg_replication_slots s WHERE NOT s.temporary LIMIT 100
"""
# A replica that has replayed all it received is not behind, however long its primary is idle.
STANDBY = """
SELECT (SELECT count(*)::int FROM pg_stat_wal_receiver) AS receivers,
  CASE WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0 ELSE
    extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8 END AS lag_s,
  pg_is_in_recovery() AS in_recovery,
  pg_is_in_recovery() AND pg_get_wal_replay_pause_state() <> 'not paused' AS paused
"""
# pg_database_size fails without the right to connect to the database.
DATABASES = """
SELECT d.datname AS name, age(d.datfrozenxid)::float8 AS age,
  CASE WHEN has_database_privilege(d.oid, 'CONNECT') THEN pg_database_size(d.oid)::float8 END
    AS bytes
FROM pg_database d ORDER BY age(d.datfrozenxid) DESC LIMIT 50
"""
TABLES = """
SELECT s.schemaname || '.' || s.relname AS name, s.n_live_tup::float8 AS live,
  s.n_dead_tup::float8 AS dead, c.relpages::float8 * current_setting('block_size')::int AS bytes,
  extract(epoch FROM clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum))::float8
    AS vacuumed_s
FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = s.relid
ORDER BY greatest(s.n_dead_tup, c.relpages) DESC LIMIT 200
"""
STATEMENTS_SCHEMA = """
SELECT n.nspname AS schema FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'pg_stat_statements'
"""
STATEMENTS = """
SELECT s.queryid::text AS id, min(left(s.query, 4000)) AS query, sum(s.calls)::float8 AS calls,
  sum(s.total_exec_time)::float8 AS total_ms
FROM {schema}.pg_stat_statements s WHERE s.queryid IS NOT NULL
GROUP BY s.queryid ORDER BY total_ms DESC LIMIT 500
"""
"""`{schema}` is the extension's, quoted as an identifier."""
MAY_WRITE = """
SELECT r.rolsuper AS superuser,
  r.rolcreaterole OR r.rolcreatedb OR r.rolreplication AS administers,
  coalesce((SELECT bool_or(pg_has_role(current_user, o.oid, 'USAGE')) FROM pg_roles o
    WHERE o.rolname IN ('pg_write_all_data', 'pg_signal_backend', 'pg_write_server_files',
      'pg_execute_server_program')), false) AS writes_by_role,
  has_database_privilege(current_database(), 'CREATE') AS creates,
  (SELECT count(*)::int FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p', 'v', 'f') AND n.nspname NOT LIKE 'pg\\_%'
      AND n.nspname <> 'information_schema'
      AND has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')) AS tables,
  pg_has_role(current_user, 'pg_read_all_stats', 'USAGE') AS reads_statistics
FROM pg_roles r WHERE r.rolname = current_user
"""
