"""Signing in and out, with the provider's account or the access token, and the list of one's
logins."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from faultline.analysis.errors import ConnectorError
from faultline.bot.runtime.threads import in_store
from faultline.bot.runtime.throttle import Throttle
from faultline.bot.store.visitors import AuditEntry, ProviderIdentity, new_secret
from faultline.bot.web.access import AccessControl, local_target
from faultline.bot.web.oidc.attempt import LASTS_S, MAX_ATTEMPTS, Attempt, new_attempt, read_attempt
from faultline.bot.web.oidc.provider_http import plain_code
from faultline.bot.web.refusals import too_many_attempts
from faultline.bot.web.rendering import Site
from faultline.bot.web.same_site import csrf_value, same
from faultline.bot.web.sessions import FORM_COOKIE_S, TOKEN_ISSUER, let_in

if TYPE_CHECKING:
    from faultline.bot.web.oidc.provider import Provider

CALLBACK = "/login/callback"
MAX_LOGOUT_BODY = 65_536
NOT_BEGUN = (
    "This login was not begun in this browser, took longer than ten minutes, or was used "
    "already. Sign in once more."
)
NO_ROLE = (
    "The account is known, but it has no role here: an admin gives one with login.viewers, "
    "responders, admins or "
    "default_role, and login.allowed_domains must hold its verified e-mail address."
)
WRONG_TOKEN = "That is not the access token."  # noqa: S105


def login_routes(access: AccessControl, site: Site) -> list[BaseRoute]:
    """The routes of signing in and out."""
    login = LoginPages(access, site)
    anonymous = access.open_to_anonymous()
    routes: list[BaseRoute] = [
        Route("/login", login.show, methods=["GET"], middleware=anonymous),
        Route("/login", login.with_token, methods=["POST"], middleware=anonymous),
        Route(
            "/logout",
            login.sign_out,
            methods=["POST"],
            middleware=access.open_to("read", "signed out"),
        ),
        Route(
            "/logout/everywhere",
            login.sign_out_everywhere,
            methods=["POST"],
            middleware=access.open_to("read"),
        ),
        Route("/account", login.account, methods=["GET"], middleware=access.open_to("read")),
    ]
    if access.by_provider:
        routes += [
            Route("/login/start", login.start, methods=["GET"], middleware=anonymous),
            Route(CALLBACK, login.callback, methods=["GET"], middleware=anonymous),
            Route("/login/ended", login.ended, methods=["POST"], middleware=access.open_to_all()),
        ]
    return routes


class LoginPages:
    """The handlers."""

    def __init__(self, access: AccessControl, site: Site) -> None:
        self.access = access
        self.site = site
        self.sessions = access.sessions
        self.provider = _provider_of(access)
        self.redirect_uri = access.server.public_url + CALLBACK
        self.sign_ins = Throttle()

    async def show(self, request: Request) -> Response:
        """The ways to sign in."""
        # Foreign input, which must not lead to another site.
        target = local_target(request.query_params.get("next", "/"))
        if self.access.token is None and self.provider is None:
            return RedirectResponse("/", 303)
        if await in_store(self.sessions.find, request) is not None:
            return RedirectResponse(target, 303)
        return self._page(request, target)

    async def with_token(self, request: Request) -> Response:
        """Somebody typed the access token."""
        target = local_target(request.query_params.get("next", "/"))
        if self.access.token is None:
            return RedirectResponse("/login", 303)
        token = (await request.form(max_files=0, max_fields=8)).get("token")
        if not isinstance(token, str) or not same(token.strip(), self.access.token):
            if wait := self.access.throttle.failed(self.access.address(request)):
                return too_many_attempts(request, wait)
            await self._record(request, None, "sign-in refused", 401, "wrong access token")
            return self._page(request, target, status=401, trouble=WRONG_TOKEN)
        return await self._let_in(
            request, ProviderIdentity(TOKEN_ISSUER, "", "access token", "access token"), target
        )

    async def start(self, request: Request) -> Response:
        """Off to the provider."""
        assert self.provider is not None
        target = local_target(request.query_params.get("next", "/"))
        attempt = new_attempt(target, time.time())
        try:
            response = RedirectResponse(
                await self.provider.authorization_url(attempt, self.redirect_uri), 303
            )
        except ConnectorError as error:
            return self._page(
                request, target, status=502, trouble=f"Nobody can sign in that way now: {error}."
            )
        cookies = self.sessions.cookies
        # The oldest make room, so that MAX_ATTEMPTS remain with the new one.
        for name in self._attempts(request)[: -(MAX_ATTEMPTS - 1)]:
            cookies.clear(response, name)
        cookies.set(response, cookies.attempt + attempt.id, attempt.cookie, LASTS_S)
        return response

    async def callback(self, request: Request) -> Response:
        """Back from the provider."""
        address = self.access.address(request)
        attempt = self._attempt(request)
        if attempt is None:
            if wait := self.access.throttle.failed(address):
                return too_many_attempts(request, wait)
            return await self._refused(request, None, "/", 400, NOT_BEGUN)
        # Only here is the provider asked, so only its refusals count: wrong tokens of others at
        # the same address must not keep out people that the provider sends.
        if wait := self.sign_ins.wait_s(address):
            return too_many_attempts(request, wait)
        try:
            person = await self._person(request, attempt)
        except ConnectorError as error:
            # A provider that may answer later has refused nobody.
            status = 502 if error.retryable else 401
            response = await self._refused(
                request, None, attempt.target, status, f"Not signed in: {error}."
            )
        else:
            if self.sessions.role(person) is None:
                response = await self._refused(request, person, attempt.target, 403, NO_ROLE)
            else:
                response = await self._let_in(request, person, attempt.target)
        # An attempt is used up, whatever its outcome.
        self.sessions.cookies.clear(response, self.sessions.cookies.attempt + attempt.id)
        return response

    async def ended(self, request: Request) -> Response:
        """The provider's word that somebody signed out there (Back-Channel Logout 1.0, section
        2.5)."""
        assert self.provider is not None
        address = self.access.address(request)
        if wait := self.sign_ins.wait_s(address):
            return too_many_attempts(request, wait)
        form = await request.form(max_files=0, max_fields=4, max_part_size=MAX_LOGOUT_BODY)
        logout_token = form.get("logout_token")
        try:
            issuer, what = await self.provider.ended(
                logout_token if isinstance(logout_token, str) else ""
            )
        except ConnectorError as error:
            self.sign_ins.failed(address)
            return PlainTextResponse(f"{error}\n", 502 if error.retryable else 400)
        await in_store(
            self.sessions.logins.end_at_provider, issuer, what.subject, what.provider_session
        )
        return PlainTextResponse("ended\n")

    async def sign_out(self, request: Request) -> Response:
        """End the login in this browser."""
        response = RedirectResponse("/login" if self.access.token or self.provider else "/", 303)
        await in_store(self.sessions.end, request, response)
        return response

    async def sign_out_everywhere(self, request: Request) -> Response:
        """End every login of this visitor."""
        session = await in_store(self.sessions.find, request)
        response = RedirectResponse("/login", 303)
        if session is not None:
            await in_store(self.sessions.logins.end_all, session.login.visitor_id)
            await self._record(request, session.login.person, "signed out everywhere", 303)
        self.sessions.cookies.clear(response, self.sessions.cookies.session)
        return response

    async def account(self, request: Request) -> Response:
        """The visitor's name and role, and their logins."""
        session = await in_store(self.sessions.find, request)
        logins = (
            await in_store(self.sessions.logins.of_visitor, session.login.visitor_id)
            if session
            else []
        )
        return self.site.page(
            request,
            "account.html",
            logins=logins,
            here=session.login.key if session else "",
            session=session,
        )

    async def _person(self, request: Request, attempt: Attempt) -> ProviderIdentity:
        assert self.provider is not None
        await self.provider.check_sender(_single_parameter(request, "iss"))
        error, code = _single_parameter(request, "error"), _single_parameter(request, "code")
        if error is not None or code is None:
            raise ConnectorError(
                "login provider", "answer", plain_code(error) if error else "holds no code"
            )
        return await self.provider.person(code, attempt, self.redirect_uri)

    async def _let_in(self, request: Request, person: ProviderIdentity, target: str) -> Response:
        response = RedirectResponse(target, 303)
        address = self.access.address(request)
        # The line in the audit comes first: nobody gets in without one.
        await self._record(request, person, "signed in", 303)
        await in_store(self.sessions.begin, request, response, person, address)
        return response

    async def _refused(
        self, request: Request, person: ProviderIdentity | None, target: str, status: int, why: str
    ) -> Response:
        # A failure of the provider (502) is nobody's guess.
        if status in (401, 403):
            self.sign_ins.failed(self.access.address(request))
        await self._record(request, person, "sign-in refused", status, why)
        return self._page(request, target, status=status, trouble=why)

    async def _record(
        self,
        request: Request,
        person: ProviderIdentity | None,
        action: str,
        status: int,
        note: str = "",
    ) -> None:
        role = (self.sessions.role(person) if person else None) or ""
        who, name = (person.who, person.name) if person else ("", "")
        address = self.access.address(request)
        await self.access.record(
            AuditEntry(who, name, role, action, None, address, status, note), once=status >= 400
        )

    def _page(
        self, request: Request, target: str, *, status: int = 200, trouble: str = ""
    ) -> Response:
        cookies = self.sessions.cookies
        secret = request.cookies.get(cookies.form) or new_secret()
        let_in(request, None, csrf_value(secret))
        response = self.site.page(
            request,
            "login.html",
            status=status,
            target=target,
            trouble=trouble,
            provider=self.access.settings.login.provider_name if self.provider else None,
            by_token=self.access.token is not None,
        )
        cookies.set(response, cookies.form, secret, FORM_COOKIE_S)
        return response

    def _attempt(self, request: Request) -> Attempt | None:
        """The attempt that this is the answer to, if it was begun in this browser."""
        state = _single_parameter(request, "state") or ""
        # `state` begins with the attempt's public name, which leads to its cookie.
        name = self.sessions.cookies.attempt + state.partition(".")[0]
        attempt = read_attempt(state.partition(".")[0], request.cookies.get(name, ""), time.time())
        if attempt is None or not attempt.fits(state):
            # The browser kept the target, so check it again.
            return None
        return replace(attempt, target=local_target(attempt.target))

    def _attempts(self, request: Request) -> list[str]:
        """The cookies of attempts, the oldest first."""
        cookies = [
            (n, v)
            for n, v in request.cookies.items()
            if n.startswith(self.sessions.cookies.attempt)
        ]
        # A cookie is `secret.began.target`, so this orders by the beginning.
        return [name for name, value in sorted(cookies, key=lambda item: item[1].split(".")[1:2])]


def _provider_of(access: AccessControl) -> Provider | None:
    """The provider with whose accounts one signs in; None where the settings name none."""
    if not access.by_provider:
        return None
    # Late: what checks its signatures is loaded only where there is one.
    from faultline.bot.web.oidc.provider import Provider

    return Provider(access.settings.login)


def _single_parameter(request: Request, name: str) -> str | None:
    """A parameter that the answer holds once. The protocol allows no parameter twice (RFC 6749
    section 3.1)."""
    getlist = request.query_params.getlist(name)
    return getlist[0] if len(getlist) == 1 else None
