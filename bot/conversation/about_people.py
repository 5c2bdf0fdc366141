"""Answers about who is responsible and what runs where: on call, teams, the latest deploys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from faultline.analysis.errors import FaultlineError
from faultline.analysis.wording.names import subject_name
from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.exports.formats import status_update
from faultline.bot.answer.lines import at
from faultline.bot.conversation.about_time import change_text, no_changes
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.conversation.asking_again import Look, LookAnswer
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.intake.questions.words import listed
from faultline.connectors.shared.contract.abilities import KnowsOnCall
from faultline.connectors.shared.contract.base import Connector

MOST = 8
LEVEL = "on call, level "
"""How the evidence of who is on call begins: `faultline.connectors.vendors.pagerduty.answers`."""


def ownership(answered: AnsweredCase, tokens: Sequence[str], services: Sequence[str]) -> Look:
    """Who is on call for a service, and which team it belongs to; asked now where that is
    possible."""
    # Without a word about being on call, the question is about the team.
    team = not {"call", "on-call", "oncall", "page"} & set(tokens)
    first = answered.first
    blamed = first.subject if first is not None else None
    named = services[0] if services else blamed or answered.case.alert.service or ""

    async def look(connectors: Sequence[Connector]) -> LookAnswer:
        people, problem = await _on_call_now(connectors, named)
        when = f"now ({at(answered.now)})"
        if not people:
            people = on_call_then(answered)
            when = f"for this incident when it alerted ({at(answered.case.alert.started_at)})"
        answer = _answer(answered, named, people, when, problem)
        if team and people and named.casefold() not in answered.teams:
            unknown = f"Which team owns {plain(named, 60)} I don't know. {answer.lead}"
            more = (*answer.more, "Name its team in the settings ([teams])")
            return LookAnswer(answer.model_copy(update={"lead": unknown, "more": more}))
        return LookAnswer(answer, useful=bool(people) or named.casefold() in answered.teams)

    return look


def on_call_then(answered: AnsweredCase) -> dict[str, str]:
    """Who was on call for the incident, as PagerDuty said while it was investigated."""
    people_by_level: dict[str, str] = {}
    for item in answered.case.evidence:
        for key, people in item.details.items():
            if key.startswith(LEVEL):
                people_by_level.setdefault(key, people)
    return people_by_level


def deployed(answered: AnsweredCase, services: Sequence[str]) -> AnswerText:
    """The latest change of each service before the data ends."""
    table = answered.case.changes
    end = answered.case.scope.incident.end
    rows = table.filter(pl.col("time") <= end) if table.height else table
    if services:
        rows = rows.filter(pl.col("service").is_in(list(services)))
    latest = rows.sort("time", descending=True).unique("service", keep="first", maintain_order=True)
    lines = []
    for row in latest.head(MOST).iter_rows(named=True):
        lines.append(AnswerLine(text=f"{change_text(row)}, {at(row['time'])}"))
    of = f" of {plain(services[0], 60)}" if services else ""
    if not lines:
        return AnswerText(lead=no_changes(answered, of))
    more = ("What was deployed before these and not changed since, I can't see",)
    return AnswerText(lead=f"The latest change{of} that I know:", lines=tuple(lines), more=more)


async def _on_call_now(
    connectors: Sequence[Connector], service: str
) -> tuple[Mapping[str, str], str]:
    problem = ""
    for connector in connectors:
        if isinstance(connector, KnowsOnCall):
            try:
                people = await connector.on_call(service)
            except FaultlineError as error:
                # Another connector may know.
                problem = str(error)
                continue
            if people:
                return people, ""
    return {}, problem


def _answer(
    answered: AnsweredCase, service: str, people: Mapping[str, str], when: str, problem: str
) -> AnswerText:
    name = plain(subject_name(service), 60)
    team = answered.teams.get(service.casefold())
    lines = []
    for level, names in list(people.items())[:3]:
        number = plain(level.removeprefix(LEVEL), 20)
        lines.append(AnswerLine(text=plain(names, 200), bold=f"Level {number}"))
    if team:
        lines.append(AnswerLine(text=f"{name} belongs to team {plain(team, 60)}", bold="Team"))
    if people:
        return AnswerText(lead=f"On call {when}:", lines=tuple(lines))
    why = f" ({plain(problem, 200)})" if problem else ""
    how = "Connect PagerDuty ([pagerduty]) to have me ask it"
    if team:
        sentence = f"{name} belongs to team {plain(team, 60)}. I don't know who is on call{why}."
        return AnswerText(lead=sentence, more=(how,))
    sentence = f"I don't know who is on call for {name}, nor which team owns it{why}."
    rows = answered.case.changes
    authors = rows.filter(pl.col("service") == service)["author"].drop_nulls().unique().sort()
    shown = ", ".join(plain(author, 40) for author in authors.to_list()[:3])
    more = (
        how,
        "Or name its team in the settings ([teams])",
        *((f"It was last changed by {shown}",) if shown else ()),
    )
    return AnswerText(lead=sentence, more=more)


# Drafts in the thread: a status update for three readers, a postmortem as a file.

POSTMORTEM, STATUS_UPDATE = "postmortem", "status"
LONGEST = 600
READERS: Mapping[str, frozenset[str]] = {
    "Status page": listed("page customers customer public announcement notice"),
    "Executives": listed(
        "boss manager exec execs executives management stakeholders cto ceo vp leadership"
    ),
    "Next shift": listed("shift handover handoff hand-over hand-off"),
}
"""The words that name a reader."""


def update(answered: AnsweredCase, tokens: Sequence[str]) -> AnswerText:
    """The status update, to be checked and copied; for one reader, where one is named."""
    view = answered.view
    drafted = status_update(view, since=view.impact.since)
    texts = {
        "Status page": (drafted.status_page,),
        "Executives": (drafted.executives,),
        "Next shift": drafted.next_shift,
    }
    readers = [reader for reader, words in READERS.items() if words & set(tokens)] or list(texts)
    lines = []
    for reader in readers:
        for n, text in enumerate(texts[reader]):
            lines.append(AnswerLine(text=plain(text, LONGEST), bold="" if n else reader))
    phrase = "A draft from what was measured; check it before you send it:"
    return AnswerText(lead=phrase, lines=tuple(lines), export=STATUS_UPDATE)


def postmortem(answered: AnsweredCase) -> AnswerText:
    """The draft as a file; what only people know is left blank in it."""
    cause = answered.view.headline
    label = "Root cause" if answered.view.established else answered.view.verdict_label
    return AnswerText(
        lead="Here is a draft of the postmortem.",
        lines=(
            answered.statement(cause, bold=label),
            AnswerLine(
                text="summary, impact, timeline, root cause, action items", bold="Filled in"
            ),
            AnswerLine(text="what it cost, when it was over, what went well", bold="Left to you"),
        ),
        export=POSTMORTEM,
    )
