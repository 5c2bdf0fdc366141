"""MySQL's connector before real MariaDB servers: who blocks whom, what became slow, what fills up,
and that nothing can be written."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pymysql
import pytest

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.contract.base import Connector, collect_from
from faultline.connectors.shared.settings.connector_settings import DatabaseAddress
from faultline.connectors.vendors.mysql import facts, queries
from faultline.connectors.vendors.mysql.connector import LIMITS, MysqlSession
from faultline.loopback.bot_process import free_port
from tests.connectors.debian_mariadb import start_mariadb
from tests.connectors.live_requests import (
    configured,
    diagnosed_now,
    facts_of,
    live_request,
    snapshot,
)
from tests.connectors.real_servers import programs

MOST = 30
CARD = "4111111111111111"
USERS = """
CREATE DATABASE shop;
CREATE TABLE shop.orders (id INT PRIMARY KEY, note TEXT);
INSERT INTO shop.orders VALUES (1, 'first'), (2, 'second');
CREATE USER shop@'%';
GRANT ALL ON shop.* TO shop@'%';
CREATE USER faultline@'%' IDENTIFIED BY 'pw-1';
GRANT PROCESS, REPLICA MONITOR ON *.* TO faultline@'%';
GRANT SELECT ON performance_schema.* TO faultline@'%';
CREATE USER reports_rw@'%';
CREATE USER blind@'%';
"""
FOLLOW = """
CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'nobody';
START SLAVE;
"""
WAIT_S = 60.0


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server that counts statements, with a user that may only read statistics."""
    with programs(tmp_path_factory.mktemp("mysql")) as running:
        options = ("--performance-schema=ON", f"--max-connections={MOST}")
        yield start_mariadb(running, "orders", USERS, *options, has_users=True)


def connector(port: int, **own: Any) -> Connector:
    """As settings build it, for the user that may only read statistics."""
    login = {"username": "faultline", "password": "pw-1"}
    values = {"host": "127.0.0.1", "port": port, "tls": "off", "service": "orders-db", **login}
    catalogue = {"checkout": {"aliases": ["checkout-api"]}, "reports": {}}
    return configured("mysql", {"sample_s": 0, **values, **own}, services=catalogue)


@contextmanager
def shop(port: int) -> Iterator[Any]:
    """A cursor of the shop's user."""
    with (
        pymysql.connect(host="127.0.0.1", port=port, user="shop", database="shop") as connection,
        connection.cursor() as cursor,
    ):
        yield cursor


def until(holds: Callable[[], bool]) -> None:
    """Wait for it."""
    ends = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


@contextmanager
def blocked(port: int, holds: str, waits: str, waiting: int) -> Iterator[None]:
    """A transaction that is left open, and statements that wait for it for two seconds at least."""
    with ExitStack() as stack:
        holder = stack.enter_context(shop(port))
        holder.execute("BEGIN")
        holder.execute(holds)
        threads = [threading.Thread(target=_wait, args=(port, waits)) for _ in range(waiting)]
        for one in threads:
            one.start()
        watching = stack.enter_context(shop(port))
        until(lambda: _long_waiting(watching) == waiting)
        yield
        holder.execute("ROLLBACK")
        for one in threads:
            one.join(WAIT_S)


def _wait(port: int, statement: str) -> None:
    with shop(port) as cursor:
        cursor.execute(statement)


def _long_waiting(cursor: Any) -> int:
    cursor.execute(
        "SELECT count(*) FROM information_schema.processlist "
        "WHERE command = 'Query' AND time_ms > 2000 AND id <> CONNECTION_ID()"
    )
    return int(cursor.fetchone()[0])


def test_the_session_that_all_wait_for_is_the_cause(port: int, tmp_path: Path) -> None:
    held = f"UPDATE orders SET note = 'card {CARD}' WHERE id = 1"
    with blocked(port, held, f"UPDATE orders SET note = '{CARD}' WHERE id = 1", 3):
        diagnosis = diagnosed_now(tmp_path, connector(port))
    cause = diagnosis.causes[0]
    assert (cause.subject, cause.kind) == ("orders-db", "sessions_blocked")
    [finding] = [one for one in diagnosis.findings if "wait for a lock" in one.sentence]
    assert "3 sessions up to " in finding.sentence
    assert "(user shop, idle in transaction for " in finding.sentence
    assert ", on shop.orders" in finding.sentence
    assert finding.onset is not None
    assert CARD not in diagnosis.model_dump_json()


