"""`handover`: what happened, what is open, what recurs and which alerts were noise, within what
the asker may see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from faultline.analysis.case.earlier import HostRecord
from faultline.analysis.errors import SettingsError
from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.handover import TeamDigest, team_digests
from faultline.bot.answer.handover_lines import (
    MACHINE_DAYS,
    MACHINES,
    MUTED,
    NOISE,
    OPEN,
    RECURRING,
    RESOLVED,
    HandoverLine,
    machine_lines,
    of_team,
    shortened,
    summary,
    team_lines,
    team_name,
)
from faultline.bot.conversation.answered_case import page_url
from faultline.bot.conversation.visibility import ConversationVisibility
from faultline.bot.intake.incident_requests import length_of
from faultline.bot.intake.questions.commands import command_in
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.conversations import Question
from faultline.bot.store.fleet import FleetMemory
from faultline.bot.store.reports import HandoverIncident, handover_incidents, places
from faultline.bot.store.suppressed_alerts import Mute, Mutes

USUAL = timedelta(days=7)
LONGEST = timedelta(days=90)
FILLING = frozenset(
    {"for", "from", "the", "last", "next", "since", "of", "team", "shift", "please"}
)
OF_SINGLE_TEAM = {OPEN: 4, RECURRING: 3, NOISE: 3, RESOLVED: 2, MUTED: 1, MACHINES: 1}
"""Lines of each label: a message holds fourteen, one of them the machines'."""
OF_SEVERAL = {OPEN: 3, RECURRING: 2, NOISE: 2, RESOLVED: 1, MUTED: 1, MACHINES: 1}
MOST_TEAMS = 4


async def handover(
    question: Question, context: WorkerContext, visibility: ConversationVisibility
) -> AnswerText:
    """The answer: of one team where one is named, otherwise of all that the asker may hear of."""
    try:
        length, team = _length_and_team(question.text)
    except SettingsError:
        length, team = timedelta(0), ""
    if not timedelta(0) < length <= LONGEST:
        return AnswerText(lead="Say how far back, 90 days at most: handover 24h")
    now = question.requested_at.astimezone(UTC)
    since = now - length
    incidents, machines, mutes = await _read(question, context, visibility, since, now)
    digests = team_digests(incidents, mutes, since)
    if team:
        digests = tuple(digest for digest in digests if digest.team.casefold() == team.casefold())
        # Machines belong to jobs, not to teams.
        machines = ()
    if not digests:
        of = f" of a team {plain(team, 60)}" if team else ""
        return AnswerText(
            lead=f"No alert{of} that I may tell of here in that time, and none is open."
        )
    return _text(digests, machines, context.settings, length, now)


def _length_and_team(text: str) -> tuple[timedelta, str]:
    """How far back, and the team or ""; `24h payments`. Raises SettingsError."""
    command = command_in(text)
    parts = command.argument.split() if command else []
    length, team = USUAL, []
    for word in parts:
        if word[:1].isdigit():
            length = length_of(word.rstrip(".,;!?"), "handover")
        elif word.casefold().strip(".,;:!?") not in FILLING:
            team.append(word.strip(".,;:!?"))
    return length, " ".join(team)


async def _read(
    question: Question,
    context: WorkerContext,
    visibility: ConversationVisibility,
    since: datetime,
    now: datetime,
) -> tuple[list[HandoverIncident], tuple[HostRecord, ...], list[Mute]]:
    """Only what the asker may see."""
    engine, observed_visibility = context.store.engine, visibility.visibility_of(question)
    fleet = FleetMemory(engine, observed_visibility)
    fleet_time = {"since": now - timedelta(days=MACHINE_DAYS), "before": now}
    incidents = await in_store(
        partial(handover_incidents, visibility=observed_visibility),
        engine,
        since,
        # An alert of this very second counts.
        now + timedelta(seconds=1),
    )
    of_machines = await in_store(partial(fleet.investigations, **fleet_time))
    ids = {*(incident.id for incident in incidents), *of_machines}
    visible_ids = await visibility.visible_ids(question, await in_store(places, engine, ids))
    machines = await in_store(
        partial(fleet.suspicious, without=of_machines - visible_ids, **fleet_time)
    )
    # Mutes count as of now, not as of the question.
    mutes = await in_store(Mutes(engine).active, datetime.now(UTC), observed_visibility)
    return [incident for incident in incidents if incident.id in visible_ids], machines, mutes


def _text(
    digests: Sequence[TeamDigest],
    machines: Sequence[HostRecord],
    settings: Settings,
    length: timedelta,
    now: datetime,
) -> AnswerText:
    several = len(digests) > 1
    every = [*_lines(digests, now), *machine_lines(machines)]
    shown_lines, left = shortened(every, OF_SEVERAL if several else OF_SINGLE_TEAM)
    lines = [_answer_line(line, settings) for line in shown_lines]
    more = [f"Left out: {', '.join(f'{n} {label.lower()}' for label, n in left.items())}"]
    if several:
        teams = [
            AnswerLine(bold=team_name(digest.team), text=summary(digest, length))
            for digest in digests[:MOST_TEAMS]
        ]
        phrase = f"Hand-over of {len(digests)} teams:"
        more.append("handover and a team's name: that team alone")
        lines = [*teams, *lines]
    else:
        of = f"{team_name(digests[0].team)}: " if digests[0].team else ""
        phrase = f"{of}{summary(digests[0], length)}"
    more.append("faultline digest prints everything")
    return AnswerText(lead=phrase, lines=tuple(lines), more=tuple(more if left else more[1:]))


def _lines(digests: Sequence[TeamDigest], now: datetime) -> Iterator[HandoverLine]:
    """Those of all teams, label by label, each team's in turn."""
    if len(digests) == 1:
        yield from team_lines(digests[0], now)
        return
    lines_by_team = [
        [of_team(line, digest.team) for line in team_lines(digest, now)] for digest in digests
    ]
    for label in OF_SEVERAL:
        lines = [[line for line in lines if line.label == label] for lines in lines_by_team]
        for n in range(max(map(len, lines))):
            yield from (lines[n] for lines in lines if n < len(lines))


def _answer_line(line: HandoverLine, settings: Settings) -> AnswerLine:
    links = (("page", page_url(settings, line.incident)),) if line.incident else ()
    return AnswerLine(bold=line.label, text=line.text, links=links)
