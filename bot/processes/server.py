"""`faultline serve`: webhooks and pages in one process that never investigates, a worker process
beside it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Mount

from faultline.analysis.errors import SettingsError
from faultline.bot.intake.accepting import IntakeLimits, store_accept, store_first_time
from faultline.bot.intake.alert_sources import alert_sources, labels_by_path
from faultline.bot.intake.moving import IntakeHealth, SpoolMover
from faultline.bot.intake.questions.message_router import MessageRouter
from faultline.bot.intake.reported_changes import reported_change_routes, store_keep
from faultline.bot.intake.routes import intake_routes
from faultline.bot.intake.spool import Spool
from faultline.bot.intake.spooling import SpoolingAccept
from faultline.bot.intake.watchdog import Watchdog
from faultline.bot.operating.credentials import Credentials, checks_beside
from faultline.bot.operating.telemetry.intake_figures import IntakeFigures
from faultline.bot.operating.telemetry.observing import Telemetry, observe_web
from faultline.bot.operating.telemetry.readiness import DrainingServer, Readiness
from faultline.bot.processes.first_contact import FirstContact
from faultline.bot.processes.greeting import greet
from faultline.bot.processes.http_limits import (
    BACKLOG,
    ConnectionLimits,
    connections_within,
    limited_connections,
    raise_descriptor_limit,
)
from faultline.bot.processes.mcp_mount import LazyMcp
from faultline.bot.runtime.components import STOP_DEADLINE_S, Component, Components
from faultline.bot.runtime.instrumentation import ArrivalWatch
from faultline.bot.runtime.threads import in_thread
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.changes import ReportedChanges
from faultline.bot.store.connections import Checkpoints
from faultline.bot.store.conversations import Conversations
from faultline.bot.store.databases import another_store, engine_url, open_cases, spool_directory
from faultline.bot.store.store import Store
from faultline.bot.web.headers import SecurityHeaders
from faultline.bot.web.lazy_pages import LazyPages
from faultline.bot.web.probes import probe_routes

if TYPE_CHECKING:
    from slack_bolt.async_app import AsyncApp

    from faultline.bot.conversation.slack.listeners import SlackFace
    from faultline.bot.intake.slack_events import Register
    from faultline.bot.intake.slack_socket import SlackSocket
    from faultline.bot.web.rendering import CasePath
    from faultline.connectors.shared.contract.base import Check


def build_app(
    settings: Settings,
    store: Store,
    cases: CaseStore,
    more: Sequence[Component] = (),
    contact: FirstContact | None = None,
    *,
    holds_vendor_keys: bool = True,
) -> Starlette:
    """The web application. It runs `more` components, such as a supervised worker, beside its
    own. Without the vendors' keys it does not check them. `contact` makes the tables once the
    database answers.

    Raises SettingsError for an alert source of another package that cannot be used.
    """
    health = intake_health(settings)
    make_tables = contact.make if contact is not None else None
    watchdog = Watchdog(settings)
    mover = SpoolMover(health, partial(another_store, store), make_tables, watchdog)
    accept = SpoolingAccept(store_accept(store, health.written), health.spool)
    case_path = local_cases(cases)
    sources = alert_sources()
    listeners = _slack_listeners(settings, store, case_path)
    message_router = MessageRouter(settings, Conversations(store.engine))
    readiness = Readiness(store, health, watchdog)
    credentials = Credentials(partial(checks_beside, settings))

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        beside: list[Component] = [mover, Checkpoints(store.engine), *more]
        if holds_vendor_keys:
            beside.insert(2, credentials)
        if settings.heartbeat.ping_url is not None:
            from faultline.bot.operating.telemetry.ping import Ping

            url = settings.heartbeat.ping_url.get_secret_value()
            beside.append(Ping(url, lambda: health.not_storing() or watchdog.missing()))
        for workspace_settings in settings.per_instance("slack"):
            if workspace_settings.slack.app_token is not None:
                from faultline.bot.intake.slack_socket import start_socket_mode

                connect = partial(
                    start_socket_mode,
                    workspace_settings,
                    accept,
                    more=listeners,
                    message_router=message_router,
                )
                workspace = workspace_settings.slack.instance.name
                beside.append(SocketMode(connect, asyncio.get_running_loop(), workspace))
        components = Components(beside)
        # In a thread: a component may need the event loop to start and to stop.
        await in_thread(components.start)
        try:
            yield
        finally:
            await agents.close()
            await in_thread(components.stop)

    agents = LazyMcp(settings, store, case_path, accept, asks_sources=holds_vendor_keys)
    keep = store_keep(ReportedChanges(store.engine))
    intake = intake_routes(
        settings,
        accept,
        sources=sources,
        slack_listeners=listeners,
        message_router=message_router,
        first_time=store_first_time(store),
        watchdog=watchdog,
        keep=keep,
        store=store,
    )

    def pages() -> Sequence[BaseRoute]:
        from faultline.bot.api.routes import api_routes
        from faultline.bot.conversation.on_page import PageAnswers
        from faultline.bot.web.pages import page_routes

        return page_routes(
            settings,
            store,
            case_path,
            readiness,
            credentials,
            sources,
            PageAnswers(settings),
            accept,
            doors=[partial(api_routes, accept=accept)],
        )

    https = settings.server.public_url.startswith("https://")
    probes = probe_routes(readiness, [Middleware(SecurityHeaders, https=https)])
    limits = IntakeLimits(max_body_bytes=settings.server.max_body_bytes)
    intake += reported_change_routes(settings, keep, limits)
    labels = labels_by_path(sources, settings)
    watch = Middleware(ArrivalWatch, labels=labels)
    app = Starlette(
        routes=[*intake, *probes, *agents.routes, Mount("", LazyPages(pages))],
        lifespan=lifespan,
        middleware=[watch],
    )
    app.state.readiness = readiness
    app.state.intake = IntakeFigures(health, mover, watchdog)
    app.state.request_labels = tuple(labels.values())
    return app


def intake_health(settings: Settings) -> IntakeHealth:
    """Of a process with these settings, with the spool that they name."""
    spool_settings = settings.spool
    spool = Spool(spool_directory(settings), spool_settings.max_alerts, spool_settings.max_bytes)
    return IntakeHealth(spool, survives_restart=spool_settings.survives_restart)


class SocketMode:
    """The connection to Slack, which lives on the server's event loop."""

    stop_deadline_s = STOP_DEADLINE_S

    def __init__(
        self,
        connect: Callable[[], Coroutine[None, None, SlackSocket]],
        event_loop: asyncio.AbstractEventLoop,
        workspace: str = "",
    ) -> None:
        self.name = f"slack socket mode {workspace}".strip()
        self._connect = connect
        self._event_loop = event_loop
        self._socket: SlackSocket | None = None

    def start(self) -> None:
        """Begin to connect. Raises SettingsError without the tokens that it takes."""
        connecting = asyncio.run_coroutine_threadsafe(self._connect(), self._event_loop)
        self._socket = connecting.result()

    def stop(self) -> None:
        """Disconnect."""
        if self._socket is not None:
            closing = asyncio.run_coroutine_threadsafe(self._socket.close_async(), self._event_loop)
            closing.result()


