"""Answers about one subject: "is it the database?", "what about payments?" - what speaks for it and
what against it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from analysis.changes.nearby import RULED_OUT
from analysis.kinds.signals import classify
from analysis.vocabulary import Cause, Finding, Verdict
from analysis.wording.phrases import plain
from bot.answer.lines import percent
from bot.conversation.answered_case import AnsweredCase
from bot.intake.questions.slack_question import AnswerText
from bot.intake.questions.subjects import CLASSES, Subject, thing_words
from bot.intake.questions.words import words

MOST = 5
SIGNALS = 6


def about(answered: AnsweredCase, subject: Subject) -> AnswerText:
    """What the case holds about a subject."""
    name = plain(subject.said, 60)
    about_it = [f for f in answered.findings.values() if concerns(f, subject)]
    cause = next((c for c in answered.causes if _is_cause(c, subject, answered)), None)
    if cause is not None:
        return _suspected(answered, name, cause, about_it)
    bad = [f for f in about_it if f.kind != RULED_OUT]
    if bad:
        return _in_trouble(answered, name, bad)
    return _calm_or_unseen(answered, subject, name, about_it)


def concerns(finding: Finding, subject: Subject) -> bool:
    """Whether a finding is about the subject."""
    if subject.names:
        return any(_same(finding.subject, n) or finding.signal == n for n in subject.names)
    if subject.thing is None:
        return False
    if finding.signal and classify(finding.signal) in CLASSES.get(subject.thing, frozenset()):
        return True
    said = set(
        words(
            f"{finding.subject} {finding.signal or ''} {finding.kind.replace('_', ' ')} "
            f"{finding.sentence}"
        )
    )
    pieces = {
        piece
        for word in said
        for piece in word.replace("_", "-").replace(".", "-").replace("/", "-").split("-")
    }
    return bool((said | pieces) & thing_words(subject.thing))


def knows(answered: AnsweredCase, subject: Subject) -> bool:
    """Whether the case holds anything at all about it."""
    return bool(
        _series(answered, subject) or any(concerns(f, subject) for f in answered.findings.values())
    )


def _suspected(
    answered: AnsweredCase, name: str, cause: Cause, about_it: Sequence[Finding]
) -> AnswerText:
    others = [f for f in answered.some(cause.findings) if f in about_it] or answered.some(
        cause.findings
    )
    counter = [f for f in answered.some(cause.contradicting) if f.kind != RULED_OUT]
    lines = [answered.said(cause.summary, cause.findings[:2])]
    lines += [
        answered.line(f, "For") for f in others if f.sentence.rstrip(".") not in cause.summary
    ][: MOST - 1]
    lines += [answered.line(f, "Against") for f in counter[:2]]
    if cause.rank == 1:
        doubtful = answered.diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE
        lead = (
            f"{name}: it is my first suspect, not established"
            if doubtful
            else f"Yes, {name} is what I blame"
        )
    else:
        first = answered.causes[0]
        lead = (
            f"Perhaps: {name} is suspect {cause.rank}, after {plain(first.subject, 60)} "
            f"({percent(first.confidence)})"
        )
    return AnswerText(lead=f"{lead} ({percent(cause.confidence)}).", lines=tuple(lines))


def _in_trouble(answered: AnsweredCase, name: str, bad: Sequence[Finding]) -> AnswerText:
    first = answered.first
    lines = [answered.line(f, "For") for f in sorted(bad, key=lambda f: -f.strength)[:MOST]]
    if first is None:
        lead = f"{name} shows something, but no cause is established."
    else:
        lead = (
            f"Probably not by itself: {name} shows something, and I blame "
            f"{plain(first.subject, 60)}"
        )
        lead += f" ({percent(first.confidence)})."
        lines.append(answered.said(first.summary, first.findings[:2], "Against"))
    return AnswerText(lead=lead, lines=tuple(lines))


def _calm_or_unseen(
    answered: AnsweredCase, subject: Subject, name: str, ruled_out: Sequence[Finding]
) -> AnswerText:
    told = tuple(answered.line(f, "Ruled out") for f in ruled_out[:MOST])
    series = _series(answered, subject)
    calls = [(a, b) for a, b in _calls(answered) if {a, b} & set(subject.names)]
    if series:
        shown = ", ".join(plain(s, 60) for s in series[:SIGNALS])
        were = "series of it was" if len(series) == 1 else "series of it were"
        lead = f"Nothing speaks for {name}: {len(series)} {were} collected, and none stands out."
        return AnswerText(lead=lead, lines=(answered.said(shown, bold="Looked at"), *told))
    if told:
        return AnswerText(lead=f"Nothing speaks for {name}.", lines=told)
    lines = tuple(
        answered.said(f"{plain(a, 60)} calls {plain(b, 60)}", bold="Known") for a, b in calls[:3]
    )
    more = (f"To have me look there, reply: check {name} too",) if subject.is_service else ()
    return AnswerText(lead=f"I have nothing about {name} in this case.", lines=lines, more=more)


def _series(answered: AnsweredCase, subject: Subject) -> list[str]:
    """The metrics, logs and spans of the case that are about it, by name."""
    case = answered.case
    found: list[str] = []
    if case.metrics.height:
        pairs = (
            case.metrics.select("service", "signal").unique().drop_nulls().sort("service", "signal")
        )
        for service, signal in pairs.iter_rows():
            if _pair_is_about(service, signal, subject):
                found.append(f"{service} {signal}")
    for kind, table in (("logs", case.logs), ("spans", case.spans)):
        if subject.names and table.filter(pl.col("service").is_in(list(subject.names))).height:
            found.append(f"{kind} of {subject.names[0]}")
    return found


def _pair_is_about(service: str, signal: str, subject: Subject) -> bool:
    if subject.names:
        return any(_same(service, n) or signal == n for n in subject.names)
    if subject.thing is None:
        return False
    pieces = {
        p
        for w in words(f"{service} {signal}")
        for p in w.replace("_", "-").replace("/", "-").split("-")
    }
    return classify(signal) in CLASSES.get(subject.thing, frozenset()) or bool(
        pieces & thing_words(subject.thing)
    )


def _calls(answered: AnsweredCase) -> list[tuple[str, str]]:
    rows = (
        answered.case.topology.select("caller", "callee")
        .unique()
        .sort("caller", "callee")
        .iter_rows()
    )
    return [(str(a), str(b)) for a, b in rows][:2000]


def _is_cause(cause: Cause, subject: Subject, answered: AnsweredCase) -> bool:
    """By its subject, the change it blames, or, of a kind of thing, by its findings."""
    if subject.names:
        return any(
            _same(cause.subject, n) or cause.change == n or cause.signal == n for n in subject.names
        )
    if subject.thing == "deploy":
        return cause.change is not None and cause.kind in ("deploy", "merge", "scale")
    if subject.thing is None:
        return False
    own = [f for f in answered.some(cause.findings[:3]) if _same(f.subject, cause.subject)]
    by_name = set(cause.subject.casefold().replace("_", "-").replace("/", "-").split("-"))
    return bool(by_name & thing_words(subject.thing)) or any(concerns(f, subject) for f in own[:1])


def _same(one: str, name: str) -> bool:
    """`rank 2` is also `pretrain-ranker/rank 2`."""
    a, b = one.casefold(), name.casefold()
    return a == b or a.endswith(f"/{b}") or b.endswith(f"/{a}")
