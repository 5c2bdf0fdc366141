"""What PostgreSQL's answers say is wrong, at each threshold."""

from __future__ import annotations

import pytest

from faultline.connectors.shared.databases.lock_chains import DatabaseSession
from faultline.connectors.vendors.postgresql import facts as postgresql
from tests.connectors.fact_rows import FactRow, fact_rows


def server_row(**values: object) -> postgresql.ServerRow:
    usual = {
        "version": "16.4", "max_connections": 100, "connections": 12, "in_recovery": False,
        "up_s": 9e6, "loaded_s": 9e6, "pending": None, "read_only": "off", "deadlocks": 0.0,
    }  # fmt: skip
    return postgresql.ServerRow(**{**usual, **values})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("values", "facts"),
    [
        ({}, []),
        ({"connections": None}, []),
        (
            {"connections": 95},
            [("pool_exhausted", "95 of 100 (95 % of max_connections)", None, "max_connections")],
        ),
        (
            {"up_s": 30.0},
            [
                (
                    "database_restarted",
                    "its server started 30 s ago",
                    30.0,
                    "pg_postmaster_start_time",
                )
            ],
        ),
        (
            {"pending": "shared_buffers"},
            [
                (
                    "database_parameters_pending",
                    "waiting for a restart: shared_buffers",
                    None,
                    "pending_restart",
                )
            ],
        ),
        (
            {"read_only": "on"},
            [
                (
                    "writes_refused",
                    "default_transaction_read_only is on",
                    None,
                    "default_transaction_read_only",
                )
            ],
        ),
        ({"read_only": "on", "in_recovery": True}, []),
    ],
)
def test_what_a_postgresql_server_says_of_itself(
    values: dict[str, object], facts: list[FactRow]
) -> None:
    assert fact_rows(postgresql.server_facts(server_row(**values), 3600)) == facts


def session_row(**values: object) -> postgresql.SessionRow:
    usual = {
        "pid": 7, "database": "shop", "user": "web", "application": "checkout",
        "backend_type": "client backend", "state": "active", "query": "SELECT 1",
        "open_s": 4.0, "state_s": 3.0, "blockers": None, "waited_s": None, "lock": None,
    }  # fmt: skip
    return postgresql.SessionRow(**{**usual, **values})  # type: ignore[arg-type]


def test_sessions_of_postgresql() -> None:
    rows = [
        session_row(),
        session_row(pid=8, state="idle"),
        session_row(pid=9, backend_type="autovacuum worker", application=None, user=None),
        session_row(
            pid=10,
            backend_type="autovacuum worker",
            application=None,
            user=None,
            blockers=[7, 7, 0],
            waited_s=6.0,
            lock="stock",
        ),
        session_row(pid=11, backend_type=None, query=postgresql.HIDDEN, state=None),
    ]
    assert postgresql.sessions_of(rows) == [
        DatabaseSession("7", "checkout, user web", "active", "SELECT ?", 4.0),
        DatabaseSession(
            "10",
            "autovacuum worker",
            "active",
            "SELECT ?",
            4.0,
            ("7", "a prepared transaction"),
            6.0,
            "stock",
        ),
        DatabaseSession("11", "checkout, user web", "", "", 4.0),
    ]
    assert postgresql.connection_details([*rows, session_row(application=None, state=None)]) == {
        "connections": "1 of checkout, active\n1 of checkout, idle\n1 of checkout, unknown\n"
        "1 of no name, unknown"
    }
    assert postgresql.connection_details(rows[2:3]) == {}


