"""Who holds a token over HTTP, by the rules of the pages: an API token, the access token of the
settings, or an access token that the login's provider issued for this server (RFC 9068). Each call
is in the audit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from faultline.analysis.errors import ConnectorError
from faultline.bot.mcp.callers import Caller
from faultline.bot.mcp.over_http import Resource
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.quotas import caller_of, is_api_token
from faultline.bot.store.visitors import AuditEntry
from faultline.bot.web.access import AccessControl, visitor_for
from faultline.bot.web.oidc.attempt import role_of, teams_of
from faultline.bot.web.oidc.provider import Provider
from faultline.bot.web.same_site import same
from faultline.bot.web.sessions import Visitor

if TYPE_CHECKING:
    from faultline.bot.mcp.server import Context

DOTS_OF_A_SIGNED_TOKEN = 2
OK, FAILED = 200, 400


class HttpCallers:
    """Knows callers by the settings. `access` is that of the pages, so that roles, teams, private
    channels and the audit are the same."""

    def __init__(self, settings: Settings, access: AccessControl, resource: Resource) -> None:
        self._settings = settings
        self._access = access
        self._resource = resource
        self._provider = Provider(settings.login) if settings.login.issuer else None

    async def caller_of(self, token: str) -> Caller | None:
        """Whose token it is. Raises ConnectorError where the provider does not answer."""
        if self._access.token is not None and same(token, self._access.token):
            role = self._settings.login.token_role
            return await self._caller(
                Visitor("access token", "access token", role, False, is_token=True)
            )
        header = f"Bearer {token}"
        if is_api_token(header):
            program = await in_store(caller_of, self._access.store, header)
            if program is None:
                return None
            limits = program.limits
            return replace(
                await self._caller(visitor_for(program)),
                investigations_per_hour=limits.investigations_per_hour,
                calls_per_minute=limits.calls_per_minute,
            )
        if self._provider is None or token.count(".") != DOTS_OF_A_SIGNED_TOKEN:
            return None
        try:
            # For this server alone: a token for another one must not open it.
            person = await self._provider.bearer(token, self._resource.address)
        except ConnectorError as error:
            # The provider answered and refused it: the token is wrong.
            if error.call == "token":
                return None
            raise
        assigned_role = role_of(person.email, person.groups, self._settings.login)
        if assigned_role is None:
            return None
        teams = teams_of(person.email, person.groups, self._settings.teams)
        return await self._caller(
            Visitor(
                person.name,
                person.who,
                assigned_role,
                False,
                named=True,
                teams=teams,
                email=person.email,
            )
        )

    async def _caller(self, visitor: Visitor) -> Caller:
        who = await self._access.person(visitor)
        visibility = await self._access.visibility(visitor)
        return Caller(who, visitor.name, visitor.role, visibility)

    def refused(self, request: Request) -> int:
        """Count a wrong token."""
        return self._access.throttle.failed(self._access.address(request))

    async def record(
        self, ctx: Context, caller: Caller, tool: str, about: str | None, why: str
    ) -> None:
        """A line of the audit; what was typed is not in it."""
        request = ctx.request
        address = self._access.address(request) if isinstance(request, Request) else ""
        entry = AuditEntry(
            who=caller.who,
            name=caller.name,
            role=caller.role,
            action=f"mcp {tool}",
            investigation_id=about,
            address=address,
            status=FAILED if why else OK,
            note=why,
        )
        await self._access.record(entry, once=not why)


def no_page(_request: Request, status: int, title: str, line: str) -> Response:
    """What access control says where there are no pages."""
    return PlainTextResponse(f"{title}. {line}\n", status)
