"""A browser's login: what its cookie holds, and what that is worth now.

The cookie holds a random secret, new at each login; the store holds a hash of it. The role is
worked out at each request, so that a change of the settings counts at once.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Engine
from starlette.requests import Request
from starlette.responses import Response

from faultline.bot.policy.people import ROLES, Role
from faultline.bot.settings import ServerSettings
from faultline.bot.settings.people import LoginSettings, TeamSettings
from faultline.bot.store.visibility import NOTHING_APART, Visibility
from faultline.bot.store.visitors import Login, Logins, ProviderIdentity, new_secret
from faultline.bot.web.oidc.attempt import role_of, teams_of

# Who is looking at a page, and what they may do.
#
# Templates get `visitor` (None on the login page) and `csrf`, the value that every form sends along
# as a hidden field of that name, and scripts as the header `X-CSRF-Token`.

CSRF_FIELD = "csrf"
CSRF_HEADER = "x-csrf-token"


@dataclass(frozen=True)
class Visitor:
    """One visitor. `who` names them beyond doubt (an e-mail address, where there is one); `name` is
    for reading."""

    name: str
    who: str
    role: Role
    signed_in: bool
    """Whether there is a login that can be ended: not for this machine's own visitors, nor for
    scripts."""
    named: bool = False
    """Whether a provider vouches for who it is; then nobody needs to type a name."""
    teams: frozenset[str] = frozenset()
    """The teams that they belong to, by their groups."""
    email: str = ""
    """The address that the provider vouches for, by which they are known in Slack."""
    is_local: bool = False
    """This machine's own, where neither a token nor a login is set up."""
    is_token: bool = False
    """Whoever holds the access token, or an API token."""
    investigations_per_hour: int | None = None
    """Of an API token, which has its own limit; None: that of people."""

    @property
    def is_program(self) -> bool:
        """Whether an API token was shown."""
        return self.investigations_per_hour is not None

    def may(self, role: Role) -> bool:
        """Whether they may do what takes this role."""
        # Roles are listed from the least to the most.
        return ROLES.index(self.role) >= ROLES.index(role)


def visitor_of(request: Request) -> Visitor | None:
    """Who sent the request; None before anybody was let in."""
    visitor = request.scope.get("faultline.visitor")
    return visitor if isinstance(visitor, Visitor) else None


def csrf_of(request: Request) -> str:
    """The value for the forms of the page that answers the request; empty where a form would not be
    taken."""
    return str(request.scope.get("faultline.csrf", ""))


def visibility_of(request: Request) -> Visibility:
    """Whose investigations the answer may tell of; before anybody was let in, of none that belongs
    to a team or came from a channel."""
    visibility = request.scope.get("faultline.visibility")
    return visibility if isinstance(visibility, Visibility) else NOTHING_APART


def note_investigation(request: Request, investigation_id: str | None) -> None:
    """Note which investigation a request was about, where its address does not say."""
    request.scope["faultline.investigation"] = investigation_id


def note_for_audit(request: Request, note: str) -> None:
    """Add to the line of the audit what was done, in a few words that are no secret."""
    request.scope["faultline.note"] = note


def let_in(
    request: Request, visitor: Visitor | None, csrf: str, visibility: Visibility = NOTHING_APART
) -> None:
    """Note who sent the request, for its handler and its page."""
    request.scope["faultline.visitor"] = visitor
    request.scope["faultline.csrf"] = csrf
    request.scope["faultline.visibility"] = visibility


TOKEN_ISSUER = "access token"  # noqa: S105
FORM_COOKIE_S = 3600
"""A login page that lies open for longer asks once more."""


@dataclass(frozen=True)
class Session:
    """A login that opens something: whose it is, and the secret that its forms are bound to."""

    visitor: Visitor
    login: Login
    secret: str


class Cookies:
    """Names and attributes of our cookies. Under https `__Host-` binds them to this host alone, and
    to https."""

    def __init__(self, server: ServerSettings) -> None:
        self.https = server.public_url.startswith("https://")
        prefix = "__Host-" if self.https else ""
        self.session = f"{prefix}faultline_session"
        self.form = f"{prefix}faultline_form"
        self.attempt = f"{prefix}faultline_login_"

    def set(self, response: Response, name: str, value: str, lasting_s: float) -> None:
        """Lax: a link in a chat must lead to the page, and a form of another site must not carry
        the cookie."""
        response.set_cookie(
            name,
            value,
            max_age=int(lasting_s),
            path="/",
            httponly=True,
            samesite="lax",
            secure=self.https,
        )

    def clear(self, response: Response, name: str) -> None:
        """Forget it."""
        response.delete_cookie(name, path="/", httponly=True, samesite="lax", secure=self.https)


class Sessions:
    """Begins, finds and ends logins for browsers."""

    def __init__(
        self,
        server: ServerSettings,
        login: LoginSettings,
        engine: Engine,
        teams: Mapping[str, TeamSettings],
    ) -> None:
        self.cookies = Cookies(server)
        self.logins = Logins(
            engine,
            lasting=timedelta(hours=login.session_hours),
            idle=timedelta(hours=login.idle_hours),
        )
        self._server = server
        self._login = login
        self._teams = teams

    def begin(
        self, request: Request, response: Response, person: ProviderIdentity, address: str
    ) -> None:
        """A login with a new secret; what the browser showed before, whoever planted it, ends."""
        self.logins.end(request.cookies.get(self.cookies.session, ""))
        secret = new_secret()
        self.logins.begin(person, secret, self._proof(secret, person.issuer), address)
        self.cookies.set(response, self.cookies.session, secret, self._login.session_hours * 3600)
        self.cookies.clear(response, self.cookies.form)

    def find(self, request: Request) -> Session | None:
        """The login that the browser shows, if it holds under the settings of now."""
        secret = request.cookies.get(self.cookies.session, "")
        login = self.logins.find(secret) if secret else None
        if login is None or not hmac.compare_digest(
            login.proof, self._proof(secret, login.person.issuer)
        ):
            return None
        role = self.role(login.person)
        if role is None:
            return None
        # The shared token is nobody in particular: no team and no address goes with it.
        named = login.person.issuer != TOKEN_ISSUER
        teams = (
            teams_of(login.person.email, login.person.groups, self._teams) if named else frozenset()
        )
        visitor = Visitor(
            login.person.name,
            login.person.who,
            role,
            signed_in=True,
            named=named,
            teams=teams,
            email=login.person.email if named else "",
            is_token=not named,
        )
        return Session(visitor, login, secret)

    def role(self, person: ProviderIdentity) -> Role | None:
        """What somebody may do; None: nothing."""
        if person.issuer == TOKEN_ISSUER:
            return self._login.token_role
        return role_of(person.email, person.groups, self._login)

    def end(self, request: Request, response: Response) -> None:
        """End the login in this browser."""
        self.logins.end(request.cookies.get(self.cookies.session, ""))
        self.cookies.clear(response, self.cookies.session)

    def _proof(self, secret: str, issuer: str) -> str:
        """Equal only while the access token, or the provider and client, are those that the login
        was made with."""
        if issuer == TOKEN_ISSUER:
            made_with = (
                self._server.access_token.get_secret_value() if self._server.access_token else ""
            )
        else:
            made_with = f"{self._login.issuer} {self._login.client_id}"
        # Keyed by the cookie's secret: the stored proof gives no hint of the access token.
        return hmac.new(
            secret.encode("utf-8", "replace"), made_with.encode(), hashlib.sha256
        ).hexdigest()
