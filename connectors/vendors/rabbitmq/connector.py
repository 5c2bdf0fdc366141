"""RabbitMQ's own state: alarms and partitions of its nodes, and its longest queues with their
consumers.

A snapshot of now from the management plugin. Fields: "RabbitMQ Management HTTP API" and its page on
statistics, versions 3.10 to 4.x.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from faultline.analysis.wording.amounts import BYTES, PER_SECOND, SECONDS, amount
from faultline.analysis.wording.phrases import counted
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.shared.databases.database_facts import BEHIND
from faultline.connectors.shared.databases.database_server import Fact, listed
from faultline.connectors.shared.databases.http_server import Endpoint, HttpServerConnector
from faultline.connectors.shared.http.http import HttpSession
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.rabbitmq import RabbitmqSettings

# Named columns alone: whole objects are many times as large.
NODES = (
    "name,running,uptime,mem_alarm,mem_used,mem_limit,disk_free_alarm,disk_free,disk_free_limit,"
    "partitions"
)
QUEUES = (
    "name,vhost,state,messages_ready,messages_unacknowledged,consumers,"
    "message_stats.publish_details.rate,message_stats.deliver_get_details.rate,"
    "message_stats.ack_details.rate"
)
WRITING_TAGS = frozenset({"administrator", "policymaker"})
STUCK = 100
"""Messages that wait while consumers acknowledge none: fewer may be one slow task."""
MOST_QUEUES = 10
# `flow`: the server slows publishers down, which passes by itself.
HEALTHY = frozenset({None, "running", "idle", "flow"})


class NodeAnswer(msgspec.Struct):
    name: str
    running: bool = True
    uptime: float | None = None
    """In ms."""
    mem_alarm: bool = False
    mem_used: float | None = None
    mem_limit: float | None = None
    disk_free_alarm: bool = False
    disk_free: float | None = None
    disk_free_limit: float | None = None
    partitions: list[str] = []


class RateAnswer(msgspec.Struct):
    rate: float | None = None


class RatesAnswer(msgspec.Struct):
    publish_details: RateAnswer | None = None
    deliver_get_details: RateAnswer | None = None
    ack_details: RateAnswer | None = None


class QueueAnswer(msgspec.Struct):
    name: str
    vhost: str = "/"
    state: str | None = None
    messages_ready: int = 0
    messages_unacknowledged: int = 0
    consumers: int = 0
    message_stats: RatesAnswer | None = None

    @property
    def label(self) -> str:
        """With its virtual host, unless that is the default one."""
        name = short(self.name, 80)
        return name if self.vhost == "/" else f"{name} of {short(self.vhost, 30)}"

    def rate(self, of: str) -> float | None:
        """Per second in the last interval; None where it is not counted."""
        rate_answer: RateAnswer | None = getattr(self.message_stats, f"{of}_details", None)
        return rate_answer.rate if rate_answer is not None else None


class QueuesAnswer(msgspec.Struct):
    """A page of them."""

    items: list[QueueAnswer]


class OverviewAnswer(msgspec.Struct):
    rabbitmq_version: str | None = None


class WhoamiAnswer(msgspec.Struct):
    name: str
    tags: list[str] | str = ""

    @property
    def tag_names(self) -> list[str]:
        """Older versions answer in one text."""
        tags = self.tags.split(",") if isinstance(self.tags, str) else self.tags
        return [tag.strip() for tag in tags if tag.strip()]


def node_facts(nodes: Sequence[NodeAnswer], window_s: float) -> list[Fact]:
    """Alarms, which stop all publishers of a cluster, and nodes that are away."""
    facts = []
    for node in nodes:
        name = short(node.name, 80)

        def fact(
            # `name` is bound now: a closure would see the last node of the loop.
            kind: str,
            value: str,
            field: str,
            since_s: float | None = None,
            name: str = name,
        ) -> Fact:
            return Fact(kind, value, since_s, "Broker node", name, field)

        if not node.running:
            facts.append(fact("database_unavailable", "not running", "running"))
            # A node that is away tells nothing else.
            continue
        if node.mem_alarm:
            used = _of(node.mem_used, node.mem_limit, "in use, of at most")
            facts.append(fact("publishing_blocked", f"its memory alarm is on{used}", "mem_alarm"))
        if node.disk_free_alarm:
            free = _of(node.disk_free, node.disk_free_limit, "free, of at least")
            value = f"its disk alarm is on{free}"
            facts.append(fact("publishing_blocked", value, "disk_free_alarm"))
        if node.partitions:
            text = ", ".join(short(partition, 40) for partition in node.partitions[:5])
            facts.append(fact("cluster_partitioned", f"it does not see {text}", "partitions"))
        up_s = (node.uptime or 0) / 1000
        if 0 < up_s <= window_s:
            value = f"it started {amount(up_s, SECONDS)} ago"
            facts.append(fact("database_restarted", value, "uptime", up_s))
    return facts


def _of(value: float | None, limit: float | None, words: str) -> str:
    if value is None or limit is None:
        return ""
    return f" ({amount(value, BYTES)} {words} {amount(limit, BYTES)})"


def queue_facts(queues: Sequence[QueueAnswer]) -> list[Fact]:
    """The queues with most messages first."""
    facts = []
    for queue in sorted(queues, key=lambda queue: (-queue.messages_ready, queue.label)):
        for kind, value, field in _judged(queue):
            facts.append(Fact(kind, value, None, "Queue", queue.label, field))
    return facts[:MOST_QUEUES]


def _judged(queue: QueueAnswer) -> list[tuple[str, str, str]]:
    if queue.state not in HEALTHY:
        return [("database_unavailable", short(queue.state or "", 40), "state")]
    ready, unacked = queue.messages_ready, queue.messages_unacknowledged
    if ready and not queue.consumers:
        return [("queue_without_consumers", counted(ready, "message"), "consumers")]
    value = f"{counted(ready, 'message')} ready, {unacked} not acknowledged"
    if ready >= STUCK and unacked and not queue.rate("ack") and not queue.rate("deliver_get"):
        value += f", and its {counted(queue.consumers, 'consumer')} acknowledge none"
        return [("consumers_behind", value, "messages_unacknowledged")]
    if ready < BEHIND:
        return []
    for name, words in (("publish", "in"), ("deliver_get", "out")):
        rate = queue.rate(name)
        if rate is not None:
            value += f", {amount(rate, PER_SECOND)} {words}"
    return [("consumers_behind", value, "messages_ready")]


def queue_details(queues: Sequence[QueueAnswer]) -> dict[str, str]:
    """The longest queues, for people."""
    lines = []
    for queue in sorted(queues, key=lambda queue: (-queue.messages_ready, queue.label))[:10]:
        ready, unacked = queue.messages_ready, queue.messages_unacknowledged
        consumers = counted(queue.consumers, "consumer")
        lines.append(f"{queue.label}: {ready} ready, {unacked} not acknowledged, {consumers}")
    return listed("longest queues", lines)


class RabbitmqConnector(HttpServerConnector):
    """One cluster."""

    name = "rabbitmq"
    endpoints = (
        Endpoint(
            "/api/nodes",
            list[NodeAnswer],
            lambda nodes, snapshot: node_facts(nodes, snapshot.window_s),
            params=(("columns", NODES),),
            page="/#/",
        ),
        Endpoint(
            "/api/queues",
            QueuesAnswer,
            lambda page, snapshot: queue_facts(page.items) if page.items else None,
            # The server sorts: of thousands of queues only the longest are sent.
            params=(
                ("columns", QUEUES),
                ("sort", "messages_ready"),
                ("sort_reverse", "true"),
                ("page", "1"),
                # The largest page that it gives.
                ("page_size", "500"),
            ),
            details=lambda page: queue_details(page.items),
            page="/#/queues",
            empty="this user sees no queue: let it into the virtual hosts",
        ),
    )

    async def examined(self, session: HttpSession) -> Check:
        """Whether this user may see everything and change nothing."""
        who = await session.get("/api/whoami", type=WhoamiAnswer)
        overview = await session.get("/api/overview", type=OverviewAnswer)
        tags, unread = who.tag_names, []
        version = short(overview.rabbitmq_version or "", 20)
        line = f"RabbitMQ {version} at {self.http.base_url}: queues can be read"
        # The tag `management` alone shows no nodes.
        if not {"monitoring", "administrator"} & set(tags):
            unread.append("nodes")
            line += "; nodes need the tag monitoring"
        line += "; only GET is sent"
        writing = sorted(WRITING_TAGS & set(tags))
        if writing:
            line += f"; warning: this user can also write ({', '.join(writing)})"
        return Check(self.name, True, line, tuple(unread))


def build(section: RabbitmqSettings, shared: SharedSettings) -> RabbitmqConnector | None:
    """The configured connector, or None without a URL."""
    return None if section.url is None else RabbitmqConnector(section, section.url)
