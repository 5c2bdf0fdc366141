"""Answers about one subject ("is it the database?", "what about payments?"): the evidence for and
against it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from faultline.analysis.changes.nearby import RULED_OUT
from faultline.analysis.kinds.signals import classify
from faultline.analysis.vocabulary import Cause, Finding, Verdict
from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.lines import percent
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.intake.questions.slack_question import AnswerText
from faultline.bot.intake.questions.subjects import THINGS, Subject
from faultline.bot.intake.questions.words import words

MOST = 5
SIGNALS = 6
MOST_CALLS = 2000
UNLIKELY = 0.1
"""Below, a suspect is named for completeness."""


def about(answered: AnsweredCase, subject: Subject) -> AnswerText:
    """What the case holds about a subject."""
    name = plain(subject.label, 60)
    about_it = [f for f in answered.findings.values() if concerns(f, subject)]
    cause = next((c for c in answered.causes if is_cause(c, subject, answered)), None)
    if cause is not None:
        return _suspected(answered, name, cause, about_it)
    bad = [f for f in about_it if f.kind != RULED_OUT]
    if bad:
        first = answered.first
        lines = [answered.line(f, "For") for f in sorted(bad, key=lambda f: -f.strength)[:MOST]]
        if first is None:
            sentence = f"{name} shows something, but no cause is established."
            return AnswerText(lead=sentence, lines=tuple(lines))
        blamed = f"{plain(first.subject, 60)} ({percent(first.confidence)})"
        sentence = f"Probably not by itself: {name} shows something, and I blame {blamed}."
        lines.append(answered.statement(first.summary, first.findings[:2], "Against"))
        return AnswerText(lead=sentence, lines=tuple(lines))
    return _calm_or_unseen(answered, subject, name, about_it)


def concerns(finding: Finding, subject: Subject) -> bool:
    """Whether a finding is about the subject."""
    if subject.names:
        return any(_same(finding.subject, n) or finding.signal == n for n in subject.names)
    if subject.thing is None:
        return False
    if finding.signal and classify(finding.signal) in THINGS[subject.thing].classes:
        return True
    kind = finding.kind.replace("_", " ")
    tokens = set(words(f"{finding.subject} {finding.signal or ''} {kind} {finding.sentence}"))
    for word in tuple(tokens):
        tokens.update(_pieces(word.replace(".", "-")))
    return bool(tokens & THINGS[subject.thing].words)


def _pieces(name: str) -> list[str]:
    """`orders-db/pool_size` is orders, db, pool and size."""
    return name.replace("_", "-").replace("/", "-").split("-")


def knows(answered: AnsweredCase, subject: Subject) -> bool:
    """Whether the case holds anything at all about it."""
    if _series(answered, subject):
        return True
    return any(concerns(finding, subject) for finding in answered.findings.values())


def _suspected(
    answered: AnsweredCase, name: str, cause: Cause, about_it: Sequence[Finding]
) -> AnswerText:
    evidence = answered.some(cause.findings)
    # A cause may rest on findings about other subjects alone.
    evidence = [f for f in evidence if f in about_it] or evidence
    # The summary of a cause repeats the sentences of its strongest findings.
    unsaid = [f for f in evidence if f.sentence.rstrip(".") not in cause.summary]
    counter = [f for f in answered.some(cause.contradicting) if f.kind != RULED_OUT]
    lines = [answered.statement(cause.summary, cause.findings[:2])]
    lines += [answered.line(f, "For") for f in unsaid[: MOST - 1]]
    lines += [answered.line(f, "Against") for f in counter[:2]]
    suspicion = _suspicion(answered, name, cause)
    return AnswerText(lead=f"{suspicion}.", lines=tuple(lines))


def _suspicion(answered: AnsweredCase, name: str, cause: Cause) -> str:
    sure = percent(cause.confidence)
    if cause.rank > 1:
        first = answered.causes[0]
        leader = f"{plain(first.subject, 60)} ({percent(first.confidence)})"
        likely = "Perhaps" if cause.confidence >= UNLIKELY else "Unlikely"
        return f"{likely}: {name} is suspect {cause.rank} ({sure}), after {leader}"
    if answered.diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE:
        return f"{name} is my first suspect ({sure}), not established"
    return f"Yes, I blame {name} ({sure})"


def _calm_or_unseen(
    answered: AnsweredCase, subject: Subject, name: str, ruled_out: Sequence[Finding]
) -> AnswerText:
    ruled_out_lines = tuple(answered.line(f, "Ruled out") for f in ruled_out[:MOST])
    series = _series(answered, subject)
    calls = [(a, b) for a, b in _calls(answered) if {a, b} & set(subject.names)]
    if series:
        shown = ", ".join(plain(s, 60) for s in series[:SIGNALS])
        were = "series of it was" if len(series) == 1 else "series of it were"
        sentence = (
            f"Nothing speaks for {name}: {len(series)} {were} collected, and none stands out."
        )
        return AnswerText(
            lead=sentence, lines=(answered.statement(shown, bold="Looked at"), *ruled_out_lines)
        )
    if ruled_out_lines:
        return AnswerText(lead=f"Nothing speaks for {name}.", lines=ruled_out_lines)
    lines = [
        answered.statement(f"{plain(a, 60)} calls {plain(b, 60)}", bold="Known")
        for a, b in calls[:3]
    ]
    first = answered.first
    if first is not None:
        lines.append(answered.statement(answered.view.headline, first.findings[:2], "I blame"))
    more = (f"To have me look there, reply: check {name} too",) if subject.is_service else ()
    sentence = f"I collected nothing about {name} in this investigation."
    return AnswerText(lead=sentence, lines=tuple(lines), more=more)


def _series(answered: AnsweredCase, subject: Subject) -> list[str]:
    """The metrics, logs and spans of the case that are about it, by name."""
    case = answered.case
    series: list[str] = []
    if case.metrics.height:
        pairs = (
            case.metrics.select("service", "signal").unique().drop_nulls().sort("service", "signal")
        )
        for service, signal in pairs.iter_rows():
            if _pair_is_about(service, signal, subject):
                series.append(f"{service} {signal}")
    for kind, table in (("logs", case.logs), ("spans", case.spans)):
        if subject.names and table.filter(pl.col("service").is_in(list(subject.names))).height:
            series.append(f"{kind} of {subject.names[0]}")
    return series


def _pair_is_about(service: str, signal: str, subject: Subject) -> bool:
    if subject.names:
        return any(_same(service, n) or signal == n for n in subject.names)
    if subject.thing is None:
        return False
    if classify(signal) in THINGS[subject.thing].classes:
        return True
    requested_words = THINGS[subject.thing].words
    return any(requested_words.intersection(_pieces(word)) for word in words(f"{service} {signal}"))


def _calls(answered: AnsweredCase) -> list[tuple[str, str]]:
    calls = answered.case.topology.select("caller", "callee").unique().sort("caller", "callee")
    return [(str(caller), str(callee)) for caller, callee in calls.head(MOST_CALLS).iter_rows()]


def is_cause(cause: Cause, subject: Subject, answered: AnsweredCase) -> bool:
    """By its subject, the change it blames, or, of a kind of thing, by its findings."""
    if subject.names:
        return any(is_named(cause, name) for name in subject.names)
    if subject.thing == "deploy":
        return cause.change is not None and cause.kind in ("deploy", "merge", "scale")
    if subject.thing is None:
        return False
    if not THINGS[subject.thing].words.isdisjoint(_pieces(cause.subject.casefold())):
        return True
    # Of the findings about the cause's own subject, the first is the one that it rests on most.
    for finding in answered.some(cause.findings[:3]):
        if _same(finding.subject, cause.subject):
            return concerns(finding, subject)
    return False


def is_named(cause: Cause, name: str) -> bool:
    """Whether it is the cause's subject, the change it blames or its signal."""
    return _same(cause.subject, name) or name in (cause.change, cause.signal)


def _same(subject: str, name: str) -> bool:
    """`rank 2` is also `pretrain-ranker/rank 2`."""
    a, b = subject.casefold(), name.casefold()
    return a == b or a.endswith(f"/{b}") or b.endswith(f"/{a}")
