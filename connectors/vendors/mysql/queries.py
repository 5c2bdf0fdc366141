"""Everything that is asked of MySQL and MariaDB: constants without parameters.

Tables and columns are those of a real MariaDB 10.11 and of MariaDB's documentation. Those of MySQL
alone are as its Reference Manual 8.4 has them, and no MySQL was at hand: INNODB_TRX, processlist,
data_lock_waits, the statement summary tables, SHOW REPLICA STATUS.
"""

from __future__ import annotations

SETTINGS = """
SHOW GLOBAL VARIABLES WHERE Variable_name IN ('max_connections', 'read_only', 'performance_schema')
"""
COUNTERS = """
SHOW GLOBAL STATUS WHERE Variable_name IN ('Uptime', 'Threads_connected',
  'Connection_errors_max_connections')
"""
DEADLOCKS = """
SELECT count AS count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'
"""
_SESSIONS = """
SELECT p.id AS id, p.user AS user, p.command AS command, p.state AS state,
  LEFT(p.info, 4000) AS statement, p.time + 0e0 AS state_s,
  TIMESTAMPDIFF(MICROSECOND, t.trx_started, NOW(6)) / 1e6 AS open_s,
  TIMESTAMPDIFF(MICROSECOND, t.trx_wait_started, NOW(6)) / 1e6 AS waited_s
FROM {processes} p LEFT JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id
WHERE p.id <> CONNECTION_ID() ORDER BY t.trx_wait_started IS NULL, t.trx_started IS NULL,
  t.trx_started LIMIT 1000
"""
SESSIONS = _SESSIONS.format(processes="performance_schema.processlist")
SESSIONS_OF_MARIADB = _SESSIONS.format(processes="information_schema.processlist")
LOCKS = """
SELECT r.trx_mysql_thread_id AS waiting, b.trx_mysql_thread_id AS holder,
  CONCAT(l.object_schema, '.', l.object_name) AS object
FROM performance_schema.data_lock_waits w
JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_engine_transaction_id
JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_engine_transaction_id
LEFT JOIN performance_schema.data_locks l ON l.engine_lock_id = w.requesting_engine_lock_id
LIMIT 5000
"""
LOCKS_OF_MARIADB = """
SELECT r.trx_mysql_thread_id AS waiting, b.trx_mysql_thread_id AS holder, l.lock_table AS object
FROM information_schema.innodb_lock_waits w
JOIN information_schema.innodb_trx r ON r.trx_id = w.requesting_trx_id
JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id
LEFT JOIN information_schema.innodb_locks l ON l.lock_id = w.requested_lock_id
LIMIT 5000
"""
STATEMENTS = """
SELECT CONCAT(COALESCE(schema_name, ''), ' ', digest) AS id, LEFT(digest_text, 4000) AS text,
  count_star AS calls, sum_timer_wait / 1e9 AS total_ms
FROM performance_schema.events_statements_summary_by_digest
WHERE digest IS NOT NULL ORDER BY sum_timer_wait DESC LIMIT 500
"""
PROGRAMS = """
SELECT processlist_id AS id, attr_value AS program
FROM performance_schema.session_connect_attrs WHERE attr_name = 'program_name' LIMIT 5000
"""
"""What a client calls itself as it connects ("Performance Schema Connection Attribute Tables")."""
REPLICA = "SHOW REPLICA STATUS"
GRANTS = "SHOW GRANTS"
