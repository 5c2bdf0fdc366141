"""What runs out: the processor, memory, disks, connections and queues that exporters measure."""

from __future__ import annotations

from faultline.analysis.kinds.state_fault import Depth, state_fault

SATURATION = (
    state_fault(
        "cpu_throttled",
        0.95,
        Depth.INSTANCE,
        "is throttled by its CPU limit",
        "{object} is throttled by its CPU limit: {value}",
        less="{object} is throttled by its CPU limit",
        step="Raise or remove the CPU limit of {subject}, or find out what uses more CPU.",
        logged_as=("cpu_throttled",),
    ),
    state_fault(
        "memory_near_limit",
        0.5,
        Depth.INSTANCE,
        "has almost no memory left",
        "{object} has almost no memory left: {value}",
        less="{object} has almost no memory left",
        step="Find out what fills the memory of {subject}, and raise its limit if that is right.",
    ),
    state_fault(
        "pool_exhausted",
        0.85,
        Depth.INSTANCE,
        "is out of connections",
        "{object} is nearly out of connections: {value}",
        less="{object} is out of connections",
        step="Find out who holds the connections of {subject}: slow queries, leaks, more clients.",
        logged_as=(
            "pool_exhausted",
            "hikari_pool_exhausted",
            "sqlalchemy_pool_exhausted",
            "postgres_too_many_connections",
            "mysql_too_many_connections",
        ),
    ),
    state_fault(
        "publishing_blocked",
        0.9,
        Depth.SETTING,
        "blocks its publishers",
        "{object} blocks its publishers: {value}",
        less="{object} blocks its publishers",
        step="Free memory or disk of {subject}, and find out which queue grew.",
    ),
    state_fault(
        "queue_without_consumers",
        0.85,
        Depth.EFFECT,
        "has messages but no consumer",
        "{object} has {value} and no consumer",
        less="{object} has messages and no consumer",
        step="Find out why the consumers of {subject} are gone.",
    ),
    state_fault(
        "consumers_behind",
        0.6,
        Depth.EFFECT,
        "is far behind on its messages",
        "{object} is behind: {value}",
        less="{object} is far behind on its messages",
        step="Check the consumers of {subject}: their errors, their speed, their number.",
    ),
    state_fault(
        "requests_throttled",
        0.85,
        Depth.INSTANCE,
        "rejects requests beyond its capacity",
        "{object} rejects requests beyond its capacity: {value}",
        less="{object} rejects requests beyond its capacity",
        step="Raise the capacity or quota of {subject}, or find out who asks more of it, or of one "
        "key or shard.",
    ),
    state_fault(
        "cpu_exhausted",
        0.85,
        Depth.INSTANCE,
        "is out of CPU",
        "{object} is out of CPU: {value}",
        less="{object} is out of CPU",
        step="Find out which commands keep {subject} busy, and give it more or larger nodes.",
    ),
    state_fault(
        "ports_exhausted",
        0.9,
        Depth.INSTANCE,
        "is out of ports for new connections",
        "{object} is out of ports for new connections: {value}",
        less="{object} is out of ports for new connections",
        step="Find out which destination {subject} has most connections to, reuse connections, and "
        "add addresses or gateways.",
    ),
    state_fault(
        "dead_letters",
        0.6,
        Depth.EFFECT,
        "has messages that its consumers gave up on",
        "{object} has {value} that its consumers gave up on",
        less="{object} has messages that its consumers gave up on",
        step="Read a message of the dead-letter queue of {subject}, and the errors of its "
        "consumers.",
    ),
)