def test_who_waits_for_a_table_that_is_altered_is_told_without_the_holder(
    port: int, tmp_path: Path
) -> None:
    change = "ALTER TABLE orders ADD COLUMN more INT, ALGORITHM=COPY"
    with blocked(port, "SELECT * FROM orders", change, 1):
        told = facts_of(snapshot(connector(port), tmp_path))
    assert told["sessions_blocked"].startswith("1 session up to ")
    assert told["sessions_blocked"].endswith(f" for {facts.UNNAMED}, on metadata of a table")


def test_a_transaction_that_stays_open_is_told_by_what_it_does() -> None:
    row = facts.SessionRow(7, "shop", "Sleep", "", None, 90.0, 100.0, None)
    [one] = facts.sessions_of([row], [])
    assert (one.who, one.doing, one.open_s) == ("user shop", "idle in transaction", 100.0)


def test_a_statement_that_became_slow_and_a_deadlock(port: int, tmp_path: Path) -> None:
    with shop(port) as cursor:
        for _ in range(120):
            cursor.execute("SELECT SLEEP(0.0001)")
        over = threading.Event()

        def sleeping() -> None:
            while not over.is_set():
                cursor.execute("SELECT SLEEP(0.05)")

        threads = [
            threading.Thread(target=sleeping),
            threading.Thread(target=_lock, args=(port, over)),
        ]
        for one in threads:
            one.start()
        try:
            told = facts_of(snapshot(connector(port, sample_s=4), tmp_path))
        finally:
            over.set()
            for one in threads:
                one.join(WAIT_S)
    assert told["statements_slower"].endswith(": SELECT `SLEEP` (?)")
    assert " per call now, " in told["statements_slower"]
    assert told["database_deadlocks"].endswith(" just now")


def _lock(port: int, over: threading.Event) -> None:
    """Deadlocks until then: two transactions that change the same rows in either order."""
    while not over.is_set():
        with ExitStack() as stack:
            first, second = (stack.enter_context(shop(port)) for _ in range(2))
            first.execute("BEGIN")
            second.execute("BEGIN")
            first.execute("UPDATE orders SET note = 'a' WHERE id = 1")
            second.execute("UPDATE orders SET note = 'b' WHERE id = 2")
            crossing = threading.Thread(target=_cross, args=(first, 2))
            crossing.start()
            _cross(second, 1)
            crossing.join(WAIT_S)


def _cross(cursor: Any, row: int) -> None:
    try:
        cursor.execute(f"UPDATE orders SET note = 'c' WHERE id = {row}")
    except pymysql.OperationalError:
        return
    cursor.execute("ROLLBACK")


def test_connections_near_their_limit_and_a_server_that_was_just_started(
    port: int, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        for _ in range(MOST - 3):
            stack.enter_context(shop(port))
        told = facts_of(snapshot(connector(port), tmp_path))
    assert told["pool_exhausted"] == f"{MOST - 2} of {MOST} (93 % of max_connections)"
    assert told["database_restarted"].startswith("its server started ")


def test_a_replica_that_reaches_no_source_and_one_that_refuses_writes(tmp_path: Path) -> None:
    with programs(tmp_path) as running:
        copy = start_mariadb(
            running, "copy", USERS + FOLLOW.format(port=free_port()), "--read-only", has_users=True
        )
        until(lambda: "database_lagging" in facts_of(snapshot(connector(copy), tmp_path)))
        told = facts_of(snapshot(connector(copy), tmp_path))
        assert told["database_lagging"].startswith("receives nothing from its source: error 20")
        assert "writes_refused" not in told
        alone = start_mariadb(running, "alone", USERS, "--read-only", has_users=True)
        told = facts_of(snapshot(connector(alone), tmp_path))
        assert told["writes_refused"] == "read_only is on"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"Replica_IO_Running": "Yes", "Replica_SQL_Running": "Yes"}, []),
        (
            {"Replica_IO_Running": "Yes", "Replica_SQL_Running": "No", "Last_SQL_Errno": 1062},
            ["applies nothing: error 1062"],
        ),
        ({"Seconds_Behind_Source": 95, "SQL_Delay": 0}, ["95 s behind its source"]),
        ({"Seconds_Behind_Master": 3610, "SQL_Delay": 3600}, []),
    ],
)
def test_replication_by_the_names_of_either_server(row: dict[str, object], said: list[str]) -> None:
    read = {name.lower(): value for name, value in row.items()}
    assert [one.value for one in facts.replica_facts(read)] == said


