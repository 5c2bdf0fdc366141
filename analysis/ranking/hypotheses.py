"""Earlier causes, tested again on this case: does it show the same fault in the same place?

Memory decides nothing: what it leads to is computed after verdict, causes and confidence, and
speaks for nobody. An earlier cause holds again when a finding of this case shows its main fault in
its subject; it does not show when the data that would show it is there, and no such finding is;
otherwise it cannot be tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from faultline.analysis.analyzers import fault_kind, fault_of, phrase_of
from faultline.analysis.case.earlier import (
    KIND,
    RECORD,
    Earlier,
    EarlierCause,
    EarlierInvestigation,
    Recalled,
    Why,
    is_telling,
    level_of,
)
from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import Windows, log_windows, metric_windows, span_windows
from faultline.analysis.changes.nearby import NEAR
from faultline.analysis.kinds.finding_details import (
    ChangeDetails,
    EarlierDetails,
    RecordDetails,
    TestedRow,
)
from faultline.analysis.metrics.usual_moves import CLEAR
from faultline.analysis.vocabulary import Cause, Diagnosis, Finding, Verdict
from faultline.analysis.wording.phrases import plain

STRENGTH = 0.1
"""Of what memory says: below every finding that was measured and matters."""
MAX_RECALLED = 30
MAX_TESTED = 3
MAX_REPORTS = 2
MAX_CAUSES = 3
MAX_TROUBLES = 5
ORDINALS = ("Second", "Third", "Fourth", "Fifth", "Sixth", "Seventh", "Eighth", "Ninth", "Tenth")
CHANGES = {
    "config": "config change",
    "flag": "flag change",
    "scale": "change of scale",
    "job": "run of a job",
    "restart": "restart",
}

Outcome = Literal[
    "holds again", "does not show", "cannot be tested", "marked wrong", "named no cause"
]


@dataclass(frozen=True)
class Tested:
    """An earlier investigation's first cause against this case; `shown` are the findings in which
    it shows again."""

    recalled: Recalled
    outcome: Outcome
    shown: tuple[Finding, ...] = ()
    lack: str = ""

    @property
    def earlier(self) -> EarlierInvestigation:
        """The earlier investigation."""
        return self.recalled.investigation

    @property
    def cause(self) -> EarlierCause | None:
        """What it named first."""
        return self.earlier.causes[0] if self.earlier.causes else None


def causes_to_remember(diagnosis: Diagnosis) -> tuple[EarlierCause, ...]:
    """The first causes of a diagnosis in the form in which they can be tested again; none where
    none was found."""
    # Other verdicts name no cause that could show again.
    if diagnosis.verdict not in (Verdict.CAUSE_FOUND, Verdict.RECOVERED):
        return ()
    findings_by_id = {finding.id: finding for finding in diagnosis.findings}
    earlier_causes = []
    for cause in sorted(diagnosis.causes, key=lambda cause: cause.rank)[:MAX_CAUSES]:
        cited = [
            findings_by_id[cited_id] for cited_id in cause.findings if cited_id in findings_by_id
        ]
        faults = [fault_of(finding) for finding in cited if finding.subject == cause.subject]
        names = dict.fromkeys(fault.name for fault in faults if fault)
        earlier_causes.append(
            EarlierCause(
                subject=cause.subject,
                kind=cause.kind,
                troubles=tuple(names)[:MAX_TROUBLES],
                change=cause.change,
                change_kind=_kind_of_change(cause, cited),
                summary=cause.summary,
            )
        )
    return tuple(earlier_causes)


def _kind_of_change(cause: Cause, cited: Sequence[Finding]) -> str | None:
    """The kind of the change that the cause blames, if any."""
    if not cause.change:
        return None
    for finding in cited:
        details = ChangeDetails.of(finding)
        if details is not None and details.change == cause.change:
            return details.change_kind or None
    return None


def memory_findings(
    case: Case, findings: Sequence[Finding], confidence: float
) -> tuple[Finding, ...]:
    """What memory adds to a case that has been concluded: at most two lines of earlier causes, one
    of the record.

    `findings` are all of the case, numbered; ids go on where theirs end.
    """
    earlier = case.earlier
    recalled = earlier.recalled[:MAX_RECALLED]
    # Of the same alert all; of the same service or like words only what shows again. The newest
    # three.
    reportable = [
        t
        for t in [_test(memory, case, findings) for memory in recalled]
        # A merely similar case that does not show again tells the reader nothing.
        if t.recalled.why == "same_alert" or t.outcome == "holds again"
    ]
    order: dict[Why, int] = {"same_alert": 0, "same_service": 1, "similar_words": 2}
    reportable.sort(key=lambda t: (order[t.recalled.why], -t.earlier.at.timestamp(), t.earlier.id))
    tested = reportable[:MAX_TESTED]
    # The first; when that does not show again, also the first that does.
    if not tested or tested[0].outcome == "holds again":
        most_telling = list(tested[:1])
    else:
        again = [test for test in tested[1:] if test.outcome == "holds again"]
        most_telling = [tested[0], *again[: MAX_REPORTS - 1]]
    reports = [_finding(test, tested, earlier) for test in most_telling]
    reports += _record(earlier, confidence)
    numbered = []
    for n, finding in enumerate(reports, start=len(findings) + 1):
        numbered.append(finding.model_copy(update={"id": f"F{n}"}))
    return tuple(numbered)


def _test(recalled: Recalled, case: Case, findings: Sequence[Finding]) -> Tested:
    earlier = recalled.investigation
    if earlier.judged is not None and not earlier.judged.right:
        return Tested(recalled, "marked wrong")
    if not earlier.causes or not earlier.causes[0].troubles:
        return Tested(recalled, "named no cause")
    cause = earlier.causes[0]
    shown = [f for f in findings if f.subject == cause.subject and f.strength >= CLEAR]
    # Only the main fault decides: the others may be its effects.
    main = _of_fault(shown, cause.troubles[0])
    if main is not None:
        change = _change_of_kind(shown, cause.change_kind) if cause.change_kind else None
        return Tested(recalled, "holds again", (main, change) if change else (main,))
    lack = _lack(cause, case)
    if lack:
        return Tested(recalled, "cannot be tested", lack=lack)
    return Tested(recalled, "does not show")


def _of_fault(findings: Sequence[Finding], name: str) -> Finding | None:
    for finding in findings:
        fault = fault_of(finding)
        if fault is not None and fault.name == name:
            return finding
    return None


def _change_of_kind(shown: Sequence[Finding], kind: str) -> Finding | None:
    """The first change near the onset that is of this kind."""
    for finding in shown:
        details = ChangeDetails.of(finding)
        if finding.kind == NEAR and details and details.change_kind == kind:
            return finding
    return None


def _finding(tested: Tested, all_tested: Sequence[Tested], earlier: Earlier) -> Finding:
    text, numbers = _opening(tested, tested is all_tested[0], earlier)
    cause = tested.cause
    return Finding(
        id="",
        kind=KIND,
        subject=cause.subject if cause and tested.shown else "earlier investigations",
        strength=STRENGTH,
        sentence=f"{text}{_result(tested)}.",
        numbers=numbers,
        details=EarlierDetails(
            investigation=tested.earlier.id,
            outcome=tested.outcome,
            shows_in=tuple(f.id for f in tested.shown),
            tested=tuple(_row(t) for t in all_tested),
        ),
    )


def _row(tested: Tested) -> TestedRow:
    cause = tested.cause
    shown = ", ".join(f.id for f in tested.shown)
    return TestedRow(
        investigation=tested.earlier.id,
        when=f"{tested.earlier.at:%Y-%m-%d %H:%M} UTC",
        alert=plain(tested.earlier.title),
        recalled_for=tested.recalled.why.replace("_", " "),
        cause=_cause_words(cause) if cause else "none",
        outcome=f"{tested.outcome} in {shown}" if shown else tested.outcome,
    )


def _opening(tested: Tested, first: bool, earlier: Earlier) -> tuple[str, dict[str, float]]:
    """How it was met before: `Third time in 30 days, last on 3 Nov: `, with the numbers quoted."""
    at = tested.earlier.at
    this_year = earlier.asked_at is None or earlier.asked_at.year == at.year
    day = f"{at.day} {at:%b}" + ("" if this_year else f" {at.year}")
    numbers: dict[str, float] = {"day": at.day} if this_year else {"day": at.day, "year": at.year}
    if tested.recalled.why != "same_alert":
        return f'Seen after another alert on {day}, "{_unquoted(tested.earlier.title)}": ', numbers
    alert_counts = [alert_count for alert_count in earlier.seen if alert_count.times]
    if not first or not alert_counts:
        return f"Before, on {day}: ", numbers
    count, days = alert_counts[0].times + 1, alert_counts[0].days
    # `Second`, `Third`, ... `11th`.
    if count - 2 < len(ORDINALS):
        ordinal = ORDINALS[count - 2]
    else:
        # 11th, 12th and 13th are irregular.
        if 10 <= count % 100 <= 20:
            ordinal = f"{count}th"
        else:
            suffix = {1: "st", 2: "nd", 3: "rd"}.get(count % 10, "th")
            ordinal = f"{count}{suffix}"
    text = f"{ordinal} time in {days} days, last on {day}: "
    return text, {"count": count, "days": days, **numbers}


def _result(tested: Tested) -> str:
    """What the earlier investigation found, and what the test of it gave."""
    cause = tested.cause
    if tested.outcome == "marked wrong":
        return f"the answer was marked wrong{_true_cause(tested.earlier)}"
    if tested.outcome == "named no cause" or cause is None:
        nothing_wrong = tested.earlier.verdict == Verdict.NO_ACTIVE_INCIDENT
        return "nothing was wrong" if nothing_wrong else "no cause could be named"
    cause_words = _cause_words(cause)
    if tested.outcome == "does not show":
        return f"{cause_words}, with no sign of it now"
    if tested.outcome == "cannot be tested":
        return f"{cause_words}, and it can't be checked now, {tested.lack}"
    if len(tested.shown) == 1:
        return f"{cause_words}, and it shows again now"
    changes = [ChangeDetails.of(finding) for finding in tested.shown[1:]]
    is_same = any(details and details.change == cause.change for details in changes)
    which = "the same" if is_same else "another"
    return f"{cause_words}, and it shows again now, with {which} {_change_words(cause)}"


def _true_cause(earlier: EarlierInvestigation) -> str:
    """The cause that somebody gave in place of the wrong one."""
    judged = earlier.judged
    if judged is None or not judged.cause.strip():
        return ""
    return f'; the cause was "{_unquoted(judged.cause)}"'


def _cause_words(cause: EarlierCause) -> str:
    """The cause without numbers: `payment runs out of a resource, near a deploy`."""
    fault = cause.troubles[0] if cause.troubles else cause.kind
    words = f"{plain(cause.subject)} {phrase_of(fault).split(',')[0]}"
    if cause.change_kind:
        words += f", near a {_change_words(cause)}"
    return words


def _change_words(cause: EarlierCause) -> str:
    kind = cause.change_kind or "change"
    return CHANGES.get(kind, plain(kind, 20))


def _lack(cause: EarlierCause, case: Case) -> str:
    """Why this fault of this subject could not have been seen; empty when it could."""
    fault = fault_kind(cause.troubles[0])
    tables = fault.tables
    if fault.training:
        if case.trace_files:
            return ""
        tables = ("metrics", "logs", "traces")
    if any(_holds(case, table, cause.subject) for table in tables):
        return ""
    for gap in case.gaps:
        if gap.kind in tables:
            return f"{gap.kind} from {plain(gap.source)} are missing"
    return f"nothing was collected that would show it in {plain(cause.subject)}"


def _holds(case: Case, name: str, subject: str) -> bool:
    """Whether the table has rows of that subject in the window that was searched."""
    tables: dict[str, tuple[pl.DataFrame, Windows, str]] = {
        "metrics": (case.metrics, metric_windows(case), "time"),
        "logs": (case.logs, log_windows(case), "time"),
        "spans": (case.spans, span_windows(case), "start"),
    }
    if name not in tables:
        return False
    table, windows, time = tables[name]
    return table.filter(pl.col("service") == subject, windows.in_search(time)).height > 0


def _record(earlier: Earlier, confidence: float) -> list[Finding]:
    """How often answers at this confidence were right, where enough were judged."""
    level = level_of(confidence)
    if confidence <= 0:
        return []
    for record_level in earlier.record:
        if record_level.level == level and is_telling(record_level.of):
            finding = Finding(
                id="",
                kind=RECORD,
                subject="earlier investigations",
                strength=STRENGTH,
                sentence=f"Of {record_level.of} answers at this confidence that people judged, "
                f"{record_level.right} were right.",
                numbers={"judged": record_level.of, "right": record_level.right},
                details=RecordDetails(at_least=level / 10, below=(level + 1) / 10),
            )
            return [finding]
    return []


def _unquoted(text: str) -> str:
    return plain(text).replace('"', "'").rstrip(".")
