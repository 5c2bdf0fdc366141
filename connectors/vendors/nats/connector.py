"""NATS' own state: clients cut off as slow, connections, JetStream's streams and consumers.

A snapshot of now from the monitoring endpoints, by GET alone ("Monitoring", docs.nats.io). The list
of closed connections reaches back.
"""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlsplit

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Request
from faultline.connectors.shared.databases.database_server import Fact, ServerSnapshot
from faultline.connectors.shared.databases.http_snapshot import HttpSnapshot, call_text
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.nats import NatsSettings, facts

VENDOR = "nats"
LIMITS = Limits(deadline_s=20, max_bytes=16 * 1024 * 1024, requests_per_s=5, concurrency=2)
CLOSED = (("state", "closed"), ("sort", "stop"), ("limit", "1024"))
STREAMS = (("accounts", "true"), ("streams", "true"), ("consumers", "true"), ("config", "true"))


def build(nats_settings: NatsSettings, settings: SharedSettings) -> NatsConnector | None:
    """The configured connector, or None without a URL."""
    if nats_settings.url is None:
        return None
    # Unless the settings name a service, facts are about the instance or the host.
    service = nats_settings.of_service(urlsplit(nats_settings.url).hostname or "")
    return NatsConnector(
        nats_settings.url,
        access_of(nats_settings, VENDOR),
        service,
        limits=nats_settings.limits(LIMITS),
    )


class NatsConnector:
    """One server. Its facts are about `service`."""

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
        """The snapshot. A call that fails becomes a gap, the others stand."""
        server_snapshot = ServerSnapshot("Broker", self._service, datetime.now(UTC), request.scope)
        if server_snapshot.comes_too_late():
            return server_snapshot.builder.collected()
        async with self._http.open() as session:
            snapshot = HttpSnapshot(session, server_snapshot)
            varz = await snapshot.fetch("/varz", type=facts.VarzAnswer)
            if varz is not None:
                server_snapshot.add(
                    "/varz", facts.server_facts(varz, server_snapshot.at, server_snapshot.window_s)
                )
            closed = await snapshot.fetch("/connz", CLOSED, type=facts.ConnzAnswer)
            if closed is not None:
                slow_facts = facts.slow_facts(
                    closed.connections, server_snapshot.at, server_snapshot.window_s
                )
                server_snapshot.add(call_text("/connz", CLOSED), slow_facts)
            jsz = await snapshot.fetch("/jsz", STREAMS, type=facts.JszAnswer)
            # A server without JetStream is no gap.
            if jsz is not None and not jsz.disabled:
                streams = jsz.streams
                slow_facts = facts.storage_facts(jsz) + facts.stream_facts(streams)
                slow_facts += facts.consumer_facts(streams)
                server_snapshot.add(
                    call_text("/jsz", STREAMS), slow_facts, facts.stream_details(streams)
                )
            await self._health(session, server_snapshot)
        return server_snapshot.builder.collected()

    async def check(self) -> Check:
        """Reachable? Whoever reaches these endpoints can read all of them and change nothing."""
        try:
            async with self._http.open() as session:
                varz = await session.get("/varz", type=facts.VarzAnswer)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        version = short(varz.version, 20)
        line = f"NATS {version} at {self._http.base_url} can be read; only GET is sent"
        return Check(self.name, True, line)

    async def _health(self, session: HttpSession, snapshot: ServerSnapshot) -> None:
        """It answers 503 where it is not healthy."""
        health_facts = []
        try:
            await session.get("/healthz", type=facts.HealthAnswer)
        except ConnectorError as error:
            if error.status != 503:
                snapshot.lacks("/healthz", str(error))
                return
            health_facts = [
                Fact("database_unavailable", "unhealthy by its own check", field="healthz")
            ]
        except FaultlineError as error:
            snapshot.lacks("/healthz", str(error))
            return
        snapshot.add("/healthz", health_facts)