def test_whoever_has_connections_calls_the_database(port: int, tmp_path: Path) -> None:
    with ExitStack() as stack:
        for user, program in (("shop", "checkout-api"), ("reports_rw", ""), ("shop", "cron")):
            stack.enter_context(
                pymysql.connect(host="127.0.0.1", port=port, user=user, program_name=program)
            )
        found = snapshot(connector(port), tmp_path)
    calls = found.tables["topology"].select("caller", "callee", "source").rows()
    assert calls == [
        ("checkout", "orders-db", "database"),
        ("reports", "orders-db", "database_users"),
    ]
    assert found.tables["topology"]["last_seen"].null_count() == 0


def test_a_user_that_only_reads_statistics_sees_all_of_it(port: int, tmp_path: Path) -> None:
    found = snapshot(connector(port, sample_s=0.1), tmp_path)
    assert found.missing == ()
    assert len(found.items) == 4
    check = asyncio.run(connector(port).check())
    assert check.ok
    assert check.line.startswith("MariaDB 10.11.")
    assert "warning" not in check.line
    owner = asyncio.run(connector(port, username="shop", password=None).check())
    assert "warning: this user can also write (ALL PRIVILEGES)" in owner.line


def test_what_a_user_may_not_read_is_a_gap_and_the_rest_stands(port: int, tmp_path: Path) -> None:
    found = snapshot(connector(port, username="blind", password=None), tmp_path)
    assert "database_restarted" in facts_of(found)
    reasons = [one.reason for one in found.missing]
    assert [one for one in reasons if "not permitted: " in one] == reasons != []


def test_the_server_itself_holds_it_to_reading_and_to_its_time(port: int) -> None:
    server = DatabaseAddress("127.0.0.1", port, "shop", None, "off")

    async def tried(text: str) -> None:
        async with MysqlSession(server, LIMITS, 0.2) as session:
            await session.rows("test", text, type=dict[str, Any])

    with pytest.raises(ConnectorError, match="READ ONLY transaction"):
        asyncio.run(tried("DELETE FROM shop.orders"))
    with pytest.raises(ConnectorError, match="READ ONLY transaction"):
        asyncio.run(tried("CREATE TABLE shop.more (id INT)"))
    with pytest.raises(ConnectorError, match="max_statement_time exceeded"):
        asyncio.run(tried("SELECT count(*) FROM shop.orders WHERE SLEEP(3) = 0"))
    with pytest.raises(ConnectorError, match="syntax"):
        asyncio.run(tried("SELECT 1; DELETE FROM shop.orders"))


def test_no_query_changes_anything() -> None:
    asked = [text for name, text in vars(queries).items() if name.isupper() and text]
    assert len(asked) > 8
    assert {text.split()[0] for text in asked} == {"SELECT", "SHOW"}


def test_a_server_that_offers_no_encryption_gets_no_password(port: int, tmp_path: Path) -> None:
    gap, of_calls = snapshot(connector(port, tls="require"), tmp_path).missing
    assert (gap.kind, of_calls.kind) == ("states", "topology")
    assert "SSL is required" in gap.reason


def test_a_wrong_password_is_a_gap_that_does_not_show_it(port: int, tmp_path: Path) -> None:
    built = connector(port, password="pw-2")
    gap, of_calls = snapshot(built, tmp_path).missing
    assert (gap.kind, of_calls.kind) == ("states", "topology")
    assert "Access denied" in gap.reason
    assert "pw-2" not in str((gap, of_calls))
    assert not asyncio.run(built.check()).ok


def test_an_incident_of_yesterday_is_a_gap(tmp_path: Path) -> None:
    request = live_request(tmp_path, ended_ago=timedelta(days=1))
    [gap] = asyncio.run(collect_from(connector(free_port()), request)).missing
    assert gap.reason == "the server only tells of now, and the incident is over"


@pytest.mark.parametrize(
    "nonsense", [b"", b"HTTP/1.1 400\r\n\r\n", b"\xff\xff\xff\x00", b"x" * 9999]
)
def test_what_is_no_server_of_its_protocol_is_a_gap(nonsense: bytes, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            accepted, _ = listening.accept()
            with accepted:
                accepted.sendall(nonsense)

        thread = threading.Thread(target=answer)
        thread.start()
        found = snapshot(connector(listening.getsockname()[1]), tmp_path)
        thread.join(60)
    assert found.tables == {}
    gap, of_calls = found.missing
    assert (gap.kind, of_calls.kind) == ("states", "topology")
    assert "internal error" not in gap.reason
