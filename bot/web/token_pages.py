"""Tokens for programs, for admins: who has one, a form to make one, a button to revoke it."""

from __future__ import annotations

from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from faultline.analysis.errors import BudgetExceeded
from faultline.bot.policy.people import ROLES
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.quotas import (
    MAX_DAYS,
    MAX_NAME,
    TokenLimits,
    make_token,
    revoke_token,
    tokens,
)
from faultline.bot.web.access import AccessControl
from faultline.bot.web.rendering import Site
from faultline.bot.web.sessions import note_for_audit, visitor_of

DEFAULTS = {
    "name": "",
    "role": "responder",
    "team": "",
    "days": "90",
    "investigations_per_hour": str(TokenLimits.investigations_per_hour),
    "calls_per_minute": str(TokenLimits.calls_per_minute),
}
MOST = {"days": MAX_DAYS, "investigations_per_hour": 1_000, "calls_per_minute": 10_000}
"""The largest number of each field; the smallest is 1."""
LONGEST = 2_000


def token_routes(access: AccessControl, site: Site) -> list[BaseRoute]:
    """The routes of admins."""
    pages = TokenPages(site)
    return [
        Route("/tokens", pages.show, methods=["GET"], middleware=access.open_to("administer")),
        Route(
            "/tokens",
            pages.make,
            methods=["POST"],
            middleware=access.open_to("administer", "made a token"),
        ),
        Route(
            "/tokens/{token_id}/revoke",
            pages.revoke,
            methods=["POST"],
            middleware=access.open_to("administer", "revoked a token"),
        ),
    ]


class TokenPages:
    """The handlers."""

    def __init__(self, site: Site) -> None:
        self.site = site

    async def show(self, request: Request) -> Response:
        """All tokens, and the form."""
        return await self._page(request)

    async def make(self, request: Request) -> Response:
        """Make one, and show it this once."""
        visitor = visitor_of(request)
        assert visitor is not None, "nobody gets here without having been let in"
        if visitor.is_program:
            # A token that leaked must not outlive its revocation.
            sentence = "A token cannot make tokens. Sign in as an admin."
            return self.site.problem(request, 403, "Not made", sentence)
        form = await request.form(max_files=0, max_fields=10, max_part_size=LONGEST)
        fields = {}
        for name in DEFAULTS:
            value = form.get(name)
            fields[name] = " ".join(value.split()) if isinstance(value, str) else ""
        if trouble := _trouble(fields, self.site.settings):
            return await self._page(request, 400, fields=fields, trouble=trouble)
        role = next(role for role in ROLES if role == fields["role"])
        limits = TokenLimits(
            int(fields["investigations_per_hour"]), int(fields["calls_per_minute"])
        )
        try:
            token, caller = await in_store(
                make_token,
                self.site.store,
                fields["name"],
                role,
                days=int(fields["days"]),
                made_by=visitor.who,
                team=fields["team"],
                limits=limits,
            )
        except BudgetExceeded as error:
            return await self._page(request, 409, fields=fields, trouble=f"{error}.")
        note_for_audit(request, f"{caller.who} ({caller.role}): {caller.name}")
        # No redirect: the token is in this answer and nowhere else.
        return await self._page(request, made=token)

    async def revoke(self, request: Request) -> Response:
        """End one."""
        caller = await in_store(revoke_token, self.site.store, request.path_params["token_id"])
        if caller is None:
            sentence = "It is revoked already, or never was."
            return self.site.problem(request, 404, "No such token", sentence)
        note_for_audit(request, f"{caller.who}: {caller.name}")
        return RedirectResponse("/tokens", 303)

    async def _page(
        self,
        request: Request,
        status: int = 200,
        *,
        fields: dict[str, str] | None = None,
        trouble: str = "",
        made: str = "",
    ) -> Response:
        return self.site.page(
            request,
            "tokens.html",
            status=status,
            tokens=await in_store(tokens, self.site.store),
            now=datetime.now(UTC),
            given=fields or DEFAULTS,
            trouble=trouble,
            made=made,
            roles=ROLES,
            teams=sorted(self.site.settings.teams),
            longest=MAX_NAME,
            most=MOST,
        )


def _trouble(fields: dict[str, str], settings: Settings) -> str:
    """What is wrong with the form, in one line."""
    if not 1 <= len(fields["name"]) <= MAX_NAME:
        return f"Say what the token is for, in at most {MAX_NAME} characters."
    if fields["role"] not in ROLES:
        return "Choose a role."
    if fields["team"] and fields["team"] not in settings.teams:
        return "No such team is configured."
    for name, most in MOST.items():
        number = fields[name]
        # Cut before `int`, which takes long for thousands of digits.
        if not (number.isascii() and number.isdigit() and 1 <= int(number[:9]) <= most):
            return f"{name.replace('_', ' ').capitalize()}: a number from 1 to {most}."
    return ""
