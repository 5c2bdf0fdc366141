"""Every wait for PostgreSQL ends, also when the server is lost without a word."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, make_url, text
from sqlalchemy.exc import OperationalError

from faultline.bot.queue.engine_database import system_engine
from faultline.bot.store.connections import Waits, connect
from tests.black_hole import BlackHole, black_hole

QUICK = Waits(statement_s=0.4, lock_s=0.2, idle_s=0.3)
LEFT_WITHIN_S = QUICK.statement_s + 2.0 + 1.5


@pytest.fixture
def hole(postgres_url: str) -> Iterator[BlackHole]:
    with black_hole(postgres_url) as one:
        yield one


def shown(engine: Engine, name: str) -> str:
    with engine.connect() as connection:
        return str(connection.execute(text(f"SHOW {name}")).scalar())


def test_a_statement_whose_server_is_silent_is_left_and_the_next_finds_another_connection(
    hole: BlackHole,
) -> None:
    engine = connect(hole.url, QUICK)
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        hole.fall_silent()
        began = time.monotonic()
        with pytest.raises(OperationalError, match="no answer within"):
            connection.execute(text("SELECT 1"))
        assert time.monotonic() - began < LEFT_WITHIN_S
    hole.pass_again()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1
    engine.dispose()


def test_a_server_that_takes_connections_and_stays_silent_is_given_up(hole: BlackHole) -> None:
    hole.fall_silent()
    engine = connect(f"{hole.url}?connect_timeout=2", QUICK)
    began = time.monotonic()
    with pytest.raises(OperationalError):
        engine.connect()
    assert time.monotonic() - began < 4
    engine.dispose()


def test_a_pool_of_lost_connections_is_replaced_once_the_server_is_back(hole: BlackHole) -> None:
    engine = connect(hole.url, QUICK)
    opened = [engine.connect() for _ in range(4)]
    for one in opened:
        one.close()
    hole.fall_silent()
    with pytest.raises(OperationalError), engine.connect() as connection:
        connection.execute(text("SELECT 1"))
    hole.pass_again()
    began = time.monotonic()
    with engine.connect() as connection:
        assert connection.execute(text("SELECT 1")).scalar() == 1
    assert time.monotonic() - began < 1, "a lost connection was tried after all"
    engine.dispose()


def test_the_server_ends_a_transaction_that_stands_still(postgres_url: str) -> None:
    engine = connect(postgres_url, QUICK)
    lost, other = engine.connect(), engine.connect()
    lost.execute(text("SELECT pg_advisory_xact_lock(7)"))
    began = time.monotonic()
    while not other.execute(text("SELECT pg_try_advisory_lock(7)")).scalar():
        other.commit()
        assert time.monotonic() - began < 3
        time.sleep(0.02)
    lost.invalidate()
    lost.close()
    other.close()
    engine.dispose()


@pytest.mark.parametrize("opened", [connect, system_engine])
def test_limits_hold_on_every_connection_unless_the_operator_says_otherwise(
    postgres_url: str, opened: object
) -> None:
    assert callable(opened)
    engine: Engine = opened(postgres_url)
    assert shown(engine, "idle_in_transaction_session_timeout") == "10s"
    assert shown(engine, "statement_timeout") == ("10s" if opened is connect else "40s")
    engine.dispose()
    own: Engine = opened(f"{postgres_url}&options=-c%20statement_timeout%3D33s")
    assert shown(own, "statement_timeout") == "33s"
    assert shown(own, "idle_in_transaction_session_timeout") == "10s"
    own.dispose()
    name = make_url(postgres_url).database
    admin: Engine = opened(postgres_url)
    with admin.begin() as connection:
        connection.execute(
            text(f'ALTER DATABASE "{name}" SET idle_in_transaction_session_timeout = 77000')
        )
    admin.dispose()
    assert shown(engine, "idle_in_transaction_session_timeout") == "77s"
    engine.dispose()


def test_the_network_has_limits_unless_the_address_says_otherwise(postgres_url: str) -> None:
    engine = connect(f"{postgres_url}&keepalives_idle=60")
    parameters = engine.url.query
    assert parameters["keepalives_idle"] == "60"
    assert parameters["connect_timeout"] == "5"
    assert parameters["tcp_user_timeout"] == "10000"
    engine.dispose()
