"""`explain F3`: a finding with its numbers, how it was computed, what was asked for it, and what it
counts for."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.suspects.training_causes import TRAINING_CAUSES
from analysis.vocabulary import Evidence, Finding
from analysis.wording.phrases import counted, number, plain
from bot.answer.lines import at
from bot.conversation.held import Held
from bot.intake.questions.asked import AnswerLine, AnswerText

NUMBERS = 8
EVIDENCE = 3
HOW: Mapping[str, str] = {
    "metric_shift": "Median and spread of the incident against the baseline; the onset by a "
    "two-sided CUSUM; how usual "
    "such a move is, by windows in which nothing was wrong",
    "span_own_time": "What a visit to the service spends itself, its duration less its waits for "
    "others, "
    "against the baseline",
    "call_gap": "Client span less the callee's span: time in which neither side was working, "
    "against the baseline",
    "span_errors": "Share of failed spans per service and operation, against the baseline",
    "critical_path": "Each request's time shared out over its critical path, against the baseline",
    "error_origin": "The deepest failing span whose own calls do not fail",
    "failure_signature": "Lines that match a known failure, weighed against the baseline like any "
    "other line",
    "log_new": "A template of log lines that the baseline does not have",
    "log_surge": "A template of log lines, counted against the baseline's own counts (negative "
    "binomial)",
    "log_vanished": "A template of log lines that the baseline predicts and that no longer comes",
    "flow_break": "A step that always followed another in a service's requests, and no longer "
    "comes",
    "fan_out": "Calls of one operation per visit, against the baseline",
    "retries": "Calls that are repeated after they failed, against the baseline",
    "callee_missing": "Calls that no longer reach the server span that they always had",
    "change_near": "When it reached production, where, what its text shares with what fails, and "
    "what fails without "
    "any change",
    "change_ruled_out": "Weighed like the other changes, and found wanting for the reason that it "
    "names",
    "signal_recovered": "The first point after the last one that lay nearer to the incident's "
    "level than to the "
    "baseline's",
    "alert_flapping": "The monitor's own states over a day",
    "threshold_in_normal_range": "The baseline's points against the alert's threshold",
    "usual_move": "How often the baseline moved as far and as long",
    "signal_stopped": "Usual steps that are missing at the end while other series go on",
    "earlier_investigation": "An earlier cause, tested again on this case; it is no evidence",
    "answer_record": "How many earlier answers of this confidence people called right",
}
"""By kind; docs/how-it-decides.md says more."""
BY_DOCTOR = "By a rule of the trace doctor on the job's traces, dumps and logs"


def explain(held: Held, ids: tuple[str, ...]) -> AnswerText:
    """The first finding that is named; of several, the others by their sentences."""
    known = held.some(ids)
    unknown = [i for i in ids if i not in held.findings]
    if not known:
        have = ", ".join(list(held.findings)[:12])
        more = (f"There are {have}{', …' if len(held.findings) > 12 else ''}",) if have else ()
        return AnswerText(
            lead=f"There is no finding {', '.join(unknown[:3])} in this investigation.", more=more
        )
    finding = known[0]
    lines = [held.line(finding), AnswerLine(text=how(finding), bold="How")]
    lines += _numbers(finding)
    lines += [AnswerLine(text=_counts_for(held, finding), bold="Counts for")]
    items = {e.id: e for e in held.case.evidence}
    lines += [_asked(held, finding, items[e]) for e in finding.evidence[:EVIDENCE] if e in items]
    fix = finding.details.get("fix")
    if isinstance(fix, str) and fix:
        lines.append(AnswerLine(text=plain(fix, 400), bold="What to do"))
    lines += [held.line(f, f.id) for f in known[1:4]]
    more = (f"There is no finding {', '.join(unknown[:3])}",) if unknown else ()
    lead = f"{finding.id}: {finding.kind.replace('_', ' ')} of {plain(finding.subject, 80)}"
    return AnswerText(
        lead=lead, lines=tuple(lines), more=more, chart=finding.id if finding.series else None
    )


def how(finding: Finding) -> str:
    """How a finding of its kind is computed."""
    known = HOW.get(finding.kind)
    if known is None and finding.kind in TRAINING_CAUSES:
        source = finding.details.get("source")
        known = BY_DOCTOR + (
            f"; thresholds: {plain(source, 240)}" if isinstance(source, str) and source else ""
        )
    return known or f"By the analyzer of {finding.kind.replace('_', ' ')}"


def _numbers(finding: Finding) -> list[AnswerLine]:
    told = [
        f"{k.replace('_', ' ')} {number(v)}" for k, v in list(finding.numbers.items())[:NUMBERS]
    ]
    strength = f"stands out from its own noise by {number(finding.strength, 2)} of 1"
    lines = [AnswerLine(text=" · ".join([*told, strength]), bold="Numbers")]
    if finding.onset is not None:
        unsure = finding.onset_uncertainty_s
        lines.append(
            AnswerLine(
                text=at(finding.onset) + (f", ±{number(unsure, 2)} s" if unsure else ""),
                bold="Onset",
            )
        )
    return lines


def _counts_for(held: Held, finding: Finding) -> str:
    said = [
        f"cause {c.rank}, {plain(c.subject, 60)}" for c in held.causes if finding.id in c.findings
    ]
    said += [
        f"against cause {c.rank}, {plain(c.subject, 60)}"
        for c in held.causes
        if finding.id in c.contradicting
    ]
    said += ["the impact"] if finding.id in held.diagnosis.impact.findings else []
    return "; ".join(said[:5]) or "nothing: no cause rests on it"


def _asked(held: Held, finding: Finding, item: Evidence) -> AnswerLine:
    window = f", {at(item.window.start)} to {item.window.end:%H:%M:%S}" if item.window else ""
    rows = f", {counted(item.rows, 'row')}" if item.rows is not None else ""
    line = held.said(f"{plain(item.query, 240)}{window}{rows}", (finding.id,))
    return line.model_copy(update={"bold": plain(f"{item.source} {item.kind}", 60)})
