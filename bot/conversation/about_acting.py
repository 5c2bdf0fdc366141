"""Answers to those who want something done, or want to know what would follow: the bot changes
nothing and predicts nothing. It says how a person would do it, and what was measured."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import polars as pl

from faultline.analysis.vocabulary import Cause
from faultline.analysis.wording.names import change_name, subject_name
from faultline.analysis.wording.phrases import capitalised, plain
from faultline.bot.answer.lines import percent
from faultline.bot.conversation import about_subject
from faultline.bot.conversation.about_people import on_call_then
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.intake.questions.subjects import Subject

_SAFE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,60}[a-z0-9])?")
"""A name that may stand in a command that somebody copies; any other is written as NAME."""
_BACK = frozenset(["roll", "rollback", "revert", "undo", "back", "reverted", "reverting"])
_MUTE = frozenset(["mute", "silence", "snooze"])
_ALERTING = frozenset(["ack", "acknowledge", "resolve", "close"])
_CALL = frozenset(["page", "wake", "escalate", "notify", "call", "announce"])
_WRITE = frozenset(["jira", "ticket", "issue", "bug"])
_COMMANDS: Mapping[str, str] = {
    "restart": "kubectl rollout restart deployment/{name}",
    "reboot": "kubectl rollout restart deployment/{name}",
    "kill": "kubectl delete pod -l app={name}",
    "scale": "kubectl scale deployment/{name} --replicas=N",
    "increase": "kubectl scale deployment/{name} --replicas=N",
    "drain": "kubectl drain NODE --ignore-daemonsets",
    "cordon": "kubectl cordon NODE",
}
"""How it is done in Kubernetes, where most services run."""


def action(answered: AnsweredCase, tokens: Sequence[str], subject: Subject | None) -> AnswerText:
    """Something is to be done: who does it, and how."""
    words = frozenset(tokens)
    if words & _BACK:
        return _roll_back(answered, subject)
    if words & _MUTE:
        sentence = (
            "I didn't mute anything. Use the Mute button under the answer: it keeps me from "
            "investigating this alert again for as long as you choose."
        )
        return AnswerText(
            lead=sentence, more=("To silence it at its source, do that in its own tool",)
        )
    if words & _WRITE:
        sentence = "I change nothing, in trackers either: a person has to open it."
        return AnswerText(lead=sentence, more=("For text to copy, ask: write a postmortem",))
    if words & _ALERTING:
        sentence = "I change nothing: acknowledge or resolve it in the tool that sent the alert"
        return AnswerText(lead=f"{sentence} ({plain(answered.case.alert.source, 40)}).")
    if words & _CALL:
        return _call(answered)
    return _other(answered, tokens, subject)


def hypothetical(
    answered: AnsweredCase, tokens: Sequence[str], subject: Subject | None
) -> AnswerText:
    """What would happen if: only what the evidence supports."""
    sentence = "I can't predict that; I can say what the evidence supports."
    first = answered.first
    lines: list[AnswerLine] = []
    if first is not None and frozenset(tokens) & _BACK:
        sentence = f"I can't predict that, but {_supported(first)}."
    # The line about the cause says it already.
    if subject is not None and subject.is_identified and not _names_cause(first, subject):
        subject_answer = about_subject.about(answered, subject)
        lines.append(AnswerLine(text=subject_answer.lead))
        lines += subject_answer.lines[:2]
    if first is not None:
        label = f"Cause ({percent(first.confidence)})"
        lines.append(answered.statement(answered.view.headline, first.findings[:2], label))
    lines += _steps(answered)[:1]
    more = ("To see afterwards whether it helped, ask: is it still happening?",)
    return AnswerText(lead=sentence, lines=tuple(lines), more=more)


def _roll_back(answered: AnsweredCase, subject: Subject | None) -> AnswerText:
    row = _change_meant(answered, subject)
    first = answered.first
    lines: list[AnswerLine] = []
    if row is None:
        sentence = "I change nothing, and I know of no change to take back."
        if first is not None:
            lines.append(AnswerLine(text=capitalised(_supported(first))))
        return AnswerText(lead=sentence, lines=(*lines, *_steps(answered)))
    change = change_name(str(row["id"]))
    service = plain(str(row["service"]), 60)
    sentence = f"I change nothing: a person has to take back {change} of {service}."
    # Only these have a deployment to go back to; flags and settings are set back.
    if row["kind"] in ("deploy", "merge", "scale", "rollout"):
        command = f"kubectl rollout undo deployment/{_safe(service)}"
        how_back = (
            f"{command}; or deploy the version before it with your pipeline, or revert the commit"
        )
    elif row["kind"] in ("job", "restart"):
        how_back = "What has started cannot be taken back: stop the job, or look what came with it"
    else:
        how_back = (
            "Set it back where it was changed: in the configuration repository or the flag service"
        )
    lines.append(AnswerLine(text=how_back, bold="How"))
    if first is not None and first.change == row["id"]:
        lines += _steps(answered)
    elif first is not None:
        other = f"The evidence doesn't point to {change}: {answered.view.headline}"
        lines.append(answered.statement(other, first.findings[:2], "But"))
    return AnswerText(lead=sentence, lines=tuple(lines))


def _change_meant(answered: AnsweredCase, subject: Subject | None) -> Mapping[str, object] | None:
    """The change that is named, the latest of the service that is named, or the blamed one."""
    first, table = answered.first, answered.case.changes
    rows = table.clear()
    if subject is not None and subject.names:
        names = list(subject.names)
        rows = table.filter(pl.col("id").is_in(names))
        if not rows.height:
            rows = table.filter(pl.col("service").is_in(names))
    elif first is not None and first.change:
        rows = table.filter(pl.col("id") == first.change)
    end = answered.case.scope.incident.end
    latest = rows.filter(pl.col("time") <= end).sort("time", descending=True).head(1)
    return next(latest.iter_rows(named=True), None)


def _supported(first: Cause) -> str:
    """What speaks for taking a change back."""
    name, sure = plain(subject_name(first.subject), 60), percent(first.confidence)
    if first.change is None:
        return f"nothing points to a change: I blame {name} ({sure})"
    return f"the evidence points to {change_name(first.change)} of {name} ({sure})"


def _call(answered: AnsweredCase) -> AnswerText:
    sentence = "I change nothing and page nobody: do that in your paging tool."
    lines = []
    for level, names in on_call_then(answered).items():
        lines.append(AnswerLine(text=plain(names, 200), bold=plain(level, 40)))
    if lines:
        sentence += " On call when it alerted:"
    return AnswerText(
        lead=sentence, lines=tuple(lines[:3]), more=("To ask again: who is on call?",)
    )


def _other(answered: AnsweredCase, tokens: Sequence[str], subject: Subject | None) -> AnswerText:
    name, first = _target(answered, subject), answered.first
    verb = next((word for word in tokens if word in _COMMANDS), "")
    what = "do that"
    lines = []
    if verb and name:
        what = f"{verb} {plain(name, 60)}"
        command = _COMMANDS[verb].format(name=_safe(name))
        lines.append(AnswerLine(text=f"{command}, or the same in your console", bold="How"))
    is_the_cause = subject is not None and _names_cause(first, subject)
    if first is not None and not is_the_cause:
        lines.append(answered.statement(answered.view.headline, first.findings[:2], "The cause"))
    sentence = f"I change nothing: a person has to {what}."
    return AnswerText(lead=sentence, lines=(*lines, *_steps(answered)))


def _target(answered: AnsweredCase, subject: Subject | None) -> str:
    """The service that is named; of a kind of thing the suspect that is one."""
    if subject is not None and subject.names:
        return subject.names[0]
    if subject is not None:
        for cause in answered.causes:
            if about_subject.is_cause(cause, subject, answered):
                return cause.subject
    return ""


def _steps(answered: AnsweredCase) -> tuple[AnswerLine, ...]:
    lines = []
    for step in answered.view.next_steps[:2]:
        lines.append(answered.statement(capitalised(step.text), step.findings[:2], "I'd do"))
    return tuple(lines)


def _names_cause(first: Cause | None, subject: Subject) -> bool:
    return first is not None and any(about_subject.is_named(first, n) for n in subject.names)


def _safe(name: str) -> str:
    return name if _SAFE.fullmatch(name) else "NAME"
