"""Who is looking at a page, and what they may do.

Templates get `visitor` (None on the login page) and `csrf`, the value that every form sends along
as a hidden field of that name, and scripts as the header `X-CSRF-Token`.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from faultline.bot.policy.people import ROLES, Role
from faultline.bot.store.visibility import NOTHING_APART, Visibility

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
