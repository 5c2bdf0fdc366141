"""What people in Teams have the store do: judge an answer, mute its alert, run it again, ask for a
ticket. Each returns the result in one line.

An investigation counts only where it was posted by this bot: cards name it, and whoever may click
saw it there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ParamSpec, TypeVar

from sqlalchemy.exc import SQLAlchemyError

from faultline.bot.answer.lines import at
from faultline.bot.answer.targets.chats.teams_card import issue_offers, may_mute
from faultline.bot.intake.accepting import NotAccepted
from faultline.bot.intake.alert_source import Intake
from faultline.bot.intake.teams_activity import Activity
from faultline.bot.intake.teams_people import TeamsPerson
from faultline.bot.policy.people import (
    DAY,
    HOUR,
    Act,
    may,
    too_many_investigations,
    too_many_mutes,
    without_mentions,
)
from faultline.bot.policy.priority import URGENT, priority_of
from faultline.bot.policy.values import ReplyTo
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.follow_ups import FollowUps, FollowUpScope, TicketRequests
from faultline.bot.store.listing import Labels
from faultline.bot.store.messages import investigation_posted_as, investigations_in
from faultline.bot.store.quotas import PersonActs
from faultline.bot.store.reports import HandoverIncident, handover_incidents
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.store.suppressed_alerts import Mute, Mutes
from faultline.bot.store.visibility import Visibility

P = ParamSpec("P")
T = TypeVar("T")

WITHIN_S = 4.0
"""Teams waits some 10 s for the answer to a click."""
PEOPLE = "people"
"""Stage of the progress lines that say who did what."""
DOUBLE_CLICK_S = 60
ALREADY = "That was asked for a moment ago. The answer comes in this thread."
NOT_YET = "It is still being investigated. Ask for a ticket when the answer is there."


class TeamsStore:
    """For one bot."""

    def __init__(self, settings: Settings, intake: Intake) -> None:
        assert intake.store is not None, "the server has one"
        self._settings, self._store = settings, intake.store
        engine, people = self._store.engine, settings.people
        self._labels, self._follow_ups = Labels(engine), FollowUps(engine)
        self._mutes = Mutes(engine, timedelta(hours=people.mute_hours))
        self._acts, self._tickets = PersonActs(engine), TicketRequests(engine)
        name = settings.msteams.instance.name
        self.target = f"msteams {name}".rstrip()
        """The reply target's name."""

    async def answered_in(self, activity: Activity) -> StoredInvestigation | None:
        """The investigation whose message begins the thread."""
        if not activity.root:
            return None
        engine = self._store.engine
        name = await self._stored(investigation_posted_as, engine, self.target, activity.root)
        return await self._stored(self._store.get, name) if name else None

    async def newest_in(self, activity: Activity) -> str | None:
        """The newest investigation that is answered in this thread."""
        engine, address = self._store.engine, activity.conversation.id
        ids = await self._stored(investigations_in, engine, self.target, address, activity.root)
        return next(iter(ids), None)

    async def posted_here(self, investigation_id: str) -> StoredInvestigation | None:
        """An investigation that a card of this bot names."""
        # The name comes from the client, so bound its length.
        investigation = await self._stored(self._store.get, investigation_id[:100])
        if investigation is None:
            return None
        posts = await self._stored(self._store.posts, investigation.id)
        return investigation if f"{investigation.id}:{self.target}" in posts else None

    async def lately(
        self, since: datetime, now: datetime
    ) -> tuple[list[HandoverIncident], list[Mute]]:
        """What may be named in Teams: nothing from a Slack channel, and with isolation by team
        nothing that belongs to a team."""
        apart = self._settings.login.isolation == "teams"
        visibility = Visibility(frozenset() if apart else None, frozenset())

        def read() -> tuple[list[HandoverIncident], list[Mute]]:
            engine, until = self._store.engine, now + timedelta(seconds=1)
            return (
                handover_incidents(engine, since, until, visibility=visibility),
                self._mutes.active(now, visibility),
            )

        return await self._stored(read)

    async def may_investigate(self, person: TeamsPerson, key: str) -> bool:
        """Whether they have not asked for too many in an hour, this one counted."""
        most = self._settings.people.investigations_per_hour
        return await self._count(person, "investigate", key, most, HOUR)

    async def judge(
        self,
        investigation: StoredInvestigation,
        person: TeamsPerson,
        *,
        right: bool,
        cause: str,
        key: str,
    ) -> str:
        """Keep what they say of the answer."""

        def write() -> None:
            self._labels.write(investigation.id, right=right, cause=cause, who=person.who)

        await self._stored(write)
        what = f"{person.who} said that the answer is {'right' if right else 'wrong'}"
        if cause:
            what += f": the cause was {without_mentions(cause)}"
        await self._did(investigation, what, key)
        return "Thanks. That is kept with your name."

    async def again(
        self, investigation: StoredInvestigation, person: TeamsPerson, conversation: str
    ) -> str:
        """The same once more, with the scope that it had, answered in the same thread."""
        # Clicks in the same slot of a minute share a key, so a double click starts one.
        key = f"again:{investigation.id}:{int(time.time()) // DOUBLE_CLICK_S}"
        if not await self.may_investigate(person, key):
            return too_many_investigations(self._settings.people.investigations_per_hour)

        def start() -> tuple[str, bool]:
            scope = self._follow_ups.scope(investigation.id) or FollowUpScope()
            return self._follow_ups.start(
                investigation,
                scope,
                key=key,
                question=f"{person.who} asked for the same once more",
                who=person.who,
                reply_to=ReplyTo(other_addresses={self.target: conversation}),
            )

        fresh, is_new = await self._stored(start)
        if not is_new:
            return ALREADY
        await self._did(investigation, f"{person.who} asked for the same once more: {fresh}", key)
        return "I'm looking again and will answer here."

    async def mute(
        self, investigation: StoredInvestigation, person: TeamsPerson, length: timedelta, key: str
    ) -> str:
        """Mute its alert."""
        if not may_mute(investigation):
            return "Somebody asked for this one: there is no alert to mute."
        # Either is enough: alerts that joined may have made the investigation more urgent.
        urgent = investigation.priority == URGENT or priority_of(investigation.alert) == URGENT
        act: Act = "mute critical" if urgent else "mute"
        if not may(person.role, act):
            return person.refusal(act)
        people, now = self._settings.people, datetime.now(UTC)
        if not await self._count(person, "mute", key, people.mutes_per_day, DAY):
            return too_many_mutes(people)

        def write() -> Mute | None:
            return self._mutes.mute(
                investigation.alert.fingerprint,
                now + length,
                person.who,
                title=investigation.alert.title,
                covers_critical=may(person.role, "mute critical"),
                now=now,
            )

        mute = await self._stored(write)
        if mute is None:
            return "That time is over already."
        what = f"{person.who} muted this alert until {at(mute.until)}"
        await self._did(investigation, what, key)
        return f"{what}."

    async def unmute(
        self, investigation: StoredInvestigation, person: TeamsPerson, key: str
    ) -> str:
        """End its mute."""
        if not await self._stored(self._mutes.unmute, investigation.alert.fingerprint):
            return "This alert is not muted any more."
        what = f"{person.who} ended the mute of this alert"
        await self._did(investigation, what, key)
        return f"{what}."

    async def ticket(
        self, investigation: StoredInvestigation, person: TeamsPerson, target: Any, key: str
    ) -> str:
        """Ask for a ticket, which a worker makes."""
        offers = await self._stored(issue_offers, investigation, self._store, self._settings)
        # The client sends the target, so take only one that is offered now.
        requested_offers = [offer for offer in offers if offer.target == target]
        if not requested_offers:
            return "That tracker is not set up any more."
        offer = requested_offers[0]
        if not await self._stored(self._tickets.ask, investigation.id, offer.target, offer.about):
            return NOT_YET
        await self._did(investigation, f"{person.who} asked for a {offer.what}", key)
        return f"The {offer.noun} with this answer is on its way."

    async def _did(self, investigation: StoredInvestigation, what: str, key: str) -> None:
        """Note who did what, and have the messages brought up to date."""

        def note() -> None:
            self._store.add_progress(investigation.id, PEOPLE, what, key=f"{PEOPLE}:msteams:{key}")
            self._tickets.made(investigation.id)

        await self._stored(note)

    async def _count(
        self, person: TeamsPerson, act: Act, key: str, most: int, window: timedelta
    ) -> bool:
        who = f"msteams:{person.id}"
        return await self._stored(self._acts.count, who, act, key, most, window)

    async def _stored(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Raises NotAccepted where the store does not answer in time."""
        try:
            async with asyncio.timeout(WITHIN_S):
                return await in_store(work, *args, **kwargs)
        except TimeoutError:
            raise NotAccepted(f"the store did not answer within {WITHIN_S:g} s") from None
        except SQLAlchemyError as error:
            raise NotAccepted(f"the store cannot be used ({type(error).__name__})") from error
