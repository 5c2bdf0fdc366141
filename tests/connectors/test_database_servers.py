"""Real databases read through the exporters of Debian: a MariaDB and a PostgreSQL whose connections
are used up, a replica that is behind, one that does not replicate, and one that is gone."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest

from faultline.connectors.shared.contract.base import Collected
from faultline.loopback.bot_process import free_port
from tests.connectors.debian_mariadb import start_mariadb
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
OPEN = (
    "--skip-grant-tables",
    "--userstat=1",
    f"--max-connections={MOST}",
    # A client that has not logged in has a connection for so long.
    "--connect-timeout=600",
)
LONG_AGO = f"SET TIMESTAMP = UNIX_TIMESTAMP() - {BEHIND_S};"
"""What follows is a change of that time."""
FOLLOW = """
CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {port}, MASTER_USER = 'root',
    MASTER_DELAY = 86400;
START SLAVE;
"""
LATER = {
    "postgres_exporter": {
        "pg_replication_is_replica",
        "pg_replication_lag_seconds",
        "pg_stat_statements_calls_total",
        "pg_stat_statements_seconds_total",
    },
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
        users = start_mariadb(running, "users", LONG_AGO + PLACES, *OPEN)
        for _ in range(MOST - 2):
            stack.enter_context(socket.create_connection(("127.0.0.1", users)))
        copy = start_mariadb(running, "copy", PLACES + FOLLOW.format(port=users), *OPEN)
        stuck = start_mariadb(running, "stuck", PLACES + FOLLOW.format(port=gone), *OPEN)
        _use_up(postgres_server, stack)
        yield running.scraping(
            _exporter_of_mariadb(running, "users-db", users),
            _exporter_of_mariadb(running, "users-copy", copy),
            _exporter_of_mariadb(running, "users-stuck", stuck),
            _exporter_of_mariadb(running, "orders-db", gone),
            _exporter_of_postgres(running, "carts-db", postgres_server),
        )


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
        "--collect.info_schema.processlist",
        "--collect.info_schema.userstats",
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
