"""An answered case as every export reads it: what was answered then, or, where the folder holds no
answer, a new one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from faultline.analysis.case.folder import Case, read_case, read_diagnosis, read_report
from faultline.analysis.errors import EvidenceError
from faultline.analysis.kinds.finding_details import change_named
from faultline.analysis.vocabulary import Diagnosis, Frozen, Report, UtcTime
from faultline.bot.answer.replay import replay
from faultline.bot.answer.view import AnswerView, answer_view
from faultline.bot.store.store import StoredInvestigation

ANSWERED_FILE = "answered.json"
MOST_ONSETS, MOST_CHANGES = 20, 15


class AnswerTimes(Frozen):
    """answered.json: the investigation's id and page, and when its alert was accepted, begun with
    and answered."""

    id: str
    page: str | None = None
    accepted_at: UtcTime
    started_at: UtcTime | None = None
    finished_at: UtcTime | None = None


@dataclass(frozen=True)
class TimelineEntry:
    """One row of the timeline. `what` is a word for its kind, `text` foreign where a change or an
    alert is quoted."""

    time: datetime
    what: str
    text: str
    findings: tuple[str, ...] = ()
    link: str | None = None


@dataclass(frozen=True)
class ExportedAnswer:
    """A case with its answer; `times` is None for a case that no bot answered."""

    case: Case
    diagnosis: Diagnosis
    report: Report
    times: AnswerTimes | None

    @cached_property
    def view(self) -> AnswerView:
        """What the answer says."""
        case = self.case
        return answer_view(
            case.alert, self.diagnosis, self.report, gaps=case.gaps, evidence=case.evidence
        )


def read_answered(folder: Path) -> ExportedAnswer:
    """Read a case folder (blocking). Raises EvidenceError when it cannot be read."""
    times = _times(folder)
    if (folder / "findings.json").exists() and (folder / "report.json").exists():
        return ExportedAnswer(read_case(folder), read_diagnosis(folder), read_report(folder), times)
    replayed = replay(folder)
    return ExportedAnswer(replayed.case, replayed.diagnosis, replayed.report, times)


def _times(folder: Path) -> AnswerTimes | None:
    try:
        return AnswerTimes.model_validate_json((folder / ANSWERED_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise EvidenceError(
            ANSWERED_FILE, "is not what was written when the answer was given"
        ) from error


def timeline_of(answered: ExportedAnswer) -> list[TimelineEntry]:
    """Alert, onsets, changes and what the bot did, by time."""
    alert, times = answered.case.alert, answered.times
    moments = [
        TimelineEntry(alert.started_at, "alert", f"{alert.source}: {alert.title}"),
        *_onsets(answered),
    ]
    moments += _changes(answered)
    if times is not None:
        steps = (
            (times.accepted_at, "accepted"),
            (times.started_at, "begun"),
            (times.finished_at, "answered"),
        )
        moments += [
            TimelineEntry(at, "investigation", f"the investigation was {stage}")
            for at, stage in steps
            if at
        ]
    # The text breaks ties: the same case gives the same timeline.
    return sorted(moments, key=lambda m: (m.time, m.what, m.text))


def _onsets(answered: ExportedAnswer) -> list[TimelineEntry]:
    view = answered.view
    first = {*(view.cause.findings if view.cause else ()), *view.impact.findings}
    findings = []
    for finding in view.findings.values():
        # Changes are listed by `_changes`.
        if finding.onset is not None and finding.series.get("table") != "changes":
            findings.append(finding)
    findings.sort(key=lambda f: (f.id not in first, -f.strength, f.id))
    return [
        TimelineEntry(f.onset, "onset", f.sentence, (f.id,))
        for f in findings[:MOST_ONSETS]
        if f.onset
    ]


def _changes(answered: ExportedAnswer) -> list[TimelineEntry]:
    """The changes that the answer speaks of, then those nearest to the alert, of all that were
    collected."""
    about: dict[str, list[str]] = {}
    for finding in answered.view.findings.values():
        change = change_named(finding)
        if change is not None:
            about.setdefault(change, []).append(finding.id)
    rows = answered.case.changes.select("time", "service", "kind", "id", "title", "link").rows()
    at = answered.case.alert.started_at
    # r[3] is the id, r[0] the time.
    near = sorted(rows, key=lambda r: (r[3] not in about, abs((r[0] - at).total_seconds()), r[3]))[
        :MOST_CHANGES
    ]
    return [
        TimelineEntry(
            time,
            "change",
            f"{kind} {id_} of {service or 'an unknown service'}: {title or ''}",
            tuple(about.get(id_, ())),
            link,
        )
        for time, service, kind, id_, title, link in near
    ]


def answer_times(investigation: StoredInvestigation, public_url: str) -> AnswerTimes:
    """What answered.json holds; written when the answer stands."""
    return AnswerTimes(
        id=investigation.id,
        page=f"{public_url}/investigations/{investigation.id}",
        accepted_at=investigation.accepted_at,
        started_at=investigation.started_at,
        finished_at=investigation.finished_at,
    )
