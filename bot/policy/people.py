"""Who may do what, in Slack and on the pages, and how much: one table of roles, one table of acts;
and people as answers and pages name them. Pure.

`login.viewers`, `responders` and `admins` name people by a group of the login's provider, by an
address that is vouched for, by a Slack user's id, or by a Slack user group's id. The highest list
that names somebody decides; otherwise a default does, which the caller knows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal, get_args

from faultline.bot.settings.people import LoginSettings, PeopleSettings

Role = Literal["viewer", "responder", "admin"]
"""A viewer reads; a responder also asks, investigates, rates answers and mutes; an admin also mutes
critical alerts, and sees the settings and who looked."""
ROLES: tuple[Role, ...] = get_args(Role)
"""From the least to the most."""

Act = Literal["read", "ask", "investigate", "rate", "ticket", "mute", "mute critical", "administer"]
TAKES: Final[Mapping[Act, Role]] = {
    "read": "viewer",
    "ask": "responder",
    "investigate": "responder",
    "rate": "responder",
    "ticket": "responder",
    "mute": "responder",
    "mute critical": "admin",
    "administer": "admin",
}
"""The role that each act takes."""

Kind = Literal["member", "guest", "stranger", "bot", "gone"]
"""What a Slack account is: a full member of the bot's own workspace, one of its guests, somebody of
another company or workspace, a bot, or an account that was closed."""
SLACK_GROUP = re.compile(r"S[A-Z0-9]{2,20}")
"""The id of a Slack user group."""


@dataclass(frozen=True)
class SlackPerson:
    """Somebody in Slack. `id` is the user's, or a bot's (`B...`).

    `verified`: `users.info` says what they are; otherwise only the event does, which tells other
    companies' people and does not tell guests. `email` and `groups` (ids of user groups) are those
    of full members alone.
    """

    id: str
    kind: Kind
    verified: bool = True
    runs_workspace: bool = False
    """An admin or owner of the workspace."""
    email: str = ""
    groups: frozenset[str] = frozenset()


def may(role: Role | None, act: Act) -> bool:
    """Whether the role is enough for the act; None is enough for nothing."""
    return role is not None and ROLES.index(role) >= ROLES.index(TAKES[act])


def named_role(
    login: LoginSettings, names: Collection[str] = (), emails: Collection[str] = ()
) -> Role | None:
    """The highest role whose list holds one of these names (with case) or addresses (without)."""
    lists: tuple[tuple[Role, Collection[str]], ...] = (
        ("admin", login.admins),
        ("responder", login.responders),
        ("viewer", login.viewers),
    )
    for role, named in lists:
        if is_named(names, emails, named):
            return role
    return None


def is_named(names: Collection[str], emails: Collection[str], named: Collection[str]) -> bool:
    """Whether a list holds one of these names or addresses."""
    if not set(names).isdisjoint(named):
        return True
    return not {email.lower() for email in emails if email}.isdisjoint(n.lower() for n in named)


def slack_role(person: SlackPerson, login: LoginSettings, people: PeopleSettings) -> Role | None:
    """What somebody may do in Slack; None: nothing.

    An id that is named counts whatever Slack says of the account, because Slack signs it.
    Everything else that makes an admin takes an account that Slack described.
    """
    if person.kind == "gone":
        return None
    if (by_id := named_role(login, [person.id])) is not None:
        return by_id
    if person.kind == "bot":
        return None
    if person.kind == "stranger":
        return _role(people.strangers)
    if person.kind == "guest":
        return _role(people.guests)
    if not person.verified:
        # It may be a guest of whom Slack did not tell.
        return _at_most_responder(_role(people.members))
    named = named_role(login, person.groups, [person.email])
    # Where the operator names no admins, those of the workspace are admins.
    if named is None and not login.admins and person.runs_workspace:
        return "admin"
    return named or _role(people.members)


def slack_groups(login: LoginSettings) -> frozenset[str]:
    """The Slack user groups that the table names."""
    named = (*login.viewers, *login.responders, *login.admins)
    return frozenset(name for name in named if SLACK_GROUP.fullmatch(name))


def refusal(person: SlackPerson, role: Role | None, act: Act) -> str:
    """Why somebody may not do it, in one line for them."""
    if role is not None:
        because = ""
        if not person.verified and TAKES[act] == "admin":
            because = " Slack did not tell me who you are, and admins are checked."
        return f"This takes the role {TAKES[act]}; yours is {role}.{because}"
    if person.kind == "guest":
        return "Guests of this workspace may not do this. Ask a full member."
    if person.kind in ("stranger", "gone"):
        return "Only members of this workspace may do this."
    return "You have no role here. An admin of Faultline gives one."


def _role(text: str) -> Role | None:
    return next((role for role in ROLES if role == text), None)


def _at_most_responder(role: Role | None) -> Role | None:
    return "responder" if role == "admin" else role


HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def too_many_investigations(most: int) -> str:
    """Somebody asked for more investigations than they may."""
    return f"You have reached your limit of {most} investigations per hour. Ask again later."


def too_many_mutes(people: PeopleSettings) -> str:
    """Somebody muted more than they may."""
    return f"You have reached your limit of {people.mutes_per_day} mutes per day."


SOMEBODY = "a person"
SLACK_USER = re.compile(r"(?:[\w-]+:)?[UW][A-Z0-9]{2,20}")
"""The id of a person, of a named workspace as well."""
_MENTION = re.compile(r"<@[UW][A-Z0-9]{2,20}(?:\|(?P<name>[^<>|]{1,80}))?>")


def person(who: str) -> str:
    """Somebody by what is kept of them; empty where nobody is named."""
    return SOMEBODY if SLACK_USER.fullmatch(who) else who


def without_mentions(text: str) -> str:
    """A text with names in place of Slack's mentions of people."""
    return _MENTION.sub(lambda match: match["name"] or SOMEBODY, text)
