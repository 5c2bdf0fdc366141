"""Who somebody in Slack is: a member of the bot's own workspace, a guest, a stranger, a bot.

The event says which workspace the account belongs to; `users.info` says whether it is a guest or a
stranger, and `usergroups.users.list` who is in the user groups that the settings name. Answers are
kept for a while, within a bound. While Slack does not answer, or the app lacks the scope, somebody
is known by the event alone, which makes nobody an admin.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import aiohttp
from slack_sdk.errors import SlackClientError

from faultline.bot.answer.targets.slack.posts import NOT_UNDERSTOOD, SlackWebClient, error_code
from faultline.bot.intake.slack_payload import Envelope, Message
from faultline.bot.policy.people import Kind, Role, SlackPerson, slack_groups, slack_role
from faultline.bot.settings import Settings

LOOK_UP_WITHIN_S = 0.7
"""For a question to Slack on the way to an answer that Slack wants within 3 s."""
FRESH_S = 600.0
"""Somebody who was made a guest, or left a user group, keeps their role for so long."""
STALE_S = 86_400.0
"""While Slack does not answer, what it said before counts for so long."""
ASK_AGAIN_AFTER_S = 30.0
MAX_ENTRIES = 5_000
UNKNOWN_TO_US = frozenset({"user_not_found", "user_not_visible"})
"""Codes of `users.info` for an account that our workspace does not know
(https://docs.slack.dev/reference/methods/users.info)."""
UNREACHABLE = (
    SlackClientError,
    aiohttp.ClientError,
    TimeoutError,
    OSError,
    *NOT_UNDERSTOOD,
)

T = TypeVar("T")

log = logging.getLogger("faultline.intake")


@dataclass(frozen=True)
class BotAccount:
    """Who the bot token belongs to, by `auth.test`."""

    user_id: str
    bot_id: str
    team_id: str
    enterprise_id: str
    is_org_wide: bool


@dataclass(frozen=True)
class Claimed:
    """What an event or click says of whoever caused it.

    `teams` are the ids that it gives their account, `installed_in` those whose installation of the
    app hears of it. `shared`: people of other companies may be where it happened.
    """

    id: str
    teams: frozenset[str] = frozenset()
    installed_in: frozenset[str] = frozenset()
    shared: bool = True

    @classmethod
    def by(cls, envelope: Envelope, message: Message) -> Claimed:
        """The author of the message that an event is about."""
        teams = {message.user_team, message.source_team} - {""} or {message.team} - {""}
        shared = envelope.is_ext_shared_channel is True
        author = message.bot_id or message.user
        return cls(author, frozenset(teams), envelope.installed_in, shared)


class SlackPeople:
    """Looks people of one workspace up."""

    def __init__(self, settings: Settings, client: SlackWebClient) -> None:
        self._client = client
        self._login, self._people = settings.login, settings.people
        self._groups = slack_groups(settings.login)
        self._account = _TimedCache[BotAccount](lasting_s=float("inf"))
        self._users = _TimedCache[SlackPerson]()
        self._members = _TimedCache[frozenset[str]]()
        self._ids = _TimedCache[str]()

    async def account(self) -> BotAccount | None:
        """The bot's own account; None while Slack has not said."""
        return await self._account.get("", self._auth_test)

    async def home(self) -> frozenset[str]:
        """The workspaces, or the organisation, whose apps are the bot's own company's; empty while
        Slack has not said."""
        account = await self.account()
        return self._home(account) | ({account.enterprise_id} - {""} if account else set())

    async def is_ours(self, installed_in: frozenset[str]) -> bool:
        """Whether an event was sent for the bot's own installation; while that is not known, or the
        event does not say, its signature alone counts."""
        home = self._home(await self.account())
        return not home or not installed_in or not home.isdisjoint(installed_in)

    async def role(self, claimed: Claimed) -> tuple[SlackPerson, Role | None]:
        """Who caused an event, and what they may do."""
        person = await self.who(claimed)
        return person, slack_role(person, self._login, self._people)

    async def who(self, claimed: Claimed) -> SlackPerson:
        """Who caused an event or click."""
        account = await self.account()
        home = self._home(account) or claimed.installed_in
        enterprise_id = account.enterprise_id if account else ""
        # Ids of bots begin with B, those of users with U or W.
        if claimed.id.startswith("B"):
            return SlackPerson(claimed.id, "bot")
        # In an organisation an account may carry the organisation's id instead of a workspace's.
        if any(team not in home and team != enterprise_id for team in claimed.teams):
            return SlackPerson(claimed.id, "stranger")
        if not claimed.id:
            return SlackPerson("", "stranger", verified=False)
        user = await self._users.get(claimed.id, lambda: self._user(claimed.id, home))
        if user is None:
            # Slack does not answer: trust the event if it names a workspace, or if no other company
            # is in the channel.
            by_event = bool(claimed.teams) or not claimed.shared
            return SlackPerson(claimed.id, "member" if by_event else "stranger", verified=False)
        if user.kind != "member":
            return user
        groups = await self._groups_of(claimed.id)
        return replace(user, groups=groups, verified=account is not None)

    async def id_of(self, email: str) -> str:
        """The id of the full member with that address; "" for nobody, or where Slack cannot say."""
        user_id = await self._ids.get(email, lambda: self._by_email(email)) if email else None
        return user_id or ""

    def _home(self, account: BotAccount | None) -> frozenset[str]:
        if account is None:
            return frozenset()
        account_ids = {account.team_id, account.enterprise_id if account.is_org_wide else ""}
        return frozenset({*account_ids, *self._people.workspaces} - {""})

    async def _auth_test(self) -> BotAccount | None:
        answer = await self._answer("auth.test", self._client.auth_test())
        if answer is None:
            return None
        text = _texts(answer)
        return BotAccount(
            text("user_id"),
            text("bot_id"),
            text("team_id"),
            text("enterprise_id"),
            answer.get("is_enterprise_install") is True,
        )

    async def _user(self, user: str, home: Collection[str]) -> SlackPerson | None:
        try:
            answer = await asyncio.wait_for(self._client.users_info(user=user), LOOK_UP_WITHIN_S)
        except UNREACHABLE as error:
            if error_code(error) in UNKNOWN_TO_US:
                return SlackPerson(user, "stranger")
            _warn("users.info", error)
            return None
        user_info = answer.get("user")
        return person_of(user, user_info, home) if isinstance(user_info, dict) else None

    async def _groups_of(self, user: str) -> frozenset[str]:
        groups = sorted(self._groups)
        members = await asyncio.gather(*(self._members_of(group) for group in groups))
        return frozenset(
            group for group, members in zip(groups, members, strict=True) if user in (members or ())
        )

    async def _members_of(self, group: str) -> frozenset[str] | None:
        async def ask() -> frozenset[str] | None:
            call = self._client.usergroups_users_list(usergroup=group)
            answer = await self._answer("usergroups.users.list", call)
            users = answer.get("users") if answer is not None else None
            return frozenset(map(str, users)) if isinstance(users, list) else None

        return await self._members.get(group, ask)

    async def _by_email(self, email: str) -> str | None:
        try:
            call = self._client.users_lookupByEmail(email=email)
            answer = await asyncio.wait_for(call, LOOK_UP_WITHIN_S)
        except UNREACHABLE as error:
            if error_code(error) == "users_not_found":
                # Nobody has that address: an answer that is kept, while None is asked again soon.
                return ""
            _warn("users.lookupByEmail", error)
            return None
        user, account = answer.get("user"), await self.account()
        if not isinstance(user, dict) or account is None:
            return None
        person = person_of(str(user.get("id") or ""), user, self._home(account))
        return person.id if person.kind in ("member", "guest") else ""

    async def _answer(self, name: str, call: Awaitable[Any]) -> Mapping[str, Any] | None:
        try:
            answer: Mapping[str, Any] = await asyncio.wait_for(call, LOOK_UP_WITHIN_S)
        except UNREACHABLE as error:
            _warn(name, error)
            return None
        return answer


def person_of(user: str, user_info: Mapping[str, Any], home: Collection[str]) -> SlackPerson:
    """Somebody as `users.info` describes them (https://docs.slack.dev/reference/objects/user-object).

    `home` are the ids of the workspaces, or the organisation, whose members are ours.
    """
    in_org, profile = user_info.get("enterprise_user"), user_info.get("profile")
    teams = {user_info.get("team_id")}
    if isinstance(in_org, dict):
        listed = in_org.get("teams")
        teams |= {in_org.get("enterprise_id"), *(listed if isinstance(listed, list) else ())}
    teams -= {None, ""}
    elsewhere = bool(teams and home and teams.isdisjoint(home))
    # Take the first that applies: a guest who has left is gone.
    kinds: tuple[tuple[Kind, bool], ...] = (
        ("gone", _has_flag(user_info, "deleted")),
        ("stranger", elsewhere or _has_flag(user_info, "is_stranger")),
        ("bot", user == "USLACKBOT" or _has_flag(user_info, "is_bot", "is_workflow_bot")),
        ("guest", _has_flag(user_info, "is_restricted", "is_ultra_restricted")),
    )
    for kind, applies in kinds:
        if applies:
            return SlackPerson(user, kind)
    email = profile.get("email") if isinstance(profile, dict) else ""
    runs = _has_flag(user_info, "is_admin", "is_owner", "is_primary_owner")
    return SlackPerson(user, "member", runs_workspace=runs, email=str(email or ""))


def _has_flag(user_info: Mapping[str, Any], *flags: str) -> bool:
    return any(user_info.get(flag) for flag in flags)


class _TimedCache(Generic[T]):
    """Answers by key, each asked for again after a while; the oldest go when there are too many."""

    def __init__(self, lasting_s: float = FRESH_S) -> None:
        self._lasting_s = lasting_s
        self._entries: OrderedDict[str, tuple[T | None, float, float]] = OrderedDict()
        self._asking: dict[str, asyncio.Future[T | None]] = {}

    async def get(self, key: str, ask: Any) -> T | None:
        """The answer; None where there is none. Several who want it at once ask once."""
        value, requested_at, again_at = self._entries.get(key, (None, 0.0, 0.0))
        if key in self._entries and time.monotonic() < again_at:
            return value
        if (asking := self._asking.get(key)) is None:
            asking = self._asking[key] = asyncio.ensure_future(ask())
            asking.add_done_callback(lambda _: self._asking.pop(key, None))
        # Shielded: a caller that gives up must not cancel the call for those who wait with it.
        fresh = await asyncio.shield(asking)
        now = time.monotonic()
        if fresh is not None:
            value, requested_at, again_at = fresh, now, now + self._lasting_s
        else:
            value = value if now - requested_at < STALE_S else None
            again_at = now + ASK_AGAIN_AFTER_S
        self._entries[key] = (value, requested_at, again_at)
        self._entries.move_to_end(key)
        while len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)
        return value


def failure_text(error: Exception) -> str:
    """What Slack said, without the token that a client's error may quote."""
    return error_code(error) or type(error).__name__


def _texts(answer: Mapping[str, Any]) -> Any:
    return lambda name: str(answer.get(name) or "")


def _warn(call: str, error: Exception) -> None:
    log.warning("slack %s failed (%s)", call, failure_text(error))
