"""PostgreSQL, real servers: who blocks whom, what became slow, what fills up, and that nothing can
be written."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.contract.base import Connector, collect_from
from faultline.connectors.vendors.postgresql import facts, queries
from faultline.connectors.vendors.postgresql.connector import (
    LIMITS,
    PostgresServer,
    PostgresSession,
)
from faultline.loopback.bot_process import free_port
from tests.connectors.debian_postgres import ADMIN, DebianPostgres, debian_postgres, replica_of
from tests.connectors.live_requests import (
    configured,
    diagnosed_now,
    facts_of,
    live_request,
    snapshot,
)

MOST = 60
CARD = "4111111111111111"
TABLES = f"""
CREATE EXTENSION pg_stat_statements;
CREATE ROLE faultline LOGIN;
GRANT pg_monitor TO faultline;
CREATE ROLE shop LOGIN;
CREATE TABLE orders (id int PRIMARY KEY, note text);
INSERT INTO orders VALUES (1, 'first'), (2, 'second');
GRANT ALL ON orders TO shop;
CREATE TABLE dead (id int) WITH (autovacuum_enabled = off);
INSERT INTO dead SELECT * FROM generate_series(1, {facts.DEAD_ROWS});
DELETE FROM dead;
"""
WAIT_S = 60.0


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[DebianPostgres, Path]]:
    """A server with the extension that counts statements."""
    with debian_postgres(
        shared_preload_libraries="pg_stat_statements",
        max_connections=str(MOST),
        wal_level="logical",
        deadlock_timeout="100ms",
    ) as (server, sockets):
        with as_user(sockets, ADMIN) as connection:
            for statement in TABLES.strip().split(";\n"):
                connection.execute(statement.encode())
        yield server, sockets


@pytest.fixture
def sockets(running: tuple[DebianPostgres, Path]) -> Path:
    """Where the server listens."""
    return running[1]


@contextmanager
def as_user(
    sockets: Path, user: str, application: str = "test"
) -> Iterator[psycopg.Connection[Any]]:
    """A connection on which each statement is a transaction unless one is begun."""
    with psycopg.connect(
        host=str(sockets), user=user, dbname="postgres", application_name=application
    ) as connection:
        connection.autocommit = True
        yield connection


def connector(sockets: Path, **own: Any) -> Connector:
    """As settings build it, for the user that may only read statistics."""
    values = {"host": str(sockets), "username": "faultline", "tls": "off", "service": "orders-db"}
    catalogue = {"checkout": {"aliases": ["checkout-api"]}, "reports": {}}
    return configured("postgresql", {"sample_s": 0, **values, **own}, services=catalogue)


def until(holds: Callable[[], bool]) -> None:
    """Wait for it."""
    ends = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


@contextmanager
def blocked(sockets: Path, waiting: int) -> Iterator[None]:
    """A report that changed an order and went to lunch, and requests that wait for it, each for a
    second at least."""
    with ExitStack() as stack:
        holder = stack.enter_context(as_user(sockets, "shop", "reports"))
        holder.execute("BEGIN")
        holder.execute(f"UPDATE orders SET note = 'card {CARD}' WHERE id = 1")
        threads = [threading.Thread(target=_update, args=(sockets,)) for _ in range(waiting)]
        for one in threads:
            one.start()
        with as_user(sockets, ADMIN) as admin:
            until(lambda: _long_waiting(admin) == waiting)
        yield
        holder.execute("ROLLBACK")
        for one in threads:
            one.join(WAIT_S)


def _update(sockets: Path) -> None:
    with as_user(sockets, "shop", "checkout-api") as connection:
        connection.execute("UPDATE orders SET note = 'paid' WHERE id = 1")


def _long_waiting(admin: psycopg.Connection[Any]) -> int:
    asked = "SELECT count(DISTINCT pid) FROM pg_locks WHERE clock_timestamp() - waitstart > '1.1 s'"
    row = admin.execute(asked).fetchone()
    assert row is not None
    return int(row[0])


def test_the_session_that_all_wait_for_is_the_cause(sockets: Path, tmp_path: Path) -> None:
    with blocked(sockets, 3):
        diagnosis = diagnosed_now(tmp_path, connector(sockets))
    cause = diagnosis.causes[0]
    assert (cause.subject, cause.kind) == ("orders-db", "sessions_blocked")
    [finding] = [one for one in diagnosis.findings if "wait for a lock" in one.sentence]
    assert "3 sessions" in finding.sentence
    assert "(reports, user shop, idle in transaction for " in finding.sentence
    assert "on orders; its statement: UPDATE orders SET note = ? WHERE id = ?" in finding.sentence
    assert finding.onset is not None
    assert finding.evidence
    assert CARD not in diagnosis.model_dump_json()


def test_whoever_has_connections_calls_the_database(sockets: Path, tmp_path: Path) -> None:
    with as_user(sockets, "shop", "checkout-api"), as_user(sockets, "shop", "psql"):
        found = snapshot(connector(sockets), tmp_path)
    calls = found.tables["topology"].select("caller", "callee", "source").rows()
    assert calls == [("checkout", "orders-db", "database")]


def test_no_query_is_refused_by_the_newest_server_either(
    postgres_server: str, tmp_path: Path
) -> None:
    host = conninfo_to_dict(postgres_server)["host"]
    newest = connector(Path(str(host)), username=ADMIN, sample_s=0.1)
    found = snapshot(newest, tmp_path)
    assert [one.reason for one in found.missing] == ["the extension is not in this database"]


def test_what_is_calm_has_no_facts_but_dead_rows(sockets: Path, tmp_path: Path) -> None:
    with as_user(sockets, ADMIN) as admin:
        admin.execute("SELECT pg_stat_force_next_flush()")
        dead = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'dead'"
        until(lambda: admin.execute(dead).fetchall() == [(facts.DEAD_ROWS,)])
        admin.execute("SELECT pg_reload_conf()")
    found = snapshot(connector(sockets), tmp_path)
    told = facts_of(found)
    assert told.pop("rows_not_vacuumed") == "100,000 of public.dead (100 %), never vacuumed"
    assert told.pop("database_restarted").startswith("its server started ")
    assert told == {}
    assert found.missing == ()
    assert found.tables["changes"]["title"].to_list() == ["PostgreSQL read its settings again"]


def test_connections_and_transactions_that_stay_open(
    sockets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultline.connectors.shared.databases.database_facts.IDLE_OPEN_S", 0.5)
    with ExitStack() as stack:
        first = stack.enter_context(as_user(sockets, "shop", "reports"))
        first.execute("BEGIN")
        first.execute("SELECT note FROM orders WHERE id = 12345")
        for _ in range(MOST - 6):
            stack.enter_context(as_user(sockets, "shop"))
        time.sleep(0.6)
        told = facts_of(snapshot(connector(sockets), tmp_path))
    assert " of 60 (9" in told["pool_exhausted"]
    said = told["transaction_held_open"]
    assert "(reports, user shop, idle in transaction) for " in said
    assert said.endswith("its statement: SELECT note FROM orders WHERE id = ?")


def test_a_statement_that_became_slower_is_named_with_both_times(
    sockets: Path, tmp_path: Path
) -> None:
    own = "SELECT pg_sleep({}) /* of {} */"
    over = threading.Event()

    def slowly() -> None:
        with as_user(sockets, "shop", "checkout-api") as connection:
            while not over.is_set():
                connection.execute(own.format(0.02, CARD).encode())

    with as_user(sockets, "shop") as connection:
        for _ in range(150):
            connection.execute(own.format("0.0", CARD).encode())
    thread = threading.Thread(target=slowly)
    thread.start()
    try:
        found = snapshot(connector(sockets, sample_s=1), tmp_path)
    finally:
        over.set()
        thread.join(WAIT_S)
    said = facts_of(found)["statements_slower"]
    assert " ms per call now, " in said
    assert said.endswith(": SELECT pg_sleep($1)")
    shown = [item.details for item in found.items if "most time since counted" in item.details]
    assert "SELECT pg_sleep($1)" in shown[0]["most time since counted"]
    assert CARD not in str(found)


def test_deadlocks_while_it_looks_are_counted(sockets: Path, tmp_path: Path) -> None:
    built = connector(sockets, sample_s=3)

    def other(ids: tuple[int, int], met: threading.Barrier) -> None:
        with as_user(sockets, "shop") as connection, connection.transaction():
            connection.execute("UPDATE orders SET note = '' WHERE id = %s", (ids[0],))
            met.wait(WAIT_S)
            try:
                connection.execute("UPDATE orders SET note = '' WHERE id = %s", (ids[1],))
            except psycopg.errors.DeadlockDetected:
                raise psycopg.Rollback from None

    def both() -> None:
        time.sleep(1)
        met = threading.Barrier(2)
        pair = [threading.Thread(target=other, args=(ids, met)) for ids in ((1, 2), (2, 1))]
        for one in pair:
            one.start()
        for one in pair:
            one.join(WAIT_S)

    later = threading.Thread(target=both)
    later.start()
    told = facts_of(snapshot(built, tmp_path))
    later.join(WAIT_S)
    assert told["database_deadlocks"] == "1 deadlock just now"


def test_a_replica_that_is_paused_and_a_slot_that_nobody_reads(
    running: tuple[DebianPostgres, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, sockets = running
    monkeypatch.setattr("faultline.connectors.vendors.postgresql.facts.LEAST_RETAINED", 1)
    with replica_of(server, sockets) as replica, as_user(sockets, ADMIN) as admin:
        admin.execute("SELECT pg_create_physical_replication_slot('left', true)")
        admin.execute("INSERT INTO orders VALUES (3, 'third')")
        with as_user(replica, ADMIN) as copy:
            copy.execute("SELECT pg_wal_replay_pause()")
        built = connector(sockets, replica=str(replica))
        told = facts_of(snapshot(built, tmp_path))
        admin.execute("SELECT pg_drop_replication_slot('left')")
    assert told["database_lagging"] == f"replay is paused on replica {replica}"
    assert told["replication_log_kept"].startswith("slot left is not read and keeps ")


def test_a_replica_that_is_gone_is_a_gap(sockets: Path, tmp_path: Path) -> None:
    built = connector(sockets, replica="127.0.0.1", replica_port=free_port())
    [gap] = snapshot(built, tmp_path).missing
    assert gap.query.startswith("replica 127.0.0.1:")
    assert "refused" in gap.reason


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (facts.StandbyRow(0, 90.0, True, False), "r receives nothing from its primary"),
        (facts.StandbyRow(1, 90.0, True, False), "r is 90 s behind"),
        (
            facts.StandbyRow(0, None, False, False),
            "r takes writes itself: it is no replica any more",
        ),
    ],
)
def test_how_a_replica_sees_itself(row: facts.StandbyRow, said: str) -> None:
    assert [one.value for one in facts.standby_facts(row, "r")] == [said]


def test_a_replica_as_its_primary_sees_it() -> None:
    row = facts.ReplicaRow("copy", None, "streaming", 45.0, 5e6)
    assert [one.value for one in facts.replica_facts([row])] == ["copy is 45 s behind (5 MB)"]


def test_transaction_ids_that_run_out() -> None:
    rows = [facts.DatabaseRow("shop", 1.5e9, None), facts.DatabaseRow("postgres", 10.0, None)]
    assert [one.value for one in facts.age_facts(rows)] == ["shop has used 70 % (1.5 billion)"]
    assert facts.age_facts(rows[1:]) == []


def test_after_the_incident_a_snapshot_says_nothing_of_it(sockets: Path, tmp_path: Path) -> None:
    request = live_request(tmp_path, ended_ago=timedelta(hours=2))
    found = asyncio.run(collect_from(connector(sockets), request))
    assert found.tables == {}
    assert [one.reason for one in found.missing] == [
        "the server only tells of now, and the incident is over"
    ]


def test_a_user_without_the_role_is_told_what_to_grant(sockets: Path, tmp_path: Path) -> None:
    built = connector(sockets, username="shop")
    with as_user(sockets, ADMIN, "checkout-api"):
        found = snapshot(built, tmp_path)
    assert any(one.reason.endswith("is hidden: GRANT pg_monitor") for one in found.missing)
    check = asyncio.run(built.check())
    assert check.ok
    assert check.unread == ("other users' sessions",)
    assert "; warning: this user can also write (1 tables)" in check.line


def test_the_check_of_a_user_that_only_reads(sockets: Path) -> None:
    check = asyncio.run(connector(sockets).check())
    assert check.ok
    assert check.unread == ()
    assert "PostgreSQL 15." in check.line
    assert "statistics can be read; each query is a read-only transaction of at most 5 s" in (
        check.line
    )
    assert "warning" not in check.line
    admin = asyncio.run(connector(sockets, username=ADMIN).check())
    assert "warning: this user can also write (superuser, " in admin.line


def of(sockets: Path) -> PostgresServer:
    """The server with the rights of an administrator."""
    return PostgresServer(str(sockets), 5432, ADMIN, None, "off")


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("INSERT INTO orders VALUES (9, '')", "cannot execute INSERT in a read-only transaction"),
        ("SELECT pg_sleep(9)", "took too long and was cancelled"),
    ],
)
def test_the_server_itself_holds_it_to_reading_and_to_its_time(
    sockets: Path, statement: Any, problem: str
) -> None:
    async def tried() -> None:
        async with PostgresSession(of(sockets), LIMITS, 0.3) as session:
            try:
                await session.rows("try", statement, type=facts.SchemaRow)
            finally:
                # What failed does no harm to what follows.
                assert await session.rows("server", queries.SERVER, type=facts.ServerRow)

    with pytest.raises(ConnectorError, match=problem):
        asyncio.run(tried())


def test_a_server_that_is_gone_is_a_gap(tmp_path: Path) -> None:
    built = configured(
        "postgresql",
        {
            "host": "127.0.0.1",
            "port": free_port(),
            "username": "u",
            "tls": "off",
            "password": "pw-1",
        },
    )
    found = snapshot(built, tmp_path)
    assert {one.kind for one in found.missing} == {"states", "changes", "topology"}
    assert "refused" in found.missing[0].reason
    assert "pw-1" not in str(found.missing)
    assert not asyncio.run(built.check()).ok


def test_windows_of_its_items_end_now(sockets: Path, tmp_path: Path) -> None:
    for item in snapshot(connector(sockets), tmp_path).items:
        assert isinstance(item.window, Window)
        assert str(sockets) in item.query