def _slack_listeners(settings: Settings, store: Store, case_path: CasePath) -> list[Register]:
    """What is heard from Slack beside messages, where there is a token to answer with."""
    if not any(workspace.slack.bot_token for workspace in settings.per_instance("slack")):
        return []
    # One for each workspace, whichever way its events come.
    faces: dict[str, SlackFace] = {}

    def register(app: AsyncApp, workspace: Settings) -> None:
        # Import late, because it needs the analysis.
        from faultline.bot.conversation.slack.listeners import SlackFace

        name = workspace.slack.instance.name
        if name not in faces:
            faces[name] = SlackFace(workspace, store, case_path, _all_checks)
        faces[name].register(app)

    return [register]


async def _all_checks(settings: Settings) -> Sequence[Check]:
    # Only whoever opens the Home tab pays for loading every connector.
    from faultline.bot.processes.check import all_checks

    return await all_checks(settings)


def serve_web(
    settings: Settings, beside: Sequence[Component] = (), config: Path | None = None
) -> None:
    """Answer until told to stop, with these components beside. Raises SettingsError for an address
    that cannot be listened on, and the like. `config` is the file that the settings are from."""
    # A worker beside it makes the engine's tables, because the engine is loaded there and not here.
    contact = FirstContact(settings, _nothing if beside else partial(_make_engine, settings))
    store = contact.store
    cases = open_cases(settings)
    app = build_app(settings, store, cases, beside, contact, holds_vendor_keys=bool(beside))
    how = uvicorn.Config(
        app,
        access_log=False,
        log_config=None,  # one log for all: faultline.bot.runtime.logs
        server_header=False,
        # Server.trusted_proxies decides whom to believe, not a default of the server's.
        proxy_headers=False,
        timeout_graceful_shutdown=5,
        http=limited_connections(_connection_limits(settings)),
        backlog=BACKLOG,
        ws="none",
    )
    readiness: Readiness = app.state.readiness
    server = DrainingServer(how, drain_s=settings.server.drain_s, stopping=readiness.stop)
    sockets = listen(settings.server.host, settings.server.port)
    # Outside the application's own components: an address that is taken must end the start.
    labels, intake = app.state.request_labels, app.state.intake
    observe = partial(observe_web, settings, store, cases, labels, [intake])
    outside = Components([Telemetry("server", observe)])
    outside.start()
    try:
        # Whoever reads the greeting may press Ctrl+C before the server listens for it.
        with contextlib.suppress(KeyboardInterrupt):
            where = addresses_of(sockets)
            greet(settings, where, alert_sources(), worker=bool(beside), config=config)
            server.run(sockets=sockets)
    finally:
        outside.stop()


