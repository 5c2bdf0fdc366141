"""Changes near the onset of what they could have caused, and the ones ruled out, each with its
reason.

A change is judged by when it reached production (a merge travels with the next deploy of the
service it touches), where (the suspect itself, a callee, a caller, what all share), by what its
text shares with the symptoms, and against what fails without any change (see `weighing` and
`alternatives`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import NamedTuple

from faultline.analysis.case.folder import Case
from faultline.analysis.changes.alternatives import no_change_reasons, reason_for
from faultline.analysis.changes.onsets import climb_of
from faultline.analysis.changes.reading import Reading, read_change
from faultline.analysis.changes.shipping import Shipped, shipped_changes, taken_back
from faultline.analysis.changes.symptoms import (
    FailingLine,
    Symptoms,
    failing_lines,
    failing_operations,
    symptoms_of,
)
from faultline.analysis.changes.text import rarity
from faultline.analysis.changes.weighing import (
    ChangeHistory,
    Scales,
    SymptomOnset,
    Weighed,
    change_history,
    why_weak,
)
from faultline.analysis.kinds.finding_details import ChangeDetails
from faultline.analysis.kinds.finding_kinds import CHANGE_NEAR, CHANGE_RULED_OUT
from faultline.analysis.requests.topology import Topology
from faultline.analysis.suspects.suspect import Suspect
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import number, plain, rounded

NEAR, RULED_OUT = CHANGE_NEAR.name, CHANGE_RULED_OUT.name
MAX_CHANGE_AGE = timedelta(hours=6)
"""A change older than this is not listed: its effect would have been seen before."""
LIKELY = 0.3
"""Below this a change is listed as ruled out."""
FITS_WORSE = 0.7
"""A change below this share of the best one is ruled out for it."""
CLOSE_RIVAL = 0.6
"""A suspect with this share of the first one's score may be the culprit: changes are seen from it
as well."""
RIVAL = 0.9
"""What a change keeps that only fits a rival."""
SUSPECTS_CONSIDERED = 3
SHORTEST_SLACK_S = 60.0
MAX_CHANGES = 300
"""Changes that are weighed, those nearest to the onset first."""
MAX_DIFFS = 60_000
"""Characters of their diffs that are read: what fifty ordinary changes hold, in about a second."""
MAX_RULED_OUT = 12
TITLE_LENGTH = 70


def nearby_changes(
    case: Case,
    suspects: Sequence[Suspect],
    topology: Topology,
    reasons: Sequence[Finding] | None = None,
) -> list[Finding]:
    """Findings `change_near` and `change_ruled_out` for changes up to six hours before the onset.

    `reasons` are the findings of `no_change_reasons`, where they are at hand.
    """
    if not case.changes.height:
        return []
    lines = failing_lines(case)
    shifts = [f for s in suspects for f in s.findings]
    other_reasons = no_change_reasons(case, topology, lines, shifts) if reasons is None else reasons
    # Add operations only now: `no_change_reasons` reads log lines alone.
    lines += failing_operations(case)
    views = [_View.of(case, order, topology, lines) for order in _orders(suspects)]
    near = _read(_near(case, suspects, topology, views))
    strongest: dict[Shipped, tuple[Weighed, Scales]] = {}
    for view in views:
        history = change_history(case, near, view.onset.time)
        scales = view.scales(topology, near, other_reasons, history)
        for change in near:
            weighed = scales.weigh(change, view.share(suspects))
            if change not in strongest or weighed.preferred_to(strongest[change][0]):
                strongest[change] = weighed, scales
    return _findings(list(strongest.values()), case.evidence_ids("changes"))


def _near(
    case: Case, suspects: Sequence[Suspect], topology: Topology, views: Sequence[_View]
) -> list[Shipped]:
    """Changes from six hours before the earliest onset to the end of the incident, the nearest
    first."""
    onsets = [view.onset.time for view in views]
    first, end = min(onsets) - MAX_CHANGE_AGE, max([case.scope.incident.end, *onsets])
    subject = suspects[0].subject if suspects else case.alert.service
    shipped = shipped_changes(case, subject, topology.services, until=end)
    within = [change for change in shipped if first <= change.time <= end]

    def nearness(change: Shipped) -> tuple[float, str, str, str]:
        distance = min(abs((change.time - onset).total_seconds()) for onset in onsets)
        return distance, change.kind, change.id, change.service or ""

    return sorted(within, key=nearness)[:MAX_CHANGES]


def _read(changes: Sequence[Shipped]) -> dict[Shipped, Reading]:
    """Each change with its reading; when the budget is used up, those farther off are read without
    their diffs."""
    left = MAX_DIFFS
    out: dict[Shipped, Reading] = {}
    for change in changes:
        left -= change.text.size
        remaining_change = change if left >= 0 else replace(change, text=change.text.without_diff)
        out[remaining_change] = read_change(remaining_change)
    return out


@dataclass(frozen=True)
class _View:
    """The case as seen from one suspect: its symptoms and onset."""

    suspects: Sequence[Suspect]
    symptoms: Symptoms
    onset: SymptomOnset

    @classmethod
    def of(
        cls,
        case: Case,
        suspects: Sequence[Suspect],
        topology: Topology,
        lines: Sequence[FailingLine],
    ) -> _View:
        symptoms = symptoms_of(case, suspects, topology, lines)
        return cls(suspects, symptoms, onset_of(case, suspects, symptoms.written_effects))

    def share(self, suspects: Sequence[Suspect]) -> float:
        """What a change keeps that fits this view's suspect and not the first one."""
        if not suspects or self.suspects[0] is suspects[0]:
            return 1.0
        return RIVAL * min(1.0, self.suspects[0].score / max(suspects[0].score, 1e-9))

    def scales(
        self,
        topology: Topology,
        readings: Mapping[Shipped, Reading],
        other_reasons: Sequence[Finding],
        history: ChangeHistory,
    ) -> Scales:
        # `taken_back` needs them in the order of time.
        in_order = sorted(readings, key=lambda change: change.time)
        return Scales(
            suspects=self.suspects,
            topology=topology,
            onset=self.onset,
            symptoms=self.symptoms,
            rare=rarity(reading.altered | reading.beside for reading in readings.values()),
            readings=readings,
            common_names=_common_names(readings.values()),
            other_reason=reason_for(other_reasons, self.suspects, topology),
            back=taken_back(in_order, self.onset.time - self.onset.slack),
            history=history,
        )


