"""One answer as one value: what it says, in order, decided once for everything that shows it.

Slack, PagerDuty, plain messages, the page, report.md, the terminal, JSON, the exports and the
conversation render this value. They choose layout, length and punctuation, and nothing else: which
cause is the first, what to do next, what an answer rests on and what is memory is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from faultline.analysis.case.earlier import KIND as EARLIER
from faultline.analysis.case.earlier import RECORD
from faultline.analysis.kinds.finding_kinds import CHANGE_RULED_OUT
from faultline.analysis.vocabulary import (
    Alert,
    Cause,
    Claim,
    Decision,
    Diagnosis,
    Evidence,
    Finding,
    Gap,
    Guidance,
    Impact,
    ModelUse,
    Report,
    Section,
    Verdict,
)
from faultline.analysis.wording.names import subject_name
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.decision_words import decision_line
from faultline.bot.answer.writer.doubts import remaining_gaps, tells_apart
from faultline.bot.answer.writer.headline import with_called_names
from faultline.bot.answer.writer.next_steps import routing_step
from faultline.bot.answer.writer.plain_text import quotable
from faultline.bot.answer.writer.story import began, is_explained, story_of

HIGH, MEDIUM = 0.75, 0.5
"""From these confidences on it is called high, and medium."""
CAUSE_CONFIDENCE = 0.9
"""From here on a cause is called found. The state and the confidence say the same."""
NO_REPORT = "the model's report: "
"""Begins the line of `Report.dropped` that says why a model gave none."""
HOW_SURE = ((CAUSE_CONFIDENCE, "Very likely"), (MEDIUM, "Likely"), (0.0, "Possible"))
STEP_FINDINGS = 3
"""Findings that a cause's own next step cites."""

VERDICT_LABELS: Mapping[Verdict, str] = {
    Verdict.CAUSE_FOUND: "Cause found",
    Verdict.RECOVERED: "Recovered",
    Verdict.NO_ACTIVE_INCIDENT: "No active incident",
    Verdict.INSUFFICIENT_EVIDENCE: "Not enough evidence",
}

LOCATED = "Located"
"""The state of an answer that knows where the trouble is, and not why."""


def percent(share: float) -> str:
    """`86 %`; certainty is never claimed."""
    return f"{min(99, max(0, round(100 * share)))} %"


def state_label(verdict: Verdict, confidence: float, *, explained: bool = True) -> str:
    """The verdict in words that follow the confidence, and what is known."""
    if verdict is Verdict.CAUSE_FOUND and not explained:
        return LOCATED
    if verdict is not Verdict.CAUSE_FOUND or confidence >= CAUSE_CONFIDENCE:
        return VERDICT_LABELS[verdict]
    return "Likely cause" if confidence >= MEDIUM else "Possible cause"


def sure_word(confidence: float) -> str:
    """`Very likely`; of an answer that blames something."""
    return next(word for least, word in HOW_SURE if confidence >= least)


def located_words(confidence: float, subject: str) -> str:
    """`95 % sure that it is payments`; of an answer that knows only the place."""
    return f"{percent(confidence)} sure that it is {subject_name(subject)}"


