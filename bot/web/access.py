"""Access control of the pages: who sent a request, whether the route is open to them, and a line in
the audit log.

Visitors are known by a login (OpenID Connect or the access token), or by the access token or an API
token as a Bearer header. Without any of them, only requests from this machine are served, while
neither login nor access token is set up.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import quote

from sqlalchemy.exc import SQLAlchemyError
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from faultline.bot.intake.slack_channels import SlackChannels
from faultline.bot.policy.people import TAKES, Act, Role
from faultline.bot.runtime.threads import in_store
from faultline.bot.runtime.throttle import CallRate, Throttle, client_address, is_local
from faultline.bot.settings import ServerSettings, Settings
from faultline.bot.settings.processes import names_this_machine
from faultline.bot.store.quotas import Caller, caller_of, is_api_token
from faultline.bot.store.store import Store
from faultline.bot.store.visibility import Visibility
from faultline.bot.store.visitors import AuditEntry, AuditLog
from faultline.bot.web.headers import SecurityHeaders
from faultline.bot.web.refusals import is_api, refusal, too_many_attempts
from faultline.bot.web.same_site import FOREIGN, READS, FormReader, csrf_value, is_foreign, same
from faultline.bot.web.sessions import Sessions, Visitor, let_in

ONLY_LOCAL = (
    "Without an access token or a login these pages are served to this machine alone, under "
    "http://127.0.0.1 or "
    "http://localhost, and only while server.public_url is such an address: "
    "set FAULTLINE_SERVER__ACCESS_TOKEN, or login.issuer, to open them to others."
)
NO_STORE = "The store does not answer, so nobody can be let in."
WRONG_API_TOKEN = "This API token is wrong, revoked or expired. An admin makes tokens at /tokens."  # noqa: S105
JSON = "application/json"
NOT_JSON = "Send the body as content-type: application/json."
BEARER = {"www-authenticate": "Bearer"}
MINUTE_S = 60.0
QUIET_S = 60.0
"""The same request of the same visitor within this time is one line of the audit: pages load again
while an investigation runs."""
MAX_RECENT = 4096

Problem = Callable[[Request, int, str, str], Response]
"""Request, status, title and line to a page."""


@dataclass(frozen=True)
class AuthenticatedRequest:
    """Somebody who was let in. `bearer`: by a header, which no browser sends by itself, so forms
    need no more proof."""

    visitor: Visitor
    csrf: str
    bearer: bool = False


class AccessControl:
    """Decides for every route who may come through, in one place."""

    def __init__(self, settings: Settings, store: Store, problem: Problem) -> None:
        engine = store.engine
        self.settings = settings
        self.store = store
        self.server = settings.server
        self._page_of_problem = problem
        self.sessions = Sessions(settings.server, settings.login, engine, settings.teams)
        self.audit_log = AuditLog(engine, retention=timedelta(days=settings.login.audit_days))
        self.channels = SlackChannels(settings, engine)
        self.throttle = Throttle()
        self.calls = CallRate(MINUTE_S)
        self.token = access_token(settings.server)
        self.by_provider = settings.login.issuer is not None
        self._local_csrf = secrets.token_hex(32)
        self._recent: OrderedDict[tuple[object, ...], float] = OrderedDict()

    def open_to(self, act: Act, recorded_as: str | None = None) -> list[Middleware]:
        """A route for those whose role is enough for the act; `recorded_as` is what the audit calls
        a visit of it."""
        return [
            *self.open_to_all(),
            Middleware(RequireRole, access=self, role=TAKES[act], recorded_as=recorded_as),
        ]

    def open_to_all(self) -> list[Middleware]:
        """A route for everybody: probes, static files, the login."""
        return [Middleware(SecurityHeaders, https=self.server.public_url.startswith("https://"))]

    def open_to_anonymous(self) -> list[Middleware]:
        """A route of the login itself: forms must be ours, though nobody is known yet."""
        return [*self.open_to_all(), Middleware(AnonymousRoutes, access=self)]

    def address(self, request: Request) -> str:
        """Where the visitor is."""
        return client_address(request, self.server.trusted_proxies)

    async def authenticate(self, request: Request) -> AuthenticatedRequest | Response:
        """Who sent the request, or the answer to somebody who cannot be let in."""
        header = request.headers.get("authorization", "")
        # The prefix tells a program's token from the access token.
        if is_api_token(header):
            return await self._by_api_token(request, header)
        scheme, _, credential = header.partition(" ")
        if self.token is not None and scheme.lower() == "bearer":
            return self._by_token(request, credential.strip(), self.token)
        if self.token is None and not self.by_provider:
            if names_this_machine(self.server.public_url) and is_local(request):
                return AuthenticatedRequest(
                    Visitor("this machine", "this machine", "admin", False, is_local=True),
                    self._local_csrf,
                )
            return refusal(request, 403, ONLY_LOCAL)
        session = await in_store(self.sessions.find, request)
        if session is not None:
            return AuthenticatedRequest(session.visitor, csrf_value(session.secret))
        return self._ask_to_sign_in(request)

    def too_fast_s(self, caller: Caller) -> int:
        """Count a call of a token; seconds until the next one may be answered, 0 for now."""
        return self.calls.wait_s(caller.who, caller.limits.calls_per_minute)

    def problem(self, request: Request, status: int, title: str, line: str) -> Response:
        """A page that says why there is no other, or the line as JSON."""
        if is_api(request):
            return refusal(request, status, line)
        return self._page_of_problem(request, status, title, line)

    async def visibility(self, visitor: Visitor) -> Visibility:
        """Whose investigations a visitor may see: of their teams, and of the Slack channels that
        they read. An admin's role opens no private channel; this machine's own visitor could read
        the database."""
        apart = self.settings.login.isolation == "teams" and not visitor.may("admin")
        all_channels = visitor.is_local or (
            visitor.is_token and self.settings.people.token_sees_private
        )
        channels = None if all_channels else await self.channels.read_by_address(visitor.email)
        return Visibility(visitor.teams if apart else None, channels)

    async def person(self, visitor: Visitor) -> str:
        """By what name a visitor's acts are counted: that of their Slack account, where the address
        that the provider vouches for has one, so that one person has one rate."""
        return await self.channels.account_of(visitor.email) or visitor.who

    async def record(self, entry: AuditEntry, *, once: bool = False) -> None:
        """Write a line of the audit; with `once`, not again for the same within a minute."""
        what = (
            entry.who,
            entry.action,
            entry.investigation_id,
            entry.address,
            entry.status,
            entry.note,
        )
        if once and self._was_recent(what):
            return
        await in_store(self.audit_log.write, entry)

    def _by_token(
        self, request: Request, credential: str, token: str
    ) -> AuthenticatedRequest | Response:
        if not same(credential, token):
            # Only wrong tokens count: the right one is let in even at the limit.
            if wait := self.throttle.failed(self.address(request)):
                return too_many_attempts(request, wait)
            return refusal(request, 401, "The access token is wrong.", BEARER)
        role = self.settings.login.token_role
        return AuthenticatedRequest(
            Visitor("access token", "access token", role, False, is_token=True), "", bearer=True
        )

    async def _by_api_token(self, request: Request, header: str) -> AuthenticatedRequest | Response:
        caller = await in_store(caller_of, self.store, header)
        if caller is None:
            if wait := self.throttle.failed(self.address(request)):
                return too_many_attempts(request, wait)
            return refusal(request, 401, WRONG_API_TOKEN, BEARER)
        if wait := self.too_fast_s(caller):
            phrase = f"This token's limit of {caller.limits.calls_per_minute} calls a minute is "
            phrase += f"reached. Ask again in {wait} s."
            return refusal(request, 429, phrase, {"retry-after": str(wait)})
        return AuthenticatedRequest(visitor_for(caller), "", bearer=True)

    def _ask_to_sign_in(self, request: Request) -> Response:
        if is_api(request):
            sentence = (
                "Send a token: Authorization: Bearer faultline_... An admin makes one at /tokens."
            )
            return refusal(request, 401, sentence, BEARER)
        # A script gets a 401, and only a browser the login page.
        if "text/html" not in request.headers.get("accept", ""):
            sentence = "The access token is missing." if self.token else "Sign in first."
            return refusal(request, 401, sentence, BEARER)
        # A login leads back by GET, so the address of a form is not kept.
        if request.method not in READS:
            return RedirectResponse("/login", 303)
        target = request.url.path
        if request.url.query:
            target += f"?{request.url.query}"
        return RedirectResponse(f"/login?next={quote(target, safe='')}", 303)

    def _was_recent(self, what: tuple[object, ...]) -> bool:
        now = time.monotonic()
        if now - self._recent.get(what, -QUIET_S) < QUIET_S:
            return True
        self._recent[what] = now
        self._recent.move_to_end(what)
        if len(self._recent) > MAX_RECENT:
            self._recent.popitem(last=False)
        return False


class RequireRole:
    """Lets a request through to one route, or answers it with a login, a 401 or a 403."""

    def __init__(
        self, app: ASGIApp, access: AccessControl, role: Role, recorded_as: str | None
    ) -> None:
        self.app = app
        self.access = access
        self.role = role
        self.recorded_as = recorded_as

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except SQLAlchemyError:
            answer = refusal(request, 503, NO_STORE)
        if isinstance(answer, Response):
            await answer(scope, receive, send)
            return
        await self.app(scope, answer, self._recording(request, send))

    async def _answer(self, request: Request) -> Response | Receive:
        """Where the handler reads its body from, or the answer that stands in its place."""
        if is_foreign(request, self.access.server.public_url):
            return refusal(request, 403, FOREIGN)
        authenticated = await self.access.authenticate(request)
        if isinstance(authenticated, Response):
            return authenticated
        let_in(
            request,
            authenticated.visitor,
            authenticated.csrf,
            await self.access.visibility(authenticated.visitor),
        )
        if not authenticated.visitor.may(self.role):
            line = f"This takes the role {self.role}; yours is {authenticated.visitor.role}."
            await self.access.record(
                self._entry(request, "refused", 403, self.recorded_as or ""), once=True
            )
            return self.access.problem(request, 403, "Not for you", line)
        # Reading changes nothing, so it needs no proof that our own page asked.
        if request.method in READS:
            return request.receive
        if is_api(request):
            # A page of another site cannot send this type without asking us first, and we say no:
            # so a login's cookie, or the way from this machine, needs no form's value here.
            is_json = request.headers.get("content-type", "").partition(";")[0].strip().lower()
            return request.receive if is_json == JSON else refusal(request, 415, NOT_JSON)
        # No browser sends such a header by itself.
        if authenticated.bearer:
            return request.receive
        form = FormReader(request.scope, request.receive)
        if (problem := await form.problem(authenticated.csrf)) is not None:
            return self.access.problem(request, problem[0], "Not done", problem[1])
        return form.receive

    def _recording(self, request: Request, send: Send) -> Send:
        """Sends the answer after its line is in the audit: nothing leaves that was not written
        down."""

        async def recorded(message: Message) -> None:
            if message["type"] == "http.response.start" and self.recorded_as is not None:
                entry = self._entry(request, self.recorded_as, message["status"])
                await self.access.record(entry, once=request.method in READS)
            await send(message)

        return recorded

    def _entry(self, request: Request, action: str, status: int, note: str = "") -> AuditEntry:
        visitor = request.scope["faultline.visitor"]
        return AuditEntry(
            who=visitor.who,
            name=visitor.name,
            role=visitor.role,
            action=action,
            investigation_id=request.scope.get("faultline.investigation")
            or request.path_params.get("id"),
            address=self.access.address(request),
            status=status,
            note=note or request.scope.get("faultline.note", ""),
        )


class AnonymousRoutes:
    """Lets everybody through to the login, whose forms are bound to a separate cookie until there
    is a session."""

    def __init__(self, app: ASGIApp, access: AccessControl) -> None:
        self.app = app
        self.access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        if is_foreign(request, self.access.server.public_url):
            await refusal(request, 403, FOREIGN)(scope, receive, send)
            return
        secret = request.cookies.get(self.access.sessions.cookies.form, "")
        csrf = csrf_value(secret) if secret else ""
        let_in(request, None, csrf)
        if request.method in READS:
            await self.app(scope, receive, send)
            return
        form = FormReader(scope, receive)
        problem = await form.problem(csrf)
        if problem is not None:
            status, line = problem
            page = self.access.problem(request, status, "Not done", line)
            await page(scope, receive, send)
            return
        await self.app(scope, form.receive, send)


def visitor_for(caller: Caller) -> Visitor:
    """A program as the pages know visitors."""
    return Visitor(
        caller.name,
        caller.who,
        caller.role,
        signed_in=False,
        named=True,
        teams=frozenset({caller.team} if caller.team else ()),
        is_token=True,
        investigations_per_hour=caller.limits.investigations_per_hour,
    )


def access_token(server: ServerSettings) -> str | None:
    """The token that opens the pages, if one is set."""
    if server.access_token is None:
        return None
    # An empty variable of the environment is no token.
    return server.access_token.get_secret_value() or None


def local_target(target: str) -> str:
    """Where a login leads: a path of this site, whatever was asked for."""
    # Browsers read `//host` as another site, and take a backslash for a slash.
    if not target.startswith("/") or target.startswith("//") or "\\" in target:
        return "/"
    # A line end in the address could end the header of the redirect.
    return target if target.isprintable() else "/"
