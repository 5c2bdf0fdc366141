"""What a click on a button of a card in Teams does. The answer is one line for whoever clicked, and
a worker brings the card up to date."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from faultline.bot.answer.targets.chats.teams_buttons import (
    AGAIN,
    CAUSE,
    MAX_INPUT,
    MUTE,
    MUTE_HOURS,
    RIGHT,
    TICKET,
    UNMUTE,
    WRONG,
)
from faultline.bot.intake.alert_source import Intake
from faultline.bot.intake.teams_activity import Activity, CardAction, Unknown
from faultline.bot.intake.teams_people import TeamsPeople, TeamsPerson
from faultline.bot.intake.teams_store import TeamsStore
from faultline.bot.policy.people import Act, may
from faultline.bot.settings import Settings
from faultline.bot.store.store import StoredInvestigation

GONE = "That investigation is no longer known."
Do = Callable[[StoredInvestigation, TeamsPerson, CardAction, Activity], Awaitable[str]]


class TeamsClicks:
    """Of one bot."""

    def __init__(self, settings: Settings, intake: Intake, people: TeamsPeople) -> None:
        self._people = people
        self._store = TeamsStore(settings, intake)
        self._does: dict[str, tuple[Act, Do]] = {
            RIGHT: ("rate", self._right),
            WRONG: ("rate", self._wrong),
            AGAIN: ("investigate", self._again),
            MUTE: ("mute", self._mute),
            UNMUTE: ("mute", self._unmute),
            TICKET: ("ticket", self._ticket),
        }

    async def clicked(self, activity: Activity, click: CardAction) -> str:
        """One line. Raises NotAccepted."""
        handler = self._does.get(click.verb)
        if handler is None:
            return "This button is of another version. Use a newer message."
        act, does = handler
        try:
            person = await self._people.sender(activity)
        except Unknown as error:
            return f"{error}."
        # Check the role first: without one, nobody learns whether the investigation exists.
        if not may(person.role, act):
            return person.refusal(act)
        name = click.data.get("investigation")
        # The client sends the name, so check that a card of this bot carries it.
        investigation = await self._store.posted_here(name) if isinstance(name, str) else None
        if investigation is None:
            return GONE
        return await does(investigation, person, click, activity)

    async def _right(
        self,
        investigation: StoredInvestigation,
        person: TeamsPerson,
        click: CardAction,
        activity: Activity,
    ) -> str:
        return await self._store.judge(investigation, person, right=True, cause="", key=activity.id)

    async def _wrong(
        self,
        investigation: StoredInvestigation,
        person: TeamsPerson,
        click: CardAction,
        activity: Activity,
    ) -> str:
        cause_text = click.data.get(CAUSE)
        cause = cause_text[:MAX_INPUT] if isinstance(cause_text, str) else ""
        return await self._store.judge(
            investigation, person, right=False, cause=cause, key=activity.id
        )

    async def _again(
        self,
        investigation: StoredInvestigation,
        person: TeamsPerson,
        click: CardAction,
        activity: Activity,
    ) -> str:
        return await self._store.again(investigation, person, activity.conversation.id)

    async def _mute(
        self,
        investigation: StoredInvestigation,
        person: TeamsPerson,
        click: CardAction,
        activity: Activity,
    ) -> str:
        return await self._store.mute(
            investigation, person, timedelta(hours=MUTE_HOURS), activity.id
        )

    async def _unmute(
        self,
        investigation: StoredInvestigation,
        person: TeamsPerson,
        click: CardAction,
        activity: Activity,
    ) -> str:
        return await self._store.unmute(investigation, person, activity.id)

    async def _ticket(
        self,
        investigation: StoredInvestigation,
        person: TeamsPerson,
        click: CardAction,
        activity: Activity,
    ) -> str:
        target = click.data.get("target")
        return await self._store.ticket(investigation, person, target, activity.id)