def test_replicas_and_slots_of_postgresql() -> None:
    rows = [
        postgresql.ReplicaRow(None, "10.0.0.7", "streaming", 30.0, None),
        postgresql.ReplicaRow(None, None, "streaming", 31.0, 5e6),
        postgresql.ReplicaRow("fresh", None, "streaming", 29.9, 5e6),
        postgresql.ReplicaRow("unknown", None, "streaming", None, None),
    ]
    assert fact_rows(postgresql.replica_facts(rows)) == [
        ("database_lagging", "10.0.0.7 is 30 s behind", 30.0, "replay_lag"),
        ("database_lagging", "a replica is 31 s behind (5 MB)", 31.0, "replay_lag"),
    ]
    slots = [
        postgresql.SlotRow("gone", True, "lost", 0.0),
        postgresql.SlotRow("full", False, "extended", 2.0**30),
        postgresql.SlotRow("small", False, "reserved", 2.0**30 - 1),
        postgresql.SlotRow("read", True, "extended", 2.0**33),
        postgresql.SlotRow("new", False, None, None),
    ]
    assert fact_rows(postgresql.slot_facts(slots)) == [
        ("database_lagging", "the log that slot gone needs is gone", None, "wal_status"),
        ("replication_log_kept", "slot full is not read and keeps 1.1 GB", None, "restart_lsn"),
    ]


@pytest.mark.parametrize(
    ("row", "facts"),
    [
        (
            postgresql.StandbyRow(1, 2.0, False, True),
            [
                (
                    "database_failed_over",
                    "r takes writes itself: it is no replica any more",
                    None,
                    "pg_is_in_recovery",
                )
            ],
        ),
        (
            postgresql.StandbyRow(0, 2.0, True, True),
            [("database_lagging", "replay is paused on r", 2.0, "paused")],
        ),
        (
            postgresql.StandbyRow(0, 30.0, True, False),
            [
                (
                    "database_lagging",
                    "r receives nothing from its primary",
                    30.0,
                    "pg_stat_wal_receiver",
                )
            ],
        ),
        (
            postgresql.StandbyRow(1, 30.0, True, False),
            [("database_lagging", "r is 30 s behind", 30.0, "replay_lag")],
        ),
        (postgresql.StandbyRow(0, 29.0, True, False), []),
        (postgresql.StandbyRow(1, None, True, False), []),
    ],
)
def test_what_a_replica_says_of_itself(row: postgresql.StandbyRow, facts: list[FactRow]) -> None:
    assert fact_rows(postgresql.standby_facts(row, "r")) == facts


def test_tables_and_databases_of_postgresql() -> None:
    tables = [
        postgresql.TableRow("half", 100_000, 100_000, 5e6, 7200.0),
        postgresql.TableRow("few", 10, 99_999, 6e6, None),
        postgresql.TableRow("alive", 300_001, 299_999, 7e6, None),
        postgresql.TableRow("worse", 0, 300_000, 1e6, None),
    ]
    assert fact_rows(postgresql.table_facts(tables)) == [
        ("rows_not_vacuumed", "300,000 of worse (100 %), never vacuumed", None, "n_dead_tup"),
        ("rows_not_vacuumed", "100,000 of half (50 %), vacuumed 2 h ago", None, "n_dead_tup"),
    ]
    assert len(postgresql.table_facts(tables[3:] * 9)) == 5
    assert postgresql.table_details(tables) == {
        "largest tables": "alive: 7 MB\nfew: 6 MB\nhalf: 5 MB\nworse: 1 MB"
    }
    databases = [
        postgresql.DatabaseRow("postgres", 10.0, None),
        postgresql.DatabaseRow("shop", 1e9, 3e9),
    ]
    assert fact_rows(postgresql.age_facts(databases)) == [
        ("wraparound_near", "shop has used 47 % (1 billion)", None, "datfrozenxid")
    ]
    assert postgresql.age_facts(databases[:1]) == postgresql.age_facts([]) == []
    assert postgresql.size_details(databases) == {"sizes": "shop: 3 GB\npostgres: 0 bytes"}
    assert len(postgresql.size_details(databases * 6)["sizes"].split("\n")) == 10
    assert len(postgresql.table_details(tables * 3)["largest tables"].split("\n")) == 10
