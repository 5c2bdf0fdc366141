"""RabbitMQ's own state: alarms and partitions of its nodes, and its longest queues with their
consumers.

A snapshot of now from the management plugin, by GET alone ("RabbitMQ Management HTTP API").
"""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlsplit

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Request
from faultline.connectors.shared.databases.database_server import ServerSnapshot
from faultline.connectors.shared.databases.http_snapshot import HttpSnapshot, call_text
from faultline.connectors.shared.http.http import ReadOnlyHttp
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.rabbitmq import RabbitmqSettings, facts

VENDOR = "rabbitmq"
LIMITS = Limits(deadline_s=20, max_bytes=16 * 1024 * 1024, requests_per_s=5, concurrency=2)
MOST_QUEUES = 500
"""The largest page that it gives."""
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
# The server sorts: of thousands of queues only the longest are sent.
QUEUE_PARAMS = (
    ("columns", QUEUES),
    ("sort", "messages_ready"),
    ("sort_reverse", "true"),
    ("page", "1"),
    ("page_size", str(MOST_QUEUES)),
)
WRITING_TAGS = frozenset({"administrator", "policymaker"})


def build(
    rabbitmq_settings: RabbitmqSettings, settings: SharedSettings
) -> RabbitmqConnector | None:
    """The configured connector, or None without a URL."""
    if rabbitmq_settings.url is None:
        return None
    service = rabbitmq_settings.of_service(urlsplit(rabbitmq_settings.url).hostname or "")
    return RabbitmqConnector(
        rabbitmq_settings.url,
        access_of(rabbitmq_settings, VENDOR),
        service,
        limits=rabbitmq_settings.limits(LIMITS),
    )


class RabbitmqConnector:
    """One cluster. Its facts are about `service`."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("states",)

    def __init__(
        self,
        url: str,
        access: ServerAccess = ANYONE,
        service: str = VENDOR,
        *,
        limits: Limits = LIMITS,
    ) -> None:
        self._http = ReadOnlyHttp(VENDOR, url, access=access, limits=limits)
        self._service = service
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """The snapshot. A call that fails becomes a gap, the other stands."""
        server_snapshot = ServerSnapshot("Broker", self._service, datetime.now(UTC), request.scope)
        if server_snapshot.comes_too_late():
            return server_snapshot.builder.collected()
        link = f"{self._http.base_url}/#/"
        async with self._http.open() as session:
            snapshot = HttpSnapshot(session, server_snapshot)
            path, params = "/api/nodes", (("columns", NODES),)
            nodes = await snapshot.fetch(path, params, type=list[facts.NodeAnswer])
            if nodes is not None:
                server_snapshot.add(
                    call_text(path, params),
                    facts.node_facts(nodes, server_snapshot.window_s),
                    link=link,
                )
            path = "/api/queues"
            page = await snapshot.fetch(path, QUEUE_PARAMS, type=facts.QueuesAnswer)
            if page is not None and not page.items:
                reason = "this user sees no queue: let it into the virtual hosts"
                server_snapshot.lacks(call_text(path, QUEUE_PARAMS), reason)
            elif page is not None:
                queue_facts, lines = facts.queue_facts(page.items), facts.queue_details(page.items)
                server_snapshot.add(
                    call_text(path, QUEUE_PARAMS), queue_facts, lines, f"{link}queues"
                )
        return server_snapshot.builder.collected()

    async def check(self) -> Check:
        """Reachable, and may this user see everything and change nothing?"""
        try:
            async with self._http.open() as session:
                who = await session.get("/api/whoami", type=facts.WhoamiAnswer)
                overview = await session.get("/api/overview", type=facts.OverviewAnswer)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        tags, unread = who.tag_names, []
        version = short(overview.rabbitmq_version or "", 20)
        line = f"RabbitMQ {version} at {self._http.base_url}: queues can be read"
        # The tag `management` alone shows no nodes.
        if not {"monitoring", "administrator"} & set(tags):
            unread.append("nodes")
            line += "; nodes need the tag monitoring"
        line += "; only GET is sent"
        writing = sorted(WRITING_TAGS & set(tags))
        if writing:
            line += f"; warning: this user can also write ({', '.join(writing)})"
        return Check(self.name, True, line, tuple(unread))
