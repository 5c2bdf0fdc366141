"""Everything one investigation's page shows, read from the store and the case folder and put in the
page's order.

What of a case cannot be read becomes one line of `troubles`; the rest of the page stands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TypeVar

from faultline.analysis.case.folder import Case, read_calls, read_case, read_diagnosis, read_report
from faultline.analysis.errors import FaultlineError
from faultline.analysis.kinds.finding_details import EarlierDetails
from faultline.analysis.vocabulary import (
    Alert,
    Cause,
    Claim,
    Diagnosis,
    Finding,
    Gap,
    Report,
    Section,
    Verdict,
)
from faultline.analysis.wording.phrases import capitalised, counted, plain
from faultline.bot.answer.lines import INFERRED, NO_STEP, SECOND_OPINION
from faultline.bot.answer.view import AnswerView, answer_view
from faultline.bot.answer.writer.built_in import is_memory
from faultline.bot.policy.values import ENDED
from faultline.bot.store.store import Progress, StoredInvestigation
from faultline.bot.web.answer_state import StateView, queued_view, state_view, stored_state
from faultline.bot.web.evidence_groups import (
    CitedClaim,
    EvidenceGroup,
    NextStep,
    cited_claims,
    evidence_groups,
    linkable_ids,
    next_steps,
    summary_of,
)
from faultline.bot.web.pictures import DrawnMap, DrawnPicture, drawn_chart, drawn_map, drawn_steps
from faultline.bot.web.progress_steps import ProgressStep, progress_steps
from faultline.bot.web.timeline import Change, Joined, Timeline, build_timeline, read_log_counts

# What memory knows, as the page shows it: its sentences, and the earlier investigations with links.

MAX_ROWS = 10


@dataclass(frozen=True)
class EarlierRow:
    """One earlier investigation: when, its alert, the cause it named, and whether this alert
    has it too."""

    id: str
    when: str
    alert: str
    cause: str
    outcome: str


@dataclass(frozen=True)
class EarlierView:
    """The findings that memory made, and the investigations behind them."""

    findings: tuple[Finding, ...]
    rows: tuple[EarlierRow, ...]


NOTHING_EARLIER = EarlierView((), ())


def earlier_view(diagnosis: Diagnosis) -> EarlierView:
    """The section of a diagnosis; rows that name no investigation are left out."""
    findings = tuple(f for f in diagnosis.findings if is_memory(f))
    rows: dict[str, EarlierRow] = {}
    for finding in findings:
        details = EarlierDetails.of(finding)
        for row in details.tested if details else ():
            if row.investigation:
                rows[row.investigation] = EarlierRow(
                    row.investigation, row.when, row.alert, row.cause, row.outcome
                )
    return EarlierView(findings, tuple(rows.values())[:MAX_ROWS])


# The one line that a folded section shows: what a reader would learn from opening it.

LONGEST = 150
"""Characters: two lines on a phone, and one on a desktop."""


def timeline_line(timeline: Timeline) -> str:
    """What came first of that on which the answer rests."""
    decisive = (event for event in timeline.events if event.decisive)
    onsets = (event for event in timeline.events if event.kind == "onset")
    for event in (*islice(decisive, 1), *islice(onsets, 1)):
        return plain(f"{event.label}: {event.note}, {event.distance}", LONGEST)
    return "Only the alert itself"


def gaps_line(gaps: Sequence[Gap]) -> str:
    """The first, and how many more."""
    first = gaps[0]
    line = plain(f"{capitalised(first.kind)} from {first.source}: {first.reason}", LONGEST)
    return f"{line} (and {len(gaps) - 1} more)" if len(gaps) > 1 else line


def similar_line(earlier: EarlierView) -> str:
    """What memory says first."""
    return plain(earlier.findings[0].sentence, LONGEST)


def decided_line(answer: AnswerView) -> str:
    """How sure the answer is, and what it was chosen from."""
    count = len(answer.other_causes)
    if answer.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return "What alerts is inside its usual range, or back in it"
    if not answer.causes:
        return "No candidate was found"
    if answer.suspected_only:
        return f"{counted(count + 1, 'candidate')}, none of them established"
    if not count:
        return f"{answer.how_sure}; there was no other candidate"
    return f"{answer.how_sure}; {counted(count, 'other candidate')} weighed"


SHORTEST_STAGE_S = 0.05
CHANGES_BEFORE = timedelta(days=2)
"""Rollouts that Kubernetes keeps may be months old: they say how often there is one, no more."""
PEOPLE = "people"
"""Lines that say what people did, hours later perhaps, are no stage of the work."""

T = TypeVar("T")


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
    state: StateView
    confidence: float | None
    headline: str
    over: bool
    since: datetime | None = None
    """When the trouble began, if that is known."""
    answer: AnswerView | None = None
    diagnosis: Diagnosis | None = None
    report: Report | None = None
    happening: tuple[CitedClaim, ...] = ()
    why_label: str = "Why"
    why: tuple[CitedClaim, ...] = ()
    next_steps: tuple[NextStep, ...] = ()
    unsure: tuple[CitedClaim, ...] = ()
    by_model: tuple[tuple[str, tuple[CitedClaim, ...]], ...] = ()
    """What a model adds in its own words, below its label."""
    causes: tuple[CauseView, ...] = ()
    groups: tuple[EvidenceGroup, ...] = ()
    timeline: Timeline | None = None
    incident_map: DrawnMap | None = None
    step_bars: DrawnPicture | None = None
    decisive_chart: DrawnPicture | None = None
    earlier: EarlierView = NOTHING_EARLIER
    gaps: tuple[Gap, ...] = ()
    progress: tuple[Progress, ...] = ()
    steps: tuple[ProgressStep, ...] = ()
    stages: tuple[StageView, ...] = ()
    troubles: tuple[str, ...] = ()
    has_case: bool = False
    has_traces: bool = False
    """Whether the case holds traces of a training job."""

    @property
    def linkable_ids(self) -> frozenset[str]:
        """Ids that a citation may link to."""
        return linkable_ids(self.groups) | {finding.id for finding in self.earlier.findings}

    @property
    def has_pictures(self) -> bool:
        """Whether anything is drawn beside the answer."""
        return bool(self.incident_map or self.step_bars or self.decisive_chart)

    @property
    def no_step(self) -> str:
        """What to do where no step follows from the cause."""
        return NO_STEP[self.diagnosis.verdict] if self.diagnosis else ""

    @property
    def folded(self) -> dict[str, str]:
        """The one line of each folded section that has anything in it."""
        lines = {}
        if self.timeline:
            lines["timeline"] = timeline_line(self.timeline)
        if self.groups:
            lines["evidence"] = summary_of(self.groups)
        if self.gaps:
            lines["gaps"] = gaps_line(self.gaps)
        if self.earlier.findings:
            lines["similar"] = similar_line(self.earlier)
        if self.answer:
            lines["decided"] = decided_line(self.answer)
        return lines

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
    stored = investigation
    failed = stored.status == "failed"
    state = stored_state(stored)
    view = InvestigationView(
        investigation=stored,
        alert=stored.alert,
        state=queued_view(ahead) if ahead else state,
        confidence=stored.confidence,
        # The stored headline of a failed one says why there is no answer.
        headline=stored.alert.title if failed else stored.headline or stored.alert.title,
        over=stored.status in ENDED,
        progress=tuple(progress),
        steps=progress_steps(progress, started=stored.status != "accepted"),
        stages=_stages(progress, stored),
    )
    if folder is None:
        lost = (
            "The case folder of this investigation is not there any more."
            if stored.status == "done"
            else None
        )
        return replace(view, troubles=tuple(filter(None, [trouble or lost])))
    return _with_case(view, folder)


def _with_case(view: InvestigationView, folder: Path) -> InvestigationView:
    troubles: list[str] = []
    done = view.investigation.status == "done"
    # A case that is still being written lacks files, which is no trouble then.
    case = _read(
        lambda: read_case(folder),
        troubles,
        is_expected=view.over or (folder / "alert.json").exists(),
    )
    diagnosis = _read(
        lambda: read_diagnosis(folder),
        troubles,
        is_expected=done or (folder / "findings.json").exists(),
    )
    report = _read(
        lambda: read_report(folder), troubles, is_expected=done or (folder / "report.json").exists()
    )
    view = replace(view, has_case=True, gaps=case.gaps if case else (), report=report)
    if case is not None:
        # What the investigation learned of its alert stands in the case.
        alert = view.alert.model_copy(update={"notes": case.alert.notes})
        view = replace(view, has_traces=bool(case.trace_files), alert=alert)
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
        answer = answer_view(view.alert, diagnosis, report, gaps=case.gaps, evidence=case.evidence)
        view = replace(
            view,
            timeline=timeline,
            incident_map=drawn_map(answer, calls),
            step_bars=drawn_steps(diagnosis),
            decisive_chart=_read(lambda: drawn_chart(case, diagnosis), troubles),
        )
    # Several reads may fail for one reason, which is named once.
    return replace(view, troubles=tuple(dict.fromkeys(troubles)))


def _read(reader: Callable[[], T], troubles: list[str], *, is_expected: bool = True) -> T | None:
    if not is_expected:
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
    answer = answer_view(view.alert, diagnosis, report, gaps=view.gaps, evidence=evidence)
    home = f"/investigations/{view.investigation.id}"
    causes = []
    for cause in answer.causes:
        causes.append(
            CauseView(
                cause, answer.findings_of(cause.findings), answer.findings_of(cause.contradicting)
            )
        )
    failed = view.investigation.status == "failed"
    state = state_view(
        view.investigation.status,
        answer.verdict.value,
        answer.confidence,
        culprit=answer.cause.subject if answer.cause else None,
        explained=answer.explained,
    )
    # An answer without report and without a cause has no headline but the stored one.
    headline = answer.headline if report or answer.causes else view.headline
    # Without an incident there is no trouble that could have begun.
    nothing = diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT
    return replace(
        view,
        answer=answer,
        diagnosis=diagnosis,
        state=view.state if failed else state,
        since=None if nothing else diagnosis.impact.since,
        confidence=answer.confidence,
        headline=view.headline if failed else headline,
        happening=cited_claims(answer.section(Section.HAPPENING), answer, home),
        why_label="Why" if answer.established else "What was seen",
        why=cited_claims(answer.section(Section.WHY), answer, home),
        next_steps=next_steps(answer, home),
        unsure=cited_claims(_doubts(answer), answer, home),
        by_model=tuple(_by_model(answer, home)),
        causes=tuple(causes),
        groups=evidence_groups(answer),
        earlier=earlier_view(diagnosis),
    )


def _by_model(answer: AnswerView, home: str) -> Iterator[tuple[str, tuple[CitedClaim, ...]]]:
    labelled = ((SECOND_OPINION, Section.SECOND_OPINION), (INFERRED, Section.INFERRED))
    for label, section in labelled:
        claims = answer.section(section)
        if claims:
            yield label, cited_claims(claims, answer, home)


def _doubts(answer: AnswerView) -> Iterator[Claim]:
    """What could prove the answer wrong. Changes that were ruled out are listed as evidence."""
    ruled_out = {finding.id for finding in answer.ruled_out}
    for claim in answer.section(Section.UNSURE):
        if not claim.findings or not ruled_out.issuperset(claim.findings):
            yield claim


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
        # `collect prometheus` and `collect loki` are parts of one stage.
        ends[(line.stage.split() or [""])[0]] = line.at
    before = investigation.started_at or investigation.accepted_at
    stages = []
    for stage, end in ends.items():
        # The clocks of two workers may differ.
        stages.append(StageView(stage, max(0.0, (end - before).total_seconds())))
        before = max(before, end)
    return tuple(s for s in stages if s.seconds >= SHORTEST_STAGE_S)
