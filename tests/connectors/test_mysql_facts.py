"""What MySQL's and MariaDB's answers say is wrong, at each threshold."""

from __future__ import annotations

import pytest

from faultline.connectors.shared.databases.lock_chains import DatabaseSession
from faultline.connectors.vendors.mysql import facts as mysql
from tests.connectors.fact_rows import FactRow, fact_rows


@pytest.mark.parametrize(
    ("settings", "counters", "replicates", "facts"),
    [
        ({}, {}, False, []),
        ({"max_connections": "151"}, {"threads_connected": "12", "uptime": "90000"}, False, []),
        (
            {"max_connections": "151"},
            {"threads_connected": "150"},
            False,
            [
                (
                    "pool_exhausted",
                    "150 of 151 (99.34 % of max_connections)",
                    None,
                    "max_connections",
                )
            ],
        ),
        (
            {},
            {"uptime": "40"},
            False,
            [("database_restarted", "its server started 40 s ago", 40.0, "Uptime")],
        ),
        (
            {"read_only": "ON"},
            {},
            False,
            [("writes_refused", "read_only is on", None, "read_only")],
        ),
        ({"read_only": "1"}, {}, False, [("writes_refused", "read_only is on", None, "read_only")]),
        ({"read_only": "ON"}, {}, True, []),
        ({"read_only": "OFF", "max_connections": "many"}, {"threads_connected": "9"}, False, []),
    ],
)
def test_what_a_mysql_server_says_of_itself(
    settings: dict[str, str], counters: dict[str, str], replicates: bool, facts: list[FactRow]
) -> None:
    assert fact_rows(mysql.server_facts(settings, counters, 3600, replicates)) == facts


def mysql_row(**values: object) -> mysql.SessionRow:
    usual = {
        "id": 7, "user": "web", "command": "Query", "state": "executing", "statement": "SELECT 1",
        "state_s": 3.0, "open_s": 4.0, "waited_s": None,
    }  # fmt: skip
    return mysql.SessionRow(**{**usual, **values})  # type: ignore[arg-type]


def test_sessions_of_mysql() -> None:
    rows = [
        mysql_row(),
        mysql_row(id=8, command="Sleep", open_s=None),
        mysql_row(id=9, command="Binlog Dump"),
        mysql_row(id=10, user="event_scheduler"),
        mysql_row(id=11, user=None, state=None, statement=None, waited_s=6.0),
        mysql_row(id=12, state=mysql.METADATA_LOCK, state_s=9.0),
    ]
    locks = [mysql.LockRow(11, 7, "`shop`.`stock`"), mysql.LockRow(11, 7, "`shop`.`stock`")]
    assert mysql.sessions_of(rows, locks) == [
        DatabaseSession("7", "user web", "executing", "SELECT ?", 4.0),
        DatabaseSession("11", "", "Query", "", 4.0, ("7",), 6.0, "shop.stock"),
        DatabaseSession(
            "12",
            "user web",
            mysql.METADATA_LOCK,
            "SELECT ?",
            4.0,
            (mysql.UNNAMED,),
            9.0,
            "metadata of a table",
        ),
    ]
    programs = [mysql.ProgramRow(7, "checkout"), mysql.ProgramRow(8, None)]
    assert mysql.clients_of(rows, programs) == [
        ("checkout", "web"), ("", "web"), ("", ""), ("", "web"),
    ]  # fmt: skip
    assert mysql.connection_details(rows) == {
        "connections": "4 of web\n1 of event_scheduler\n1 of "
    }


@pytest.mark.parametrize(
    ("row", "facts"),
    [
        ({"replica_io_running": "Yes", "replica_sql_running": "Preparing"}, []),
        (
            {"slave_io_running": "No", "last_io_errno": 2003},
            [
                (
                    "database_lagging",
                    "receives nothing from its source: error 2003",
                    None,
                    "io_running",
                )
            ],
        ),
        (
            {"replica_sql_running": "No", "last_sql_errno": 0},
            [("database_lagging", "applies nothing", None, "sql_running")],
        ),
        (
            {"seconds_behind_master": 30},
            [("database_lagging", "30 s behind its source", 30.0, "seconds_behind_source")],
        ),
        ({"seconds_behind_source": 29}, []),
        ({"seconds_behind_source": None}, []),
        ({"seconds_behind_source": 3629, "sql_delay": 3600}, []),
        (
            {"seconds_behind_source": 3630, "sql_delay": 3600},
            [("database_lagging", "60 min behind its source", 3630.0, "seconds_behind_source")],
        ),
    ],
)
def test_what_a_mysql_replica_says_of_itself(row: dict[str, object], facts: list[FactRow]) -> None:
    assert fact_rows(mysql.replica_facts(row)) == facts


def test_connections_that_mysql_refused_while_we_watched() -> None:
    name = "connection_errors_max_connections"
    assert fact_rows(mysql.rejected_facts({name: "3"}, {name: "5"})) == [
        ("pool_exhausted", "2 connections refused just now", None, name)
    ]
    assert mysql.rejected_facts({name: "5"}, {name: "5"}) == mysql.rejected_facts({}, {}) == []


@pytest.mark.parametrize(
    ("grant", "rights"),
    [
        ("GRANT USAGE, PROCESS, REPLICATION CLIENT ON *.* TO `bot`@`%`", []),
        ("GRANT SELECT (email), select ON `shop`.* TO `bot`@`%`", []),
        ("GRANT SELECT, INSERT, Update ON `shop`.* TO `bot`@`%`", ["INSERT", "UPDATE"]),
        ("GRANT SELECT ON *.* TO `bot`@`%` WITH GRANT OPTION", ["GRANT OPTION"]),
        ("GRANT `role`@`%` TO `bot`@`%`", []),
    ],
)
def test_what_a_grant_of_mysql_allows_besides_reading(grant: str, rights: list[str]) -> None:
    assert mysql.writing([grant, grant]) == rights
