"""What the alert's own query says, as findings: true since when and how far beyond the threshold,
not true here, without data, or true on most days at this hour.

None of these accuses a service: they say whether there is anything to explain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from faultline.analysis.alert_signal.queried_series import signal_named
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import AlertHistoryDetails
from faultline.analysis.kinds.finding_kinds import (
    ALERT_ELSEWHERE_USUAL,
    ALERT_NOT_TRUE,
    ALERT_OFTEN_TRUE,
    ALERT_QUERY_GONE,
    ALERT_TRUE,
    FindingKind,
)
from faultline.analysis.kinds.place_names import NAMESPACE_LABELS
from faultline.analysis.kinds.signals import SignalClass, parts_of
from faultline.analysis.metrics.alert_evaluation import (
    AlertEvaluation,
    EarlierDays,
    OtherPlaces,
    Truth,
    alert_evaluation,
)
from faultline.analysis.metrics.explained_share import FAILING
from faultline.analysis.phrasing.statement import possessive
from faultline.analysis.requests.topology import Topology
from faultline.analysis.suspects.deviations import LEAST_NOISE, Deviation
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import Unit, amount, levels, unit_of
from faultline.analysis.wording.names import signal_name, subject_name
from faultline.analysis.wording.phrases import capitalised, counted, listed, number, plain, rounded

STRENGTH = 0.5
"""They accuse nobody. They stand before faint findings."""
MARGIN = 0.1
"""The threshold that is proposed lies a tenth beyond the farthest of earlier days."""
FELT = 2 * LEAST_NOISE
"""In sigmas, from where on users noticed. A quiet window reaches `LEAST_NOISE`."""
AROUND_S = 300.0
MOST_LABELS = 3
USER_FACING = frozenset({SignalClass.LATENCY}) | FAILING
RENAMED = (
    "Compare the rule's metric with those that exist: it may have been renamed, its exporter may "
    "be down, or the rule is evaluated by another server."
)


@dataclass(frozen=True)
class UserImpact:
    """On how many of the days on which the query was true users noticed anything."""

    days_checked: int
    days_felt: int


def alert_truth(
    case: Case, series: Sequence[Deviation] = (), graph: Topology | None = None
) -> list[Finding]:
    """At most three findings, by the evaluation and by what `series` showed on earlier days."""
    evaluation = alert_evaluation(case)
    if evaluation is None:
        return []
    made = _TruthFindings(case, evaluation)
    match evaluation.truth:
        case Truth.GONE:
            findings = [made.gone()]
        case Truth.NEVER:
            findings = [made.not_true()]
        case _:
            findings = [made.true()]
            if evaluation.elsewhere is not None and case.alert.service is not None:
                findings.append(made.alone_in_place(evaluation.elsewhere))
    if evaluation.is_usual:
        impact = user_impact(case, evaluation.earlier, series, graph)
        findings.append(made.often(impact))
    elif evaluation.flaps:
        findings.append(made.flapping())
    return findings


def user_impact(
    case: Case, earlier: EarlierDays, series: Sequence[Deviation], graph: Topology | None
) -> UserImpact | None:
    """Whether requests were slower or failed more on the days on which the query was true; None
    where no day can be checked, and of an alert that watches requests itself."""
    watches = case.alert.watches
    if watches is not None and watches.signal_class in USER_FACING:
        return None
    facing = [
        deviation
        for deviation in series
        if deviation.signal_class in USER_FACING
        and (
            deviation.service == case.alert.service
            or (graph is not None and not graph.callers(deviation.service))
        )
    ]
    checked = felt = 0
    for true_at in earlier.true_at:
        begin = true_at.timestamp() - AROUND_S
        end = begin + 2 * AROUND_S + earlier.longest_s
        reaches = []
        for deviation in facing:
            seconds = deviation.times / 1e9
            badness = np.sort(deviation.badness[(seconds >= begin) & (seconds <= end)])
            # A single point is a spike.
            if len(badness) > 1:
                reaches.append(float(badness[-2]))
        checked += bool(reaches)
        felt += any(reach >= FELT for reach in reaches)
    if checked < earlier.days_true or not checked:
        return None
    return UserImpact(checked, felt)


@dataclass(frozen=True)
class _TruthFindings:
    """The findings about one evaluation."""

    case: Case
    evaluation: AlertEvaluation

    def true(self) -> Finding:
        """It is true, or was in the incident."""
        numbers: dict[str, float] = {}
        beyond = self.level(numbers)
        where = self._where()
        since = (
            f"{self._clock(self.evaluation.since)} UTC" if self.evaluation.since else "some time"
        )
        if self.evaluation.truth is Truth.OVER and self.evaluation.until is not None:
            span = f"was true from {since} to {self._clock(self.evaluation.until)} UTC"
        elif self.evaluation.began_earlier:
            span = f"has been true since before {since}"
        else:
            span = f"has been true since {since}"
        days = ""
        if self.evaluation.earlier.days and not (self.evaluation.is_usual or self.evaluation.flaps):
            numbers["days"] = float(self.evaluation.earlier.days)
            numbers["days_true"] = float(self.evaluation.earlier.days_true)
            often = counted(self.evaluation.earlier.days, "earlier day")
            if self.evaluation.earlier.days_true:
                days = (
                    f"; at this hour it was true on {self.evaluation.earlier.days_true} of {often}"
                )
            else:
                days = f"; at this hour it was not true on any of {often}"
        return self._finding(
            ALERT_TRUE,
            f"The alert's own query {span}{where}{beyond}{days}.",
            numbers,
            self.evaluation.since,
            AlertHistoryDetails(
                unit=self.evaluation.unit,
                recovered=self.evaluation.truth is Truth.OVER,
                place=self._place(),
            ),
        )

    def level(self, numbers: dict[str, float]) -> str:
        """How far beyond the threshold it is, with the numbers; "" where no value is known."""
        unit, evaluation = self._unit(), self.evaluation
        if evaluation.value is None:
            return ""
        numbers["value"] = rounded(evaluation.value, 4)
        what = self._measured_name()
        text = was = amount(numbers["value"], unit)
        if evaluation.before is not None:
            numbers["before"] = rounded(evaluation.before, 4)
            was, text = levels(numbers["before"], numbers["value"], unit)
        # A rule that compares two metrics fires though the one on its left stays.
        words = f": {what} is {text}" if was == text else f": {what} went from {was} to {text}"
        # A rule on one value, such as `up == 0`, has nothing to be beyond.
        is_limit = (evaluation.comparison or "=")[0] in "<>"
        if evaluation.threshold is not None and is_limit:
            numbers["threshold"] = rounded(evaluation.threshold, 4)
            side = "above" if evaluation.fires_above else "below"
            words += f", {side} the threshold of {amount(numbers['threshold'], unit)}"
        return words

    def alone_in_place(self, comparison: OtherPlaces) -> Finding:
        """The same service is as usual elsewhere."""
        unit = self._unit()
        numbers = {"elsewhere": rounded(comparison.value, 4)}
        here = plain(comparison.here, 60)
        there = listed([plain(place, 60) for place in comparison.there[:MOST_LABELS]])
        level = f"{amount(numbers['elsewhere'], unit)} in {there}"
        if self.evaluation.value is not None:
            numbers["value"] = rounded(self.evaluation.value, 4)
            level = f"{amount(numbers['value'], unit)} there and {level}"
        return self._finding(
            ALERT_ELSEWHERE_USUAL,
            f"The alert's own query is true in {comparison.kind} {here} only: "
            f"{self._measured_name()} is {level}.",
            numbers,
            None,
            AlertHistoryDetails(unit=self.evaluation.unit, place={comparison.kind: here}),
        )

    def not_true(self) -> Finding:
        """It was not true in the incident."""
        numbers: dict[str, float] = {}
        level = ""
        if self.evaluation.value is not None and self.evaluation.threshold is not None:
            unit = self._unit()
            numbers = {
                "value": rounded(self.evaluation.value, 4),
                "threshold": rounded(self.evaluation.threshold, 4),
            }
            level = (
                f": {self._measured_name()} is {amount(numbers['value'], unit)}, "
                f"the threshold {amount(numbers['threshold'], unit)}"
            )
        return self._finding(
            ALERT_NOT_TRUE,
            f"The alert's own query was not true here at any time of the incident{level}.",
            numbers,
            None,
            AlertHistoryDetails(
                unit=self.evaluation.unit,
                fix="Look which server evaluates the rule: it may read another cluster, or other "
                "data.",
            ),
        )

    def gone(self) -> Finding:
        """What it measures has ended."""
        minutes = rounded(max(self.evaluation.lasted_s / 60, 1.0), 2)
        since = (
            f"{self._clock(self.evaluation.since)} UTC" if self.evaluation.since else "some time"
        )
        return self._finding(
            ALERT_QUERY_GONE,
            f"What the alert's own query measures has had no data since {since}, for "
            f"{number(minutes, 2)} min.",
            {"minutes": minutes},
            self.evaluation.since,
            AlertHistoryDetails(fix=RENAMED),
        )

    def often(self, impact: UserImpact | None) -> Finding:
        """It was as true on most earlier days."""
        earlier = self.evaluation.earlier
        minutes = rounded(max(earlier.longest_s / 60, 1.0), 2)
        numbers = {
            "days": float(earlier.days),
            "days_true": float(earlier.days_true),
            "minutes": minutes,
        }
        felt = ""
        if impact is not None:
            numbers["days_felt"] = float(impact.days_felt)
            felt = ", never with user impact"
            if impact.days_felt:
                felt = f", with user impact on {impact.days_felt} of them"
        fix = self._quieter(earlier.longest_s, earlier.farthest, numbers)
        return self._finding(
            ALERT_OFTEN_TRUE,
            f"The alert's own query was true on {earlier.days_true} of the last "
            f"{counted(earlier.days, 'day')} at this hour, for up to {number(minutes, 2)} "
            f"min{felt}.",
            numbers,
            None,
            AlertHistoryDetails(
                unit=self.evaluation.unit,
                fix=fix,
                days_felt=impact.days_felt if impact is not None else None,
            ),
        )

    def _quieter(
        self,
        longest_s: float,
        farthest: float | None,
        numbers: dict[str, float],
    ) -> str:
        """A threshold and a waiting time that would have been quiet; adds their numbers."""
        numbers["wait_min"] = float(math.ceil(longest_s / 60) + 1)
        wait = f"let it wait for {number(numbers['wait_min'])} min."
        if farthest is None or self.evaluation.threshold is None:
            return capitalised(wait)
        margin = MARGIN * abs(farthest)
        beyond = farthest + margin if self.evaluation.fires_above else farthest - margin
        numbers["proposed"] = rounded(beyond, 2)
        move = (
            "Raise the threshold above"
            if self.evaluation.fires_above
            else "Lower the threshold below"
        )
        return f"{move} {amount(numbers['proposed'], self._unit())}, or {wait}"

    def flapping(self) -> Finding:
        """It was as true several times in the hours before."""
        before = self.evaluation.just_before
        minutes = rounded(max(before.longest_s / 60, 0.5), 2)
        hours = rounded(max(before.hours, 0.1), 2)
        numbers = {"times": float(before.runs), "hours": hours, "minutes": minutes}
        fix = self._quieter(before.longest_s, before.farthest, numbers)
        return self._finding(
            ALERT_OFTEN_TRUE,
            f"The alert's own query was true {counted(before.runs, 'time')} in the "
            f"{number(hours, 2)} h before, for up to {number(minutes, 2)} min.",
            numbers,
            None,
            AlertHistoryDetails(unit=self.evaluation.unit, fix=fix),
        )

    def _finding(
        self,
        kind: FindingKind,
        sentence: str,
        numbers: Mapping[str, float],
        onset: datetime | None,
        details: AlertHistoryDetails,
    ) -> Finding:
        alert = self.case.alert
        series = {"table": "alert_query"}
        # A chart shows the rows that stand among the metrics.
        rows = self.case.metrics.filter(service=alert.service or "", signal=alert.signal or "")
        if alert.service and alert.signal and rows.height:
            series = {"table": "metrics", "service": alert.service, "signal": alert.signal}
        return Finding(
            id="",
            kind=kind.name,
            subject=alert.service or plain(alert.title),
            signal=alert.signal,
            onset=onset,
            strength=STRENGTH,
            sentence=sentence,
            numbers=dict(numbers),
            evidence=self.case.evidence_ids("alert_query"),
            series=series,
            details=details,
        )

    def _measured_name(self) -> str:
        watches, service = self.case.alert.watches, self.case.alert.service
        if watches is None or watches.metric is None:
            return "its value"
        if self.evaluation.is_of_scrapes and self.evaluation.fires_above:
            targets = f"{possessive(subject_name(service))} targets" if service else "targets"
            return f"the share of {targets} that cannot be scraped"
        # The signal of the alert may be another quantile of the same requests.
        named = signal_name(signal_named(watches))
        if service is None:
            return named
        # A metric's name often begins with its service's.
        named = named.removeprefix(f"{service.replace('-', ' ')} ")
        return f"{subject_name(service)} {named}"

    def _unit(self) -> Unit:
        watches = self.case.alert.watches
        unit = self.evaluation.unit or (watches.unit if watches is not None else None)
        samples = [v for v in (self.evaluation.value, self.evaluation.threshold) if v is not None]
        name = (watches.metric if watches is not None else None) or self.case.alert.signal or ""
        query = self.case.alert.query
        # Divided or counted per second, a metric is no longer in the unit that its name says.
        if query is not None and any(mark in query.text for mark in ("(", "/", "*")):
            name = ""
        return unit_of(name if unit is None else "", unit, samples)

    def _place(self) -> dict[str, str]:
        """Where all series that are true are: namespace, version, zone, pod and the like."""
        labels = self.evaluation.labels
        namespace = next((labels[name] for name in NAMESPACE_LABELS if labels.get(name)), "")
        place = {"namespace": namespace} if namespace else {}
        return {**place, **parts_of(labels)}

    def _where(self) -> str:
        place = list(self._place().items())[:MOST_LABELS]
        words = [f"{kind} {plain(value, 60)}" for kind, value in place if kind != "instance"]
        text = f" in {', '.join(words)}" if words else ""
        if self.evaluation.series > self.evaluation.true_series > 0:
            text += f" for {self.evaluation.true_series} of {self.evaluation.series} label sets"
        return text

    def _clock(self, time: datetime | None) -> str:
        if time is None:
            return ""
        at = time.astimezone(UTC)
        same_day = at.date() == self.case.alert.started_at.date()
        return f"{at:%H:%M}" if same_day else f"{at:%d %b %H:%M}"
