"""Who somebody is in Teams, and what they may do: full members of the tenant have roles, by the
same lists as in Slack. Guests and people of other tenants have none.

Source: learn.microsoft.com, "Get Teams specific context for your bot" (a single member, with
`userRole`, `tenantId`, `email` and `userPrincipalName`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from urllib.parse import quote

import httpx
import msgspec

from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.targets.chats.msteams import BotConnector
from faultline.bot.intake.teams_activity import Activity, Unknown
from faultline.bot.policy.people import TAKES, Act, Role, SlackPerson, slack_role
from faultline.bot.settings import Settings

REMEMBER_S = 600.0
MAX_PEOPLE = 10_000
MAX_NAME = 80
GUEST_MARK = "#EXT#"
"""In the name of an account that another tenant looks after."""
MEMBER_ROLES = ("user", "owner")
UNREACHABLE = (httpx.HTTPError, TimeoutError, msgspec.DecodeError, KeyError, ValueError, TypeError)
NO_ROLE = {
    "guest": "Guests of this team may not do this. Ask a full member.",
    "stranger": "Only members of this organisation may do this.",
}


class Member(msgspec.Struct, rename="camel"):
    """What the connector says of a member of a conversation."""

    id: str
    name: str | None = None
    aad_object_id: str | None = None
    tenant_id: str | None = None
    user_role: str | None = None
    email: str | None = None
    user_principal_name: str | None = None


@dataclass(frozen=True)
class TeamsPerson:
    """Somebody who acts. `who` is their name, as answers and pages show it."""

    id: str
    who: str
    kind: str
    role: Role | None

    def refusal(self, act: Act) -> str:
        """Why they may not do it."""
        if self.role is not None:
            return f"This takes the role {TAKES[act]}; yours is {self.role}."
        return NO_ROLE.get(self.kind, "You have no role here. An admin of Faultline gives one.")


class TeamsPeople:
    """Asks the connector, and remembers for ten minutes."""

    def __init__(self, settings: Settings, connector: BotConnector) -> None:
        self._settings = settings
        self._connector = connector
        self._cache: dict[tuple[str, str], tuple[float, TeamsPerson]] = {}

    async def sender(self, activity: Activity) -> TeamsPerson:
        """Who sent it. Raises Unknown where Teams does not tell."""
        key = (activity.channel, activity.sender.id)
        cache_entry = self._cache.get(key)
        if cache_entry is not None and time.monotonic() - cache_entry[0] < REMEMBER_S:
            return cache_entry[1]
        conversation, name = (quote(part, safe="") for part in key)
        path = f"/v3/conversations/{conversation}/members/{name}"
        try:
            request = await self._connector.request("GET", path)
            person = self._person(msgspec.json.decode(request.content, type=Member), activity)
        except UNREACHABLE as error:
            raise Unknown("Teams did not tell who you are. Please try again") from error
        # Forget everybody rather than track ages: asking again costs one request each.
        if len(self._cache) >= MAX_PEOPLE:
            self._cache.clear()
        self._cache[key] = (time.monotonic(), person)
        return person

    def _person(self, member: Member, activity: Activity) -> TeamsPerson:
        kind = self._kind(member, activity)
        who = single_line(member.name or "", MAX_NAME) or "somebody"
        aad_object_id = member.aad_object_id or ""
        role: Role | None = None
        if kind == "member" and aad_object_id:
            person = SlackPerson(aad_object_id, "member", email=member.email or "")
            role = slack_role(person, self._settings.login, self._settings.people)
        return TeamsPerson(aad_object_id, who, kind, role)

    def _kind(self, member: Member, activity: Activity) -> str:
        home = self._settings.msteams.tenant_id
        # A member without a tenant is judged by the activity's, which is the sender's.
        if home not in (member.tenant_id, None) or activity.tenant != home:
            return "stranger"
        # An unknown role counts as a guest's.
        is_guest = (member.user_role or "") not in MEMBER_ROLES
        if is_guest or GUEST_MARK in (member.user_principal_name or "").upper():
            return "guest"
        return "member"
