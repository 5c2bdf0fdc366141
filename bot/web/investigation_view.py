"""Everything one investigation's page shows, read from the store and the case folder and put in the
page's order.

What of a case cannot be read becomes one line of `troubles`; the rest of the page stands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal, TypeVar

from analysis.case.folder import Case, read_calls, read_case, read_diagnosis, read_report
from analysis.errors import FaultlineError
from analysis.vocabulary import Alert, Cause, Claim, Diagnosis, Finding, Gap, Report, Section
from bot.answer.view import AnswerView, answer_view
from bot.answer.writer.earlier import is_memory
from bot.store.store import Progress, StoredInvestigation
from bot.web.earlier_view import NOTHING_EARLIER, EarlierView, earlier_view
from bot.web.finding_view import FindingView, finding_view
from bot.web.log_lanes import read_log_counts
from bot.web.pictures import DrawnMap, DrawnPicture, drawn_chart, drawn_map, drawn_steps
from bot.web.timeline import Change, Joined, Timeline, build_timeline

Tone = Literal["fault", "well", "open", "busy", "failed"]

SHORTEST_STAGE_S = 0.05
CHANGES_BEFORE = timedelta(days=2)
"""Rollouts that Kubernetes keeps may be months old: they say how often there is one, no more."""
PEOPLE = "people"
"""Lines that say what people did, hours later perhaps, are no stage of the work."""

T = TypeVar("T")


@dataclass(frozen=True)
class VerdictView:
    """The verdict in words: `tone` chooses its colour, `meaning` explains it in one line."""

    label: str
    tone: Tone
    meaning: str


VERDICTS: Mapping[str, VerdictView] = {
    "cause_found": VerdictView("Cause found", "fault", "The evidence points to the cause below."),
    "recovered": VerdictView("Recovered", "well", "The signals are back at their baseline."),
    "no_active_incident": VerdictView("No active incident", "well", "Nothing left its baseline."),
    "insufficient_evidence": VerdictView(
        "Insufficient evidence", "open", "The evidence does not single out a cause."
    ),
}
ACCEPTED = VerdictView("Queued", "busy", "Accepted; the investigation starts in a moment.")
RUNNING = VerdictView("Investigating", "busy", "Evidence is being collected and analysed.")
FAILED = VerdictView("Failed", "failed", "The investigation ended without an answer.")


def verdict_view(status: str, verdict: str | None) -> VerdictView:
    """The verdict of an investigation, or the state it is in while there is none."""
    if status == "failed":
        return FAILED
    if verdict is not None:
        return VERDICTS.get(verdict, VerdictView(verdict.replace("_", " "), "open", ""))
    return RUNNING if status == "running" else ACCEPTED if status == "accepted" else FAILED


def queued_view(ahead: int) -> VerdictView:
    """What waits behind others."""
    return VerdictView(
        ACCEPTED.label,
        ACCEPTED.tone,
        f"Accepted; about {ahead} wait{'s' if ahead == 1 else ''} before it.",
    )


@dataclass(frozen=True)
class CauseView:
    """A ranked cause with the findings for and against it."""

    cause: Cause
    supporting: tuple[Finding, ...]
    contradicting: tuple[Finding, ...]


@dataclass(frozen=True)
class StageView:
    """How long a stage took, from the last line of the stage before to its own last line."""

    stage: str
    seconds: float


@dataclass(frozen=True)
class InvestigationView:
    """The page, top to bottom."""

    investigation: StoredInvestigation
    alert: Alert
    verdict: VerdictView
    confidence: float | None
    headline: str
    over: bool
    diagnosis: Diagnosis | None = None
    report: Report | None = None
    causes: tuple[CauseView, ...] = ()
    claims: tuple[tuple[str, tuple[Claim, ...]], ...] = ()
    """What is said under each heading, without headings that have nothing."""
    next_steps: tuple[Claim, ...] = ()
    timeline: Timeline | None = None
    incident_map: DrawnMap | None = None
    step_bars: DrawnPicture | None = None
    decisive_chart: DrawnPicture | None = None
    earlier: EarlierView = NOTHING_EARLIER
    findings: tuple[FindingView, ...] = ()
    gaps: tuple[Gap, ...] = ()
    progress: tuple[Progress, ...] = ()
    stages: tuple[StageView, ...] = ()
    troubles: tuple[str, ...] = ()
    has_case: bool = False
    has_traces: bool = False
    """Whether the case holds traces of a training job."""

    @property
    def cited(self) -> list[FindingView]:
        """Findings that the answer rests on: its first cause, the impact or the report."""
        return [f for f in self.findings if f.cited]

    @property
    def uncited(self) -> list[FindingView]:
        """The others."""
        return [f for f in self.findings if not f.cited]

    @property
    def known_ids(self) -> frozenset[str]:
        """Ids that a citation may link to."""
        return frozenset(
            [*(f.finding.id for f in self.findings), *(f.id for f in self.earlier.findings)]
        )

    @property
    def last_seq(self) -> int:
        """Where the stream of progress goes on."""
        return self.progress[-1].seq if self.progress else 0


def build_view(
    investigation: StoredInvestigation,
    progress: Sequence[Progress],
    folder: Path | None,
    trouble: str | None = None,
    ahead: int | None = None,
) -> InvestigationView:
    """Read the case (blocking) and arrange the page. `trouble` says why there is no folder, when
    that is known; `ahead` how many wait before it."""
    over = investigation.status in ("done", "failed")
    view = InvestigationView(
        investigation=investigation,
        alert=investigation.alert,
        verdict=queued_view(ahead)
        if ahead
        else verdict_view(investigation.status, investigation.verdict),
        confidence=investigation.confidence,
        headline=investigation.headline or investigation.alert.title,
        over=over,
        progress=tuple(progress),
        stages=_stages(progress, investigation),
    )
    if folder is None:
        lost = (
            "The case folder of this investigation is not there any more."
            if investigation.status == "done"
            else None
        )
        return replace(view, troubles=tuple(filter(None, [trouble or lost])))
    return _with_case(view, folder)


def _with_case(view: InvestigationView, folder: Path) -> InvestigationView:
    troubles: list[str] = []
    done = view.investigation.status == "done"
    case = _read(
        lambda: read_case(folder), troubles, wanted=view.over or (folder / "alert.json").exists()
    )
    diagnosis = _read(
        lambda: read_diagnosis(folder), troubles, wanted=done or (folder / "findings.json").exists()
    )
    report = _read(
        lambda: read_report(folder), troubles, wanted=done or (folder / "report.json").exists()
    )
    view = replace(view, has_case=True, gaps=case.gaps if case else (), report=report)
    if case is not None:
        view = replace(view, has_traces=bool(case.trace_files))
    if diagnosis is not None:
        view = _with_diagnosis(view, diagnosis, report, case)
    if case is not None and diagnosis is not None:
        changes = _read(lambda: read_changes(case), troubles) or ()
        logs = _read(lambda: read_log_counts(case), troubles)
        joined = [
            Joined(r.alert.started_at, r.alert.title, r.why) for r in view.investigation.related
        ]
        about = (case.alert.started_at, case.alert.title, case.scope.incident)
        timeline = build_timeline(*about, diagnosis, changes, joined, logs)
        calls = _read(lambda: read_calls(folder), troubles) or ()
        said = answer_view(view.alert, diagnosis, report, gaps=case.gaps, evidence=case.evidence)
        view = replace(
            view,
            timeline=timeline,
            incident_map=drawn_map(said, calls),
            step_bars=drawn_steps(diagnosis),
            decisive_chart=_read(lambda: drawn_chart(case, diagnosis), troubles),
        )
    return replace(view, troubles=tuple(dict.fromkeys(troubles)))


def _read(reader: Callable[[], T], troubles: list[str], *, wanted: bool = True) -> T | None:
    if not wanted:
        return None
    try:
        return reader()
    except FaultlineError as error:
        troubles.append(f"This case cannot be read in full. {error}.")
    except OSError as error:
        troubles.append(
            f"This case cannot be read in full: {error.strerror or type(error).__name__}."
        )
    return None


def _with_diagnosis(
    view: InvestigationView, diagnosis: Diagnosis, report: Report | None, case: Case | None
) -> InvestigationView:
    evidence = case.evidence if case else ()
    said = answer_view(view.alert, diagnosis, report, gaps=view.gaps, evidence=evidence)
    causes = []
    for cause in said.causes:
        causes.append(CauseView(cause, said.known(cause.findings), said.known(cause.contradicting)))
    findings = []
    for finding in diagnosis.findings:
        if not is_memory(finding):
            cited = finding.id in said.rests_on
            findings.append(finding_view(finding, said.evidence, cited=cited))
    failed = view.investigation.status == "failed"
    verdict = verdict_view(view.investigation.status, said.verdict.value)
    # An answer without report and without a cause has no headline but the stored one.
    headline = said.headline if report or said.causes else view.headline
    return replace(
        view,
        diagnosis=diagnosis,
        verdict=view.verdict if failed else verdict,
        confidence=said.confidence,
        headline=headline,
        causes=tuple(causes),
        claims=_sections(said),
        next_steps=said.next_steps,
        earlier=earlier_view(diagnosis),
        findings=tuple(findings),
    )


def _sections(said: AnswerView) -> tuple[tuple[str, tuple[Claim, ...]], ...]:
    sections = (
        ("What's happening", said.section(Section.HAPPENING)),
        ("Why" if said.established else "What was seen", said.section(Section.WHY)),
        ("Not sure about", said.section(Section.UNSURE)),
        ("Earlier", said.remembered),
    )
    return tuple((title, claims) for title, claims in sections if claims)


def read_changes(case: Case) -> tuple[Change, ...]:
    """The table of changes, oldest first, without what is long past. Raises EvidenceError."""
    shown_from = case.scope.events_from - CHANGES_BEFORE
    rows = case.changes.sort("time").select(
        "time", "service", "kind", "id", "title", "author", "link"
    )
    changes = []
    for r in rows.iter_rows():
        if r[0] >= shown_from:
            changes.append(Change(r[0], r[1] or "", r[2], r[3], r[4] or "", r[5], r[6]))
    return tuple(changes)


def _stages(
    progress: Sequence[Progress], investigation: StoredInvestigation
) -> tuple[StageView, ...]:
    ends: dict[str, datetime] = {}
    for line in (p for p in progress if p.stage != PEOPLE):
        ends[(line.stage.split() or [""])[0]] = line.at
    before = investigation.started_at or investigation.accepted_at
    stages = []
    for stage, end in ends.items():
        stages.append(StageView(stage, max(0.0, (end - before).total_seconds())))
        before = max(before, end)
    return tuple(s for s in stages if s.seconds >= SHORTEST_STAGE_S)