def _nothing() -> None:
    return None


def _make_engine(settings: Settings) -> None:
    from faultline.bot.queue.engine_database import migrate_engine

    migrate_engine(engine_url(settings))


def _connection_limits(settings: Settings) -> ConnectionLimits:
    return ConnectionLimits(
        per_address=settings.server.connections_per_address,
        total=connections_within(raise_descriptor_limit()),
        proxies=settings.server.trusted_proxies,
    )


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets bound to every address of the host. Raises SettingsError when there is none, or one
    is taken."""
    try:
        getaddrinfo = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except OSError as error:
        raise SettingsError("server.host", f"{host!r} is no address ({error.strerror})") from error
    return [_bound(family, address) for family, _, _, _, address in dict.fromkeys(getaddrinfo)]


def addresses_of(sockets: Sequence[socket.socket]) -> list[str]:
    """Where they listen, as a browser takes it."""
    addresses = []
    for listener in sockets:
        host, port = listener.getsockname()[:2]
        addresses.append(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")
    return addresses


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        problem = f"cannot listen on {address[0]} port {address[1]} ({error.strerror})"
        raise SettingsError(
            "server.port" if error.errno == errno.EADDRINUSE else "server.host", problem
        ) from error
    return bound


def local_cases(
    cases: CaseStore, cache: Path | None = None
) -> Callable[[str], Awaitable[Path | None]]:
    """Case folders for the pages. A case in S3 is copied below `cache`, and each view fetches what
    is new."""
    cache = cache or Path(tempfile.mkdtemp(prefix="faultline-pages-"))
    versions_by_case: defaultdict[str, dict[str, str]] = defaultdict(dict)
    copying: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def case_path(investigation_id: str) -> Path | None:
        if not cases.location.startswith("s3://"):
            return cases.folder(investigation_id)
        copy = cache / investigation_id
        async with copying[investigation_id]:
            await in_thread(
                cases.refresh, investigation_id, copy, versions_by_case[investigation_id]
            )
        return copy if copy.is_dir() else None

    return case_path