@dataclass(frozen=True)
class AnswerView:
    """What an answer says, from top to bottom.

    `causes` are in the order of their rank, `findings` in that of the diagnosis. Texts are as the
    report and the diagnosis have them: each renderer escapes and cuts them for its own medium.
    """

    alert: Alert
    verdict: Verdict
    headline: str
    confidence: float
    """From 0 to 1."""
    impact: Impact
    causes: tuple[Cause, ...]
    claims: tuple[Claim, ...]
    """What was measured, each with the findings that show it; memory's claims are not among
    them."""
    beside: tuple[Claim, ...]
    """What is happening and what is not sure, said by code where a model wrote only the cause."""
    remembered: tuple[Claim, ...]
    """What memory knows of earlier investigations, tested again; no evidence."""
    ordered_claims: tuple[Claim, ...]
    """`claims` and `remembered` in the order in which the report says them."""
    guidance: tuple[Guidance, ...]
    """What the operator's runbooks say; no evidence either."""
    next_steps: tuple[Claim, ...]
    routing: tuple[Claim, ...]
    """The relabel rule of an alert whose labels name an exporter, as the last of the steps."""
    to_tell_apart: str | None
    """The question that would separate the first two causes."""
    missing: tuple[str, ...]
    gaps: tuple[Gap, ...]
    removed: tuple[str, ...]
    """What was taken out of the report or never came, each with its reason."""
    findings: Mapping[str, Finding]
    evidence: Mapping[str, Evidence]
    written_by: str
    explained: bool = True
    """Whether anything says why the culprit is in trouble: otherwise only the place is known."""
    began: datetime | None = None
    """When the effect began: the one onset of every rendering."""
    model_use: ModelUse | None = None
    record: Finding | None = None
    """How often earlier answers of this kind were right."""
    decision: Decision | None = None
    """None where no model gave a verdict."""
    decision_line: str = ""
    """Who decided, where a model gave one: it stands below the headline."""

    @property
    def cause(self) -> Cause | None:
        """The first one."""
        return self.causes[0] if self.causes else None

    @property
    def other_causes(self) -> tuple[Cause, ...]:
        """Less likely ones, the likeliest first."""
        return self.causes[1:]

    @property
    def refused(self) -> tuple[str, ...]:
        """Claims that the findings do not bear out."""
        return tuple(reason for reason in self.removed if not reason.startswith(NO_REPORT))

    @property
    def suspects(self) -> tuple[Cause, ...]:
        """The causes, unless nothing is wrong: what moved then is no suspect."""
        return () if self.verdict is Verdict.NO_ACTIVE_INCIDENT else self.causes

    @property
    def established(self) -> bool:
        """Whether the first cause is one that the evidence points to."""
        return self.verdict in (Verdict.CAUSE_FOUND, Verdict.RECOVERED)

    @property
    def suspected_only(self) -> bool:
        """Whether the first cause is named, but not established."""
        return self.verdict is Verdict.INSUFFICIENT_EVIDENCE

    @property
    def verdict_label(self) -> str:
        """The verdict for people."""
        return VERDICT_LABELS[self.verdict]

    @property
    def state_label(self) -> str:
        """The verdict in words that follow the confidence."""
        return state_label(self.verdict, self.confidence, explained=self.explained)

    @property
    def how_sure(self) -> str:
        """`Very likely (95 %)`; empty where nothing is blamed."""
        if not self.established or self.cause is None:
            return ""
        # The alert names that service already.
        if not self.explained and self.cause.subject == self.alert.service:
            return f"{percent(self.confidence)} sure of the place; why is not known"
        if not self.explained:
            return located_words(self.confidence, self.cause.subject)
        return f"{sure_word(self.confidence)} ({percent(self.confidence)})"

    def section(self, section: Section) -> tuple[Claim, ...]:
        """What is said in one section of the answer; memory's claims have their own."""
        return tuple(claim for claim in (*self.claims, *self.beside) if claim.section is section)

    @property
    def against(self) -> tuple[Finding, ...]:
        """Findings that contradict the first cause, those of ruled-out explanations among them."""
        return self.findings_of(self.cause.contradicting) if self.cause else ()

    @property
    def really_against(self) -> tuple[Finding, ...]:
        """The same without ruled-out changes: those are evidence against another explanation."""
        return tuple(finding for finding in self.against if finding.kind != CHANGE_RULED_OUT.name)

    @property
    def ruled_out(self) -> tuple[Finding, ...]:
        """Changes that were checked and are no explanation."""
        return tuple(
            finding for finding in self.findings.values() if finding.kind == CHANGE_RULED_OUT.name
        )

    @cached_property
    def rests_on(self) -> frozenset[str]:
        """Ids of findings behind the first cause, the impact and what the report says."""
        cited = set(self.impact.findings)
        # Only the first cause: `named` has what the others rest on.
        for cause in self.causes[:1]:
            cited.update(cause.findings, cause.contradicting)
        for claim in (*self.ordered_claims, *self.next_steps):
            cited.update(claim.findings)
        return frozenset(cited)

    @cached_property
    def named(self) -> tuple[Finding, ...]:
        """Findings that the report or any cause cites, in the diagnosis's order."""
        cited = set(self.rests_on)
        for cause in self.causes:
            cited.update(cause.findings, cause.contradicting)
        return tuple(finding for finding in self.findings.values() if finding.id in cited)

    def findings_of(self, ids: Sequence[str]) -> tuple[Finding, ...]:
        """The findings of these ids, without ids that the diagnosis does not have."""
        return tuple(self.findings[finding_id] for finding_id in ids if finding_id in self.findings)


