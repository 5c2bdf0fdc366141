"""`explain F3`: a finding with its numbers, how it was computed, what was asked for it, and what it
counts for."""

from __future__ import annotations

from faultline.analysis.analyzers import finding_kind, is_training
from faultline.analysis.vocabulary import Evidence, Finding
from faultline.analysis.wording.phrases import counted, number, plain
from faultline.bot.answer.lines import at
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText

NUMBERS = 8
EVIDENCE = 3


def explain(answered: AnsweredCase, ids: tuple[str, ...]) -> AnswerText:
    """The first finding that is named; of several, the others by their sentences."""
    findings = answered.some(ids)
    unknown = [i for i in ids if i not in answered.findings]
    if not findings:
        have = ", ".join(list(answered.findings)[:12])
        more = (f"There are {have}{', …' if len(answered.findings) > 12 else ''}",) if have else ()
        return AnswerText(
            lead=f"There is no finding {', '.join(unknown[:3])} in this investigation.", more=more
        )
    finding = findings[0]
    lines = [answered.line(finding), AnswerLine(text=how(finding), bold="How")]
    lines += _numbers(finding)
    lines += [AnswerLine(text=_counts_for(answered, finding), bold="Counts for")]
    items = {e.id: e for e in answered.case.evidence}
    lines += [
        _query_line(answered, finding, items[e]) for e in finding.evidence[:EVIDENCE] if e in items
    ]
    if finding.details.fix:
        lines.append(AnswerLine(text=plain(finding.details.fix, 400), bold="What to do"))
    lines += [answered.line(f, f.id) for f in findings[1:4]]
    more = (f"There is no finding {', '.join(unknown[:3])}",) if unknown else ()
    phrase = f"{finding.id}: {finding.kind.replace('_', ' ')} of {plain(finding.subject, 80)}"
    # Without a series there is nothing to draw.
    return AnswerText(
        lead=phrase, lines=tuple(lines), more=more, chart=finding.id if finding.series else None
    )


def how(finding: Finding) -> str:
    """How a finding of its kind is computed; of a training job's, where the thresholds come
    from."""
    method = finding_kind(finding.kind).how
    source = finding.details.source
    if source and is_training(finding):
        return f"{method}; thresholds: {plain(source, 240)}"
    return method


def _numbers(finding: Finding) -> list[AnswerLine]:
    figures = [
        f"{k.replace('_', ' ')} {number(v)}" for k, v in list(finding.numbers.items())[:NUMBERS]
    ]
    strength = f"stands out from its own noise by {number(finding.strength, 2)} of 1"
    lines = [AnswerLine(text=" · ".join([*figures, strength]), bold="Numbers")]
    if finding.onset is not None:
        unsure = finding.onset_uncertainty_s
        lines.append(
            AnswerLine(
                text=at(finding.onset) + (f", ±{number(unsure, 2)} s" if unsure else ""),
                bold="Onset",
            )
        )
    return lines


def _counts_for(answered: AnsweredCase, finding: Finding) -> str:
    roles = [
        f"cause {c.rank}, {plain(c.subject, 60)}"
        for c in answered.causes
        if finding.id in c.findings
    ]
    roles += [
        f"against cause {c.rank}, {plain(c.subject, 60)}"
        for c in answered.causes
        if finding.id in c.contradicting
    ]
    roles += ["the impact"] if finding.id in answered.diagnosis.impact.findings else []
    return "; ".join(roles[:5]) or "nothing: no cause rests on it"


def _query_line(answered: AnsweredCase, finding: Finding, item: Evidence) -> AnswerLine:
    window = f", {at(item.window.start)} to {item.window.end:%H:%M:%S}" if item.window else ""
    rows = f", {counted(item.rows, 'row')}" if item.rows is not None else ""
    line = answered.statement(f"{plain(item.query, 240)}{window}{rows}", (finding.id,))
    return line.model_copy(update={"bold": plain(f"{item.source} {item.kind}", 60)})
