"""What Redis' answers say is wrong.

Fields: "INFO" and "SLOWLOG GET" (redis.io). Valkey and the clouds' caches answer alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from faultline.analysis.wording.amounts import MILLISECONDS, SECONDS, SHARE, amount
from faultline.analysis.wording.phrases import counted
from faultline.connectors.shared.databases.database_facts import (
    StatementCounts,
    connection_facts,
    restart_facts,
)
from faultline.connectors.shared.databases.database_server import Fact
from faultline.connectors.shared.vendor_text import short

Reply: TypeAlias = "str | int | list[Reply] | None"
MEMORY_SHARE = 0.9
"""As of the exporter's fact (exporter_metrics.toml; awesome-prometheus-alerts)."""
SLOW_MS = 100.0
"""Redis serves one command at a time, so that all clients wait for it; its log begins at 10 ms
(`slowlog-log-slower-than`)."""
_STATISTICS = re.compile(r"calls=(\d+),usec=(\d+)")
_NAME = re.compile(r"[A-Za-z][A-Za-z._|-]{0,30}")


@dataclass(frozen=True)
class SlowCommand:
    """An entry of the slow log: when it began, in s since 1970, and for how long it ran."""

    at: float
    ms: float
    name: str


def fields_of(reply: Reply) -> dict[str, str]:
    """A section of INFO, field by field."""
    fields = {}
    for line in (reply if isinstance(reply, str) else "").splitlines():
        name, colon, value = line.partition(":")
        if colon and not line.startswith("#"):
            fields[name] = value
    return fields


def number_of(fields: Mapping[str, str], name: str) -> float:
    """A field that is a number; 0 where it is none."""
    try:
        return float(fields.get(name, ""))
    except ValueError:
        return 0.0


def server_facts(fields: Mapping[str, str], window_s: float) -> list[Fact]:
    """Of the sections server, clients, persistence and replication."""
    facts = []
    if "uptime_in_seconds" in fields:
        up_s = number_of(fields, "uptime_in_seconds")
        facts += restart_facts(up_s, window_s, "uptime_in_seconds")
    if fields.get("loading") == "1":
        facts.append(Fact("database_unavailable", "loading its data from disk", field="loading"))
    for name, what in (
        ("rdb_last_bgsave_status", "its last snapshot failed"),
        ("aof_last_write_status", "writing its append-only file failed"),
    ):
        if fields.get(name) == "err":
            facts.append(Fact("writes_refused", what, field=name))
    facts += connection_facts(
        round(number_of(fields, "connected_clients")),
        round(number_of(fields, "maxclients")),
        "maxclients",
    )
    if fields.get("role") == "slave" and fields.get("master_link_status") == "down":
        down_s = number_of(fields, "master_link_down_since_seconds")
        # A number below 0 means that the server does not know since when.
        downtime_s = down_s if down_s > 0 else None
        phrase = "its link to the primary is down"
        facts.append(Fact("database_lagging", phrase, downtime_s, field="master_link_status"))
    return facts


def memory_facts(fields: Mapping[str, str], evicted: float, over_s: float) -> list[Fact]:
    """`evicted` keys in the last `over_s` seconds."""
    most = number_of(fields, "maxmemory")
    used = number_of(fields, "used_memory")
    if not most or used < MEMORY_SHARE * most:
        return []
    policy = short(fields.get("maxmemory_policy", ""), 40)
    share = amount(used / most, SHARE)
    if policy == "noeviction" and used >= most:
        phrase = f"{share} of maxmemory in use, and its policy is noeviction"
        return [Fact("writes_refused", phrase, field="maxmemory")]
    phrase = f"{share} of maxmemory in use, policy {policy}"
    if evicted > 0 and over_s:
        phrase += f", {counted(round(evicted), 'key')} evicted in {amount(over_s, SECONDS)}"
    elif policy != "noeviction":
        # A cache that is full and evicts nothing is as its owner wants it.
        return []
    return [Fact("memory_near_limit", phrase, field="maxmemory")]


def rejected_facts(count: float) -> list[Fact]:
    """Connections that were refused while we watched."""
    if count <= 0:
        return []
    phrase = f"{counted(round(count), 'connection')} rejected just now"
    return [Fact("pool_exhausted", phrase, field="rejected_connections")]


def command_counts(fields: Mapping[str, str]) -> list[StatementCounts]:
    """The section commandstats."""
    counts = []
    for name, value in fields.items():
        match = _STATISTICS.match(value)
        command = name.removeprefix("cmdstat_")
        if match and _NAME.fullmatch(command):
            ms = float(match[2]) / 1000
            counts.append(StatementCounts(command, command.upper(), float(match[1]), ms))
    return counts


def clients_of(reply: Reply) -> list[tuple[str, str]]:
    """The name and the user of each connection of CLIENT LIST: `id=7 addr=... name=cart
    ... user=default`. A server adds fields from version to version, and a name has no space."""
    clients = []
    for line in (reply if isinstance(reply, str) else "").splitlines():
        fields = dict(part.partition("=")[::2] for part in line.split(" "))
        clients.append((fields.get("name", ""), fields.get("user", "")))
    return clients


def slow_commands(reply: Reply) -> Iterator[SlowCommand]:
    """Entries that can be read. Of a command only its name is kept: arguments are keys and
    values."""
    for entry in reply if isinstance(reply, list) else []:
        match entry:
            # Id, time in s, duration in us, the command. Newer servers add the client.
            case [int(), int() as at, int() as us, [str() as name, *_], *_]:
                phrase = name.upper() if _NAME.fullmatch(name) else "a command"
                yield SlowCommand(float(at), us / 1000, phrase)


def slow_facts(commands: Sequence[SlowCommand], since: float, now: float) -> list[Fact]:
    """Commands of the window that delayed all others."""
    slow = [command for command in commands if command.ms >= SLOW_MS and command.at >= since]
    if not slow:
        return []
    worst = max(slow, key=lambda command: command.ms)
    phrase = f"{worst.name} took {amount(worst.ms, MILLISECONDS)}"
    if len(slow) > 1:
        phrase += f", and {len(slow) - 1} more took {amount(SLOW_MS, MILLISECONDS)} or longer"
    first = min(command.at for command in slow)
    return [Fact("commands_slow", phrase, max(0.0, now - first), field="slowlog")]
