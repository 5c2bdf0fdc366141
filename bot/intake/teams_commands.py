"""What people ask of the bot in Teams, by mentioning it: an investigation, an answer about one in
its thread, the hand-over, a mute of the alert whose answer begins the thread, or how to ask.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta

from faultline.analysis.errors import SettingsError
from faultline.analysis.vocabulary import QUESTION_PREFIX, Alert
from faultline.bot.answer.handover import TeamDigest, team_digests
from faultline.bot.answer.handover_lines import of_team, shortened, summary, team_lines, team_name
from faultline.bot.answer.targets.chats.teams_card import (
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
from faultline.bot.intake.accepting import take
from faultline.bot.intake.alert_source import Intake
from faultline.bot.intake.incident_requests import length_of, since_in
from faultline.bot.intake.payload_fields import single_line
from faultline.bot.intake.questions.commands import Command, command_in
from faultline.bot.intake.questions.message_router import MessageRouter
from faultline.bot.intake.questions.slack_question import question_in_teams
from faultline.bot.intake.service_names import mentioned
from faultline.bot.intake.teams_activity import SOURCE, Activity, CardAction, Unknown
from faultline.bot.intake.teams_people import TeamsPeople, TeamsPerson
from faultline.bot.intake.teams_store import TeamsStore
from faultline.bot.policy.people import Act, may, too_many_investigations
from faultline.bot.policy.values import Arrival, Delivery, ReplyTo
from faultline.bot.settings import Settings
from faultline.bot.store.conversations import Conversations
from faultline.bot.store.store import StoredInvestigation

HELP = (
    "I investigate alerts. Mention me with one of these:\n"
    "- investigate checkout errors since 10:05\n"
    "- investigate: in the thread of an answer, the same again\n"
    "- handover 24h: what is open, what recurs, which alerts were noise\n"
    f"- mute {MUTE_HOURS}h, unmute: in the thread of an answer, its alert\n"
    "In the thread of an answer, mention me with a question: why not the deploy?"
)
ON_ITS_PAGE = "Questions about this answer are answered on its page."
NOT_OURS = "Say that in the thread of an answer of mine, or click its button."
USUAL, LONGEST = timedelta(days=7), timedelta(days=90)
LINES_PER_LABEL = 4
"""Lines of each label of the hand-over."""


class TeamsCommands:
    """Of one bot."""

    def __init__(self, settings: Settings, intake: Intake, people: TeamsPeople) -> None:
        self._settings, self._intake, self._people = settings, intake, people
        self._store = TeamsStore(settings, intake)
        assert intake.store is not None, "the server has one"
        self._within_s = intake.limits.accept_within_s
        self._questions = MessageRouter(
            settings,
            Conversations(intake.store.engine),
            questions_per_hour=settings.msteams.questions_per_hour,
        )

    async def reply(self, activity: Activity) -> str:
        """The answer, "" where the investigation's own message is one. Raises Unknown,
        NotAccepted."""
        person = await self._people.sender(activity)
        words = activity.plain_text
        # `_mute_in` goes first: to `command_in`, `mute` silences the bot, not the alert.
        command = _mute_in(words) or command_in(words) or Command("question")
        act = _act(command)
        if not may(person.role, act):
            return person.refusal(act)
        if command.kind in ("question", "explain"):
            return await self._ask(activity, person, words)
        if command.kind == "investigate":
            return await self._investigate(activity, person, command.argument)
        if command.kind == "handover":
            return await self._handover(command.argument)
        if command.kind in ("quiet", "listen"):
            return await self._mute(activity, person, command)
        return HELP

    async def _ask(self, activity: Activity, person: TeamsPerson, words: str) -> str:
        """A worker answers in the thread."""
        about = await self._store.newest_in(activity)
        if about is None:
            return HELP
        question = question_in_teams(
            words,
            self._store.target,
            activity.conversation.id,
            activity.id,
            who=person.who,
            person_id=person.id,
            about=about,
        )
        if question is None:
            return ON_ITS_PAGE
        await self._questions.take(question, within_s=self._within_s)
        return ""

    async def _investigate(self, activity: Activity, person: TeamsPerson, question: str) -> str:
        about = await self._store.answered_in(activity)
        title = single_line(question) or (single_line(about.alert.title) if about else "")
        if not title:
            return HELP
        # Named after the message, so that a repeated delivery counts and starts only once.
        name = f"{activity.channel}:{activity.id}"
        if not await self._store.may_investigate(person, name):
            return too_many_investigations(self._settings.people.investigations_per_hour)
        now = datetime.now(UTC)
        since = since_in(question, now)
        service = mentioned(self._settings, question)
        service_from = "the question" if service else None
        if service is None and about is not None:
            service, service_from = about.alert.service, about.alert.service_from
        alert = Alert(
            source=SOURCE,
            id=activity.id,
            title=title,
            started_at=since or (about.alert.started_at if about else now),
            service=service,
            service_from=service_from,
            summary=about.alert.title if about else None,
            labels={
                **(about.alert.labels if about else {}),
                "fingerprint": f"{QUESTION_PREFIX}{SOURCE}:{name}",
            },
        )
        reply_to = ReplyTo(other_addresses={self._store.target: activity.conversation.id})
        delivery = Delivery(SOURCE, name)
        arrival = Arrival(alert, delivery, reply_to, question or None, by_person=True)
        within = self._intake.limits.accept_within_s
        await take(self._intake.accept, arrival, within_s=within)
        return ""

    async def _handover(self, argument: str) -> str:
        words = argument.split()
        length, now = USUAL, datetime.now(UTC)
        try:
            # "handover please" takes the usual length.
            if words and words[0][:1].isdigit():
                length = length_of(words[0].rstrip(".,;!?"), "handover")
        except SettingsError:
            length = timedelta(0)
        if not timedelta(0) < length <= LONGEST:
            return "Say how far back, 90 days at most: handover 24h"
        incidents, mutes = await self._store.lately(now - length, now)
        digests = team_digests(incidents, mutes, now - length)
        if not digests:
            return "No alert that I may tell of here in that time, and none is open."
        return "\n".join(_handover_lines(digests, length, now))

    async def _mute(self, activity: Activity, person: TeamsPerson, command: Command) -> str:
        about = await self._store.answered_in(activity)
        if about is None:
            return NOT_OURS
        if command.kind == "listen":
            return await self._store.unmute(about, person, activity.id)
        length = timedelta(hours=MUTE_HOURS)
        if command.argument:
            try:
                length = length_of(command.argument, "mute")
            except SettingsError:
                return f"Say for how long: mute {MUTE_HOURS}h"
        return await self._store.mute(about, person, length, activity.id)


def _mute_in(text: str) -> Command | None:
    """`mute 8h`, `mute this alert`: in Teams it is about the alert, as the bot hears mentions
    alone."""
    words = text.casefold().rstrip(".!").split()
    # In a longer sentence the word is part of a question.
    if not words or words[0] not in ("mute", "unmute") or len(words) > 4:
        return None
    if words[0] == "unmute":
        return Command("listen")
    return Command("quiet", next((word for word in words if word[:1].isdigit()), ""))


def _act(command: Command) -> Act:
    if command.kind == "investigate":
        return "investigate"
    if command.kind in ("question", "explain"):
        return "ask"
    return "mute" if command.kind in ("quiet", "listen") else "read"


def _handover_lines(
    digests: tuple[TeamDigest, ...], length: timedelta, now: datetime
) -> Iterator[str]:
    several = len(digests) > 1
    yield f"Hand-over of {len(digests)} teams" if several else summary(digests[0], length)
    for digest in digests:
        if several:
            yield f"- {team_name(digest.team)}: {summary(digest, length)}"
        lines, _ = shortened(team_lines(digest, now), LINES_PER_LABEL)
        for line in lines:
            handover_line = of_team(line, digest.team) if several else line
            yield f"- {handover_line.label}: {handover_line.text}"


# What a click on a button of a card in Teams does. The answer is one line for whoever clicked, and
# a worker brings the card up to date.

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
