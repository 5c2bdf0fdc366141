"""What Redis' answers say is wrong, at each threshold."""

from __future__ import annotations

import pytest

from faultline.connectors.shared.databases.database_facts import StatementCounts
from faultline.connectors.vendors.redis import facts as redis
from tests.connectors.fact_rows import FactRow, fact_rows


@pytest.mark.parametrize(
    ("fields", "facts"),
    [
        ("", []),
        ("# Server\nuptime_in_seconds:86400\nloading:0\nmaxclients:100\nconnected_clients:89", []),
        (
            "uptime_in_seconds:30",
            [("database_restarted", "its server started 30 s ago", 30.0, "uptime_in_seconds")],
        ),
        (
            "loading:1",
            [("database_unavailable", "loading its data from disk", None, "loading")],
        ),
        (
            "rdb_last_bgsave_status:err\naof_last_write_status:err",
            [
                ("writes_refused", "its last snapshot failed", None, "rdb_last_bgsave_status"),
                (
                    "writes_refused",
                    "writing its append-only file failed",
                    None,
                    "aof_last_write_status",
                ),
            ],
        ),
        ("rdb_last_bgsave_status:ok\naof_last_write_status:ok", []),
        (
            "connected_clients:90\nmaxclients:100",
            [("pool_exhausted", "90 of 100 (90 % of maxclients)", None, "maxclients")],
        ),
        (
            "role:slave\nmaster_link_status:down\nmaster_link_down_since_seconds:50",
            [("database_lagging", "its link to the primary is down", 50.0, "master_link_status")],
        ),
        (
            "role:slave\nmaster_link_status:down\nmaster_link_down_since_seconds:-1",
            [("database_lagging", "its link to the primary is down", None, "master_link_status")],
        ),
        ("role:slave\nmaster_link_status:up", []),
        ("role:master\nmaster_link_status:down", []),
    ],
)
def test_what_a_redis_server_says_of_itself(fields: str, facts: list[FactRow]) -> None:
    assert fact_rows(redis.server_facts(redis.fields_of(fields), 3600)) == facts


@pytest.mark.parametrize(
    ("used", "most", "policy", "evicted", "over_s", "facts"),
    [
        (89, 100, "allkeys-lru", 5, 1, []),
        (95, 0, "noeviction", 0, 0, []),
        (90, 100, "allkeys-lru", 0, 1, []),
        (90, 100, "allkeys-lru", 5, 0, []),
        (
            90,
            100,
            "allkeys-lru",
            5,
            2,
            [
                (
                    "memory_near_limit",
                    "90 % of maxmemory in use, policy allkeys-lru, 5 keys evicted in 2 s",
                )
            ],
        ),
        (
            95,
            100,
            "noeviction",
            0,
            0,
            [("memory_near_limit", "95 % of maxmemory in use, policy noeviction")],
        ),
        (
            100,
            100,
            "noeviction",
            0,
            0,
            [("writes_refused", "100 % of maxmemory in use, and its policy is noeviction")],
        ),
    ],
)
def test_a_full_cache_is_trouble_where_it_evicts_or_may_not(
    used: int, most: int, policy: str, evicted: float, over_s: float, facts: list[tuple[str, str]]
) -> None:
    fields = {"used_memory": str(used), "maxmemory": str(most), "maxmemory_policy": policy}
    assert fact_rows(redis.memory_facts(fields, evicted, over_s)) == [
        (*fact, None, "maxmemory") for fact in facts
    ]


def test_connections_that_redis_refused_while_we_watched() -> None:
    assert redis.rejected_facts(0) == []
    assert fact_rows(redis.rejected_facts(1)) == [
        ("pool_exhausted", "1 connection rejected just now", None, "rejected_connections")
    ]


def test_statistics_and_clients_of_redis() -> None:
    statistics = "cmdstat_get:calls=21,usec=42000,usec_per_call=2\ncmdstat_9x:calls=1,usec=1\nx:y"
    assert redis.command_counts(redis.fields_of(statistics)) == [
        StatementCounts("get", "GET", 21, 42.0)
    ]
    listed = (
        "id=7 addr=10.0.0.1:5 name=cart flags=N user=default\nid=8 addr=10.0.0.1:6 name= user=a=b"
    )
    assert redis.clients_of(listed) == [("cart", "default"), ("", "a=b")]
    assert redis.clients_of(None) == []
    assert redis.fields_of(["no", "section"]) == {}


def test_slow_commands_of_the_window_are_one_fact() -> None:
    log: redis.Reply = [
        [3, 1000, 250_000, ["eval", "secret"], "10.0.0.1:5", "cart"],
        [2, 950, 100_000, ["keys"]],
        [1, 990, 99_999, ["get"]],
        [0, 899, 9_000_000, ["flushall"]],
        [9, 1000, 150_000, ["an odd name"]],
        "no entry",
    ]
    commands = list(redis.slow_commands(log))
    assert [command.name for command in commands] == [
        "EVAL",
        "KEYS",
        "GET",
        "FLUSHALL",
        "a command",
    ]
    assert fact_rows(redis.slow_facts(commands, since=900, now=1010)) == [
        (
            "commands_slow",
            "EVAL took 250 ms, and 2 more took 100 ms or longer",
            60.0,
            "slowlog",
        )
    ]
    assert fact_rows(redis.slow_facts(commands[:1], since=900, now=990))[0][1:3] == (
        "EVAL took 250 ms", 0.0,
    )  # fmt: skip
    assert redis.slow_facts(commands, since=1001, now=1010) == []
    assert list(redis.slow_commands(None)) == []