def answer_view(
    alert: Alert,
    diagnosis: Diagnosis,
    report: Report | None,
    *,
    gaps: Sequence[Gap] = (),
    evidence: Sequence[Evidence] = (),
) -> AnswerView:
    """The answer. Without a report, which a case can have lost, the diagnosis speaks for itself."""
    causes = tuple(sorted(diagnosis.causes, key=lambda cause: cause.rank))
    findings = {finding.id: finding for finding in diagnosis.findings}
    # Say nothing in place of a report that is lost.
    written = report or Report(headline="", claims=())
    claims = written.claims
    # What is odd about the alert itself, such as a clock that is ahead, whoever wrote the report.
    notes = [
        Claim(text=quotable(note), findings=(), section=Section.UNSURE) for note in alert.notes
    ]
    by_code = word(diagnosis, alert)
    named = with_called_names(diagnosis)
    story = story_of(named, alert)
    question = diagnosis.next_query if tells_apart(story, named) else None
    record = [finding for finding in diagnosis.findings if finding.kind == RECORD]
    return AnswerView(
        alert=alert,
        verdict=diagnosis.verdict,
        headline=_headline(alert, causes, report),
        confidence=diagnosis.confidence,
        impact=diagnosis.impact,
        causes=causes,
        claims=(*notes, *(claim for claim in claims if not _is_memory(claim, findings))),
        beside=_beside(claims, by_code),
        remembered=tuple(claim for claim in claims if _is_memory(claim, findings)),
        ordered_claims=(*claims, *notes),
        guidance=written.guidance,
        next_steps=_next_steps(diagnosis.verdict, causes, report),
        routing=routing_step(alert),
        to_tell_apart=question.text if question else None,
        missing=remaining_gaps(diagnosis),
        gaps=tuple(gaps),
        removed=written.dropped,
        findings=findings,
        evidence={item.id: item for item in evidence},
        written_by=written.written_by,
        explained=is_explained(story),
        began=began(diagnosis),
        model_use=written.model_use,
        record=record[0] if record else None,
        decision=diagnosis.decision,
        decision_line=quotable(decision_line(diagnosis)),
    )


def _beside(claims: Sequence[Claim], by_code: Report) -> tuple[Claim, ...]:
    """The sections that a report lacks, as the built-in writer has them."""
    has = {claim.section for claim in claims}
    sections = {Section.HAPPENING, Section.UNSURE, Section.CHECKED} - has
    if Section.HAPPENING in has:
        # The built-in writer wrote it: what it left out has no words.
        return ()
    return tuple(claim for claim in by_code.claims if claim.section in sections)


def _headline(alert: Alert, causes: Sequence[Cause], report: Report | None) -> str:
    if report is not None:
        return report.headline
    return causes[0].summary if causes else alert.title


def _next_steps(
    verdict: Verdict, causes: Sequence[Cause], report: Report | None
) -> tuple[Claim, ...]:
    """The report's; where it names none, that of the first cause.

    Where nothing is wrong with what alerts, the first suspect is somebody else's trouble.
    """
    if report is not None and report.next_steps:
        return tuple(report.next_steps)
    established = verdict in (Verdict.CAUSE_FOUND, Verdict.RECOVERED)
    if causes and established and causes[0].next_step:
        first = causes[0]
        return (Claim(text=first.next_step or "", findings=first.findings[:STEP_FINDINGS]),)
    return ()


def _is_memory(claim: Claim, findings: Mapping[str, Finding]) -> bool:
    """By the finding that it cites first: the others show again what memory knows."""
    first = findings.get(claim.findings[0]) if claim.findings else None
    return first is not None and first.kind in (EARLIER, RECORD)