def _orders(suspects: Sequence[Suspect]) -> list[list[Suspect]]:
    """The suspects as they are ranked, and with each close rival of the first put first."""
    views = [list(suspects)]
    if suspects and suspects[0].is_root:
        return views
    for rival in suspects[1:SUSPECTS_CONSIDERED]:
        if rival.score >= CLOSE_RIVAL * suspects[0].score:
            other_suspects = [suspect for suspect in suspects if suspect is not rival]
            views.append([rival, *other_suspects])
    return views


def onset_of(case: Case, suspects: Sequence[Suspect], effects: frozenset[str]) -> SymptomOnset:
    """The first suspect's onset, or the begin of the climb that led to it, or else the alert."""
    first = suspects[0] if suspects else None
    if first is None or first.onset is None:
        return SymptomOnset(case.alert.started_at, timedelta(seconds=SHORTEST_SLACK_S), "the alert")
    climb = climb_of(case, suspects, effects)
    if climb is not None and climb.start < first.onset:
        since = f"{plain(climb.signal, 60)} began to climb"
        return SymptomOnset(climb.start, climb.uncertainty, since, climb)
    slack_s = SHORTEST_SLACK_S
    for finding in first.findings[:3]:
        slack_s = max(slack_s, finding.onset_uncertainty_s or 0.0)
    return SymptomOnset(first.onset, timedelta(seconds=slack_s), "the onset")


