"""Real databases read through the exporters of Debian: a MariaDB and a PostgreSQL whose connections
are used up, a replica that is behind, one that does not replicate, and one that is gone."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from connectors.base import Collected
from tests.connectors.conftest import free_port
from tests.connectors.real_servers import (
    Programs,
    Scraped,
    collected_lately,
    debian_program,
    facts_in,
    known_to,
    metrics_of,
    programs,
    refused_in,
)
from tests.debian_tools import debian_root

MOST = 10
"""Connections: the least that MariaDB accepts."""
BEHIND_S = 1000
PLACES = """
CREATE DATABASE IF NOT EXISTS mysql;
CREATE TABLE mysql.gtid_slave_pos (
    domain_id INT UNSIGNED NOT NULL, sub_id BIGINT UNSIGNED NOT NULL,
    server_id INT UNSIGNED NOT NULL, seq_no BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (domain_id, sub_id)
);
"""
"""Where replication keeps how far it is; the rest of the tables that an installation makes is not
needed."""
LONG_AGO = f"SET TIMESTAMP = UNIX_TIMESTAMP() - {BEHIND_S};"
"""What follows is a change of that time."""
FOLLOW = """
CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'root',
    MASTER_DELAY = 86400;
START SLAVE;
"""
LATER = {
    "postgres_exporter": {"pg_replication_lag_seconds"},
    "mysqld_exporter": {
        "mysql_slave_status_seconds_behind_source",
        "mysql_slave_status_replica_io_running",
        "mysql_slave_status_replica_sql_running",
    },
}
"""Names that came with later versions: of the exporter, and of MySQL."""


@pytest.fixture(scope="module")
def scraped(postgres_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that scrapes exporters of all of them."""
    with ExitStack() as stack:
        running = stack.enter_context(programs(tmp_path_factory.mktemp("databases")))
        gone = free_port()
        users = _start_mariadb(running, "users", LONG_AGO + PLACES)
        for _ in range(MOST - 2):
            stack.enter_context(socket.create_connection(("127.0.0.1", users)))
        copy = _start_mariadb(running, "copy", PLACES + FOLLOW.format(port=users))
        stuck = _start_mariadb(running, "stuck", PLACES + FOLLOW.format(port=gone))
        _use_up(postgres_server, stack)
        yield running.scraping(
            _exporter_of_mariadb(running, "users-db", users),
            _exporter_of_mariadb(running, "users-copy", copy),
            _exporter_of_mariadb(running, "users-stuck", stuck),
            _exporter_of_mariadb(running, "orders-db", gone),
            _exporter_of_postgres(running, "carts-db", postgres_server),
        )


def _start_mariadb(running: Programs, name: str, statements: str) -> int:
    """The port of one that has carried out these statements."""
    root = debian_root("mariadb-server-core", "libaio1", "libnuma1", "liburing2")
    [libraries] = root.glob("usr/lib/*-linux-gnu*")
    port = free_port()
    data = running.folder / name
    data.mkdir()
    first = running.folder / f"{name}.sql"
    # One statement a line.
    lines = statements.replace("\n", " ").split(";")
    first.write_text("".join(f"{line.strip()};\n" for line in lines if line.strip()))
    running.start(
        root / "usr/sbin/mariadbd",
        "--no-defaults",
        f"--user={getpass.getuser()}",
        f"--datadir={data}",
        f"--socket={data}/socket",
        f"--lc-messages-dir={root}/usr/share/mysql",
        f"--character-sets-dir={root}/usr/share/mysql/charsets",
        "--bind-address=127.0.0.1",
        f"--port={port}",
        f"--server-id={port}",
        "--log-bin=changes",
        f"--init-file={first}",
        "--skip-grant-tables",
        f"--max-connections={MOST}",
        # A client that has not logged in has a connection for so long.
        "--connect-timeout=600",
        "--innodb-flush-log-at-trx-commit=0",
        env={"LD_LIBRARY_PATH": str(libraries)},
    )
    running.until(lambda: _greets(port), f"MariaDB {name}")
    return port


def _greets(port: int) -> bool:
    """A server of MySQL's protocol speaks first."""
    with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        return bool(connection.recv(1))


def _use_up(server: str, stack: ExitStack) -> None:
    """All connections of this PostgreSQL but those that it keeps for superusers."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE ROLE shop LOGIN")
    stack.callback(_drop_role, server)
    with suppress(psycopg.OperationalError):
        while True:
            stack.enter_context(psycopg.connect(server, user="shop"))


def _drop_role(server: str) -> None:
    import psycopg

    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("DROP ROLE shop")


def _exporter_of_mariadb(running: Programs, database: str, port: int) -> Scraped:
    listens = free_port()
    running.start(
        debian_program("prometheus-mysqld-exporter"),
        f"--web.listen-address=127.0.0.1:{listens}",
        env={"DATA_SOURCE_NAME": f"root@tcp(127.0.0.1:{port})/"},
    )
    return Scraped(f"{database}-exporter", listens)


def _exporter_of_postgres(running: Programs, database: str, server: str) -> Scraped:
    listens = free_port()
    root = debian_root("prometheus-postgres-exporter")
    # Of this version replication is among the queries that an operator adds.
    queries = root / "usr/share/doc/prometheus-postgres-exporter/examples/queries.yaml"
    running.start(
        root / "usr/bin/prometheus-postgres-exporter",
        f"--web.listen-address=127.0.0.1:{listens}",
        f"--extend.query-path={queries}",
        env={"DATA_SOURCE_NAME": f"{server}&sslmode=disable"},
    )
    return Scraped(f"{database}-exporter", listens)


@pytest.fixture(scope="module")
def collected(scraped: str, tmp_path_factory: pytest.TempPathFactory) -> Collected:
    """What the connector brings of them."""
    return collected_lately(scraped, tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize("exporter", LATER)
def test_every_metric_that_the_data_file_knows_is_there(exporter: str, scraped: str) -> None:
    assert metrics_of(exporter) - known_to(scraped) == LATER[exporter]


def test_no_query_was_refused(collected: Collected) -> None:
    assert refused_in(collected) == []


@pytest.mark.parametrize("database", ["users-db", "carts-db"])
def test_a_database_whose_connections_are_used_up_is_named(
    database: str, collected: Collected
) -> None:
    [said] = [value for _, name, fact, value in facts_in(collected) if name == database]
    assert said in {f"{percent} % of max_connections in use" for percent in (98, 99, 100)}


def test_a_database_that_is_gone_or_does_not_replicate_is_named(collected: Collected) -> None:
    facts = {name: (fact, said) for _, name, fact, said in facts_in(collected)}
    assert facts["orders-db"] == ("database_unavailable", "its exporter cannot connect")
    assert facts["users-stuck"] == ("database_lagging", "its replication has stopped")
    fact, said = facts["users-copy"]
    assert fact == "database_lagging"
    assert BEHIND_S <= int(str(said).removesuffix(" s behind")) < 2 * BEHIND_S