def _common_names(readings: Collection[Reading]) -> frozenset[str]:
    """Exact names that more than a third of the changes alter, and at least three: every change has
    them."""
    counts: Counter[str] = Counter()
    for reading in readings:
        counts.update(reading.names)
    least = max(3, len(readings) // 3 + 1)
    return frozenset(name for name, times in counts.items() if times >= least)


def _findings(
    weighed: Sequence[tuple[Weighed, Scales]], evidence: tuple[str, ...]
) -> list[Finding]:
    likely = [w for w, _ in weighed if w.strength >= LIKELY and not w.reasons]
    # Of equal strengths the earlier change wins, in every run.
    likeliest = min(likely, key=lambda w: (-w.strength, w.change.time, w.change.id), default=None)
    near: list[Finding] = []
    ruled_out: list[Finding] = []
    for weighed_change, scales in weighed:
        why = _why_ruled_out(weighed_change, scales, likeliest)
        findings = ruled_out if why else near
        findings.append(_finding(weighed_change, scales, why, evidence))
    near.sort(key=lambda f: (-f.strength, f.sentence))
    ruled_out.sort(key=lambda f: (-f.strength, f.sentence))
    return near + ruled_out[:MAX_RULED_OUT]


def _why_ruled_out(weighed: Weighed, scales: Scales, likeliest: Weighed | None) -> list[str]:
    """Its own reasons, else that little speaks for it or that another change fits better."""
    if weighed.reasons:
        return list(weighed.reasons)
    if weighed.strength < LIKELY:
        by_chance = 1 - scales.history.guilty(weighed.change, weighed.ahead_min)
        return [why_weak(weighed, scales.other_reason, by_chance)]
    if likeliest is not None and weighed.strength < FITS_WORSE * likeliest.strength:
        return [f"{likeliest.change.label} fits better"]
    return []


class _Distance(NamedTuple):
    """How far a change is from the onset, as the sentence gives it."""

    value: float
    unit: str
    words: str


def _sentence(weighed: Weighed, distance: _Distance, since: str, why: Sequence[str]) -> str:
    change = weighed.change
    where = f" of {plain(change.service)}" if change.service else ""
    # Double quotes would end the quotation early.
    title = plain(change.text.title, TITLE_LENGTH).replace('"', "'")
    called = f', "{title}",' if title and not why else ""
    sentence = (
        f"{plain(change.kind, 20).capitalize()} {change.label}{where}{called} came {distance.words}"
    )
    if distance.value and weighed.ahead_min < 0 and not why:
        sentence += ", within its uncertainty"
    # The distance has already said that it came after.
    more = [reason for reason in why if reason != f"it came after {since}"]
    if more:
        sentence += f"; {' and '.join(more)}"
    return sentence + "."


def _finding(
    weighed: Weighed, scales: Scales, why: Sequence[str], evidence: tuple[str, ...]
) -> Finding:
    change = weighed.change
    ahead_min = weighed.ahead_min
    # Below a minute the distance in minutes would lose its digits.
    if abs(ahead_min) >= 1:
        value, unit, short = rounded(abs(ahead_min), 2), "minutes", "min"
    else:
        value, unit, short = float(round(60 * abs(ahead_min))), "seconds", "s"
    if not value:
        distance = _Distance(value, unit, f"at the same time as {scales.onset.since}")
    else:
        side = "before" if ahead_min >= 0 else "after"
        distance = _Distance(value, unit, f"{number(value)} {short} {side} {scales.onset.since}")
    mechanism = weighed.bearing.match.mechanism
    return Finding(
        id="",
        kind=RULED_OUT if why else NEAR,
        subject=change.service or "unknown service",
        signal=change.kind,
        onset=change.time,
        effect=rounded(weighed.ahead_min, 2),
        effect_unit="min before onset",
        strength=round(weighed.strength if math.isfinite(weighed.strength) else 0.0, 4),
        sentence=_sentence(weighed, distance, scales.onset.since, why),
        numbers={distance.unit: distance.value},
        evidence=evidence,
        series={"table": "changes", "id": change.id},
        details=ChangeDetails(
            change=change.id,
            change_kind=change.kind,
            title=plain(change.text.title, 160),
            place=weighed.place,
            concerns=scales.suspects[0].subject if scales.suspects else None,
            link=change.link,
            before=plain(change.step.before, 60) or None,
            after=plain(change.step.after, 60) or None,
            restored_by=plain(change.restored_by, 80) or None,
            reason=" and ".join(why) if why else None,
            bears_on=mechanism.phrase if mechanism else None,
            bearing=round(weighed.bearing.score, 3),
            quoted=tuple(weighed.bearing.quoted),
        ),
    )
