"""What the alert's own query gave: whether it is true now, since when, in which series, how far
beyond its threshold, and on how many earlier days it was true at the same hours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import cast

import numpy as np
import polars as pl

from faultline.analysis.alert_signal.subjects import service_in
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.place_names import job_namespace, namespace_in, place_in
from faultline.analysis.metrics.shift_statistics import Bools, Floats

BRIDGED_STEPS = 2.5
"""Points of one stretch lie at most this many steps apart: one missed evaluation ends nothing."""
NOW_S = 150.0
"""What was true this shortly before the end is true now: two evaluations of a minute may lie
between."""
GONE_S = 420.0
"""A series whose last point is older has ended: Prometheus repeats a sample for five minutes."""
WEEK = 7
LEAST_DAYS = 4
"""Earlier days with data, of which at least `OFTEN` make it usual."""
OFTEN = 0.6
FARTHER, LONGER = 1.25, 2.0
"""A value a quarter beyond the farthest of earlier days, or a stretch twice as long as their
longest, is not what usually happens."""
FLAPS = 3
"""Three stretches in the hours before make a monitor a flapping one."""
NORMAL_SHARE = 0.05
"""And two, where they are one point in twenty."""
LEAST_COMPARED = 3
"""Points in another place while it is true here, to say that it is not true there."""
COMPARED_PLACES = ("environment", "cluster", "region", "namespace")
DAY = timedelta(days=1)


class Truth(StrEnum):
    """What the alert's own query says of the incident."""

    TRUE = "true"
    OVER = "over"
    """It was true in the incident, and is no more."""
    NEVER = "never"
    """It was not true at any time in the incident."""
    GONE = "gone"
    """What it measures has no data any more."""


@dataclass(frozen=True)
class EarlierDays:
    """The same hours of earlier days."""

    days: int = 0
    """With data, of the last seven."""
    days_true: int = 0
    true_at: tuple[datetime, ...] = ()
    """When it first was true on each of these days, the latest day first."""
    longest_s: float = 0.0
    farthest: float | None = None


@dataclass(frozen=True)
class Before:
    """What leads up to the incident, on the same day."""

    runs: int = 0
    """Stretches in which it was true."""
    share: float = 0.0
    """Of the points, by time."""
    longest_s: float = 0.0
    farthest: float | None = None
    hours: float = 0.0


@dataclass(frozen=True)
class OtherPlaces:
    """Where the same service runs as well, and the query held at no time of the incident."""

    kind: str
    """Environment, cluster, namespace or region."""
    here: str
    there: tuple[str, ...]
    value: float
    """The farthest of them, while the query is true here."""


@dataclass(frozen=True)
class AlertEvaluation:
    """The readings of one query."""

    truth: Truth
    since: datetime | None
    """Since when it has been true, was last true, or has had no data."""
    until: datetime | None
    labels: Mapping[str, str]
    """What all series that are true have in common."""
    true_series: int
    series: int
    value: float | None
    """The farthest of the series that are true, at the end of the stretch; of none the nearest."""
    before: float | None
    """The median of the same series before it."""
    comparison: str | None
    threshold: float | None
    unit: str | None
    earlier: EarlierDays
    lasted_s: float
    just_before: Before = Before()
    began_earlier: bool = False
    """Whether it was true from the first point on that was asked for."""
    is_of_scrapes: bool = False
    """Whether it watches `up`: that a scrape fails says little of the service."""
    elsewhere: OtherPlaces | None = None

    @property
    def fires_above(self) -> bool:
        """Whether more is worse."""
        return not (self.comparison or ">").startswith("<")

    @property
    def is_usual(self) -> bool:
        """Whether earlier days were the same at this hour: as often, as far and as long."""
        earlier = self.earlier
        if self.truth not in (Truth.TRUE, Truth.OVER) or earlier.days < LEAST_DAYS:
            return False
        if earlier.days_true < OFTEN * earlier.days:
            return False
        return self._is_no_worse(earlier.longest_s, earlier.farthest)

    @property
    def flaps(self) -> bool:
        """Whether it was as true several times in the hours before."""
        before = self.just_before
        often = before.runs >= FLAPS or (before.runs > 1 and before.share >= NORMAL_SHARE)
        if self.truth not in (Truth.TRUE, Truth.OVER) or not often:
            return False
        return self._is_no_worse(before.longest_s, before.farthest)

    @property
    def is_active(self) -> bool:
        """Whether it is true now, and that is not what happens on other days or in other hours."""
        if self.truth is not Truth.TRUE or self.is_usual or self.flaps or self.is_of_scrapes:
            return False
        # With one such day among few, or one such stretch, nobody can tell.
        return self.earlier.days_true == 0 and self.just_before.runs == 0

    def _is_no_worse(self, longest_s: float, farthest: float | None) -> bool:
        """Whether it lasts no longer and goes no farther than before."""
        if self.lasted_s > LONGER * longest_s:
            return False
        if self.value is None or farthest is None:
            return True
        margin = (FARTHER - 1) * abs(farthest)
        if self.fires_above:
            return self.value <= farthest + margin
        return self.value >= farthest - margin


def alert_evaluation(case: Case) -> AlertEvaluation | None:
    """The evaluation of a case; None where the query was not asked or has no series."""
    if "alert_evaluation" not in case.derived:
        case.derived["alert_evaluation"] = (
            _QueryRows(case).evaluation() if case.alert_query.height else None
        )
    return cast(AlertEvaluation | None, case.derived["alert_evaluation"])


class _QueryRows:
    """The rows of one case, read from the most recent to the earliest."""

    def __init__(self, case: Case) -> None:
        scope = case.scope
        first = min([scope.incident.start, *(window.start for window in scope.baseline[:1])])
        self._case = case
        self._incident = scope.incident
        rows, labels = case.alert_query.sort("time", "series"), case.alert.labels
        # A rule by service may be true of another one for months: that says nothing of this alert.
        named = []
        for key in rows["series"].unique().to_list():
            if all(labels.get(name, value) == value for name, value in _labels(key).items()):
                named.append(key)
        self._rows = rows.filter(pl.col("series").is_in(named)) if named else rows
        self._recent = self._rows.filter(
            pl.col("time") >= first, pl.col("time") <= scope.incident.end
        )
        self._true = self._recent.filter(pl.col("is_true") > 0)
        self._earlier = self._rows.filter(pl.col("time") < first)
        self._fires_above = not (_first(self._rows, "comparison") or ">").startswith("<")

    def evaluation(self) -> AlertEvaluation:
        """What they say."""
        recent, end, watches = self._recent, self._incident.end, self._case.alert.watches
        # Without a measured value rows are there only while it is true.
        is_measured = bool((recent["is_true"] == 0).any())
        truth, since, until = self._last_stretch()
        if not recent.height:
            return self._without_data(self._rows)
        is_late = end.timestamp() - _seconds(recent)[-1] > GONE_S
        if truth is not Truth.TRUE and is_measured and is_late:
            return self._without_data(recent)
        shown = recent.filter(pl.col("time") >= self._incident.start)
        keys: list[str] = []
        if since is not None:
            shown = self._true.filter(pl.col("time").is_between(since, until or end))
            keys = shown["series"].unique().sort().to_list()
        level, before = self._levels(shown, since, until)
        return AlertEvaluation(
            truth=truth,
            since=since,
            until=until,
            labels=_common([_labels(key) for key in keys]),
            true_series=len(keys),
            series=recent["series"].n_unique(),
            value=level,
            before=before,
            comparison=_first(self._rows, "comparison"),
            threshold=_number(self._rows, "threshold"),
            unit=_first(self._rows, "unit"),
            earlier=self._earlier_days(),
            lasted_s=((until or end) - since).total_seconds() if since else 0.0,
            just_before=self._just_before(),
            began_earlier=since is not None and since.timestamp() <= _seconds(recent)[0],
            is_of_scrapes=watches is not None and watches.metric == "up",
            elsewhere=self._elsewhere(keys, since) if truth is Truth.TRUE and since else None,
        )

    def _elsewhere(self, keys: Sequence[str], since: datetime) -> OtherPlaces | None:
        """The places of the series that are true, beside others of the same service."""
        # Those that the alert does not name, too.
        rows = self._case.alert_query.sort("time", "series").filter(
            pl.col("time").is_between(self._incident.start, self._incident.end)
        )
        affected = [_labels(key) for key in keys]
        services = {service_in(labels, None) for labels in affected}
        by_key = {str(key): _labels(str(key)) for key in rows["series"].unique().sort()}
        siblings = {
            key: _place(labels)
            for key, labels in by_key.items()
            if key not in keys and {service_in(labels, None)} == services
        }
        for kind in COMPARED_PLACES:
            here = {_place(labels).get(kind, "") for labels in affected}
            there = {key: place.get(kind, "") for key, place in siblings.items()}
            names = set(there.values()) - here - {""}
            if len(here) > 1 or "" in here:
                continue
            compared = rows.filter(
                pl.col("series").is_in([key for key, name in there.items() if name in names])
            )
            farthest = self._farthest_untrue(compared, since)
            if farthest is not None:
                return OtherPlaces(kind, here.pop(), tuple(sorted(names)), farthest)
        return None

    def _farthest_untrue(self, rows: pl.DataFrame, since: datetime) -> float | None:
        """The farthest value from then on; None where the query was true at any time."""
        levels = rows.filter(pl.col("time") >= since)["value"].drop_nulls().to_list()
        is_true = bool((rows["is_true"] > 0).any())
        return None if is_true or len(levels) < LEAST_COMPARED else self._farthest(levels)

    def _last_stretch(self) -> tuple[Truth, datetime | None, datetime | None]:
        """The last time at which it was true in the incident: from when, and until when."""
        step = _step(self._recent)
        stretches = _stretches(self._true, step)
        if not stretches or stretches[-1][1] < self._incident.start.timestamp():
            return Truth.NEVER, None, None
        begin, finish = stretches[-1]
        if self._incident.end.timestamp() - finish <= NOW_S + step:
            return Truth.TRUE, _time(begin), None
        return Truth.OVER, _time(begin), _time(finish)

    def _without_data(self, rows: pl.DataFrame) -> AlertEvaluation:
        last = _time(_seconds(rows)[-1])
        return AlertEvaluation(
            Truth.GONE,
            since=last,
            until=None,
            labels=_common([_labels(key) for key in rows["series"].unique().sort().to_list()]),
            true_series=0,
            series=rows["series"].n_unique(),
            value=None,
            before=None,
            comparison=_first(rows, "comparison"),
            threshold=_number(rows, "threshold"),
            unit=_first(rows, "unit"),
            earlier=self._earlier_days(),
            lasted_s=(self._incident.end - last).total_seconds(),
        )

    def _just_before(self) -> Before:
        """What leads up to the incident."""
        rows = self._recent.filter(pl.col("time") < self._incident.start)
        true = rows.filter(pl.col("is_true") > 0)
        if not true.height:
            return Before()
        step = _step(rows)
        runs = _stretches(true, step)
        times = np.unique(_seconds(rows))
        return Before(
            runs=len(runs),
            share=len(np.unique(_seconds(true))) / len(times),
            longest_s=max(finish - begin + step for begin, finish in runs),
            farthest=self._farthest(rows["value"].drop_nulls().to_list()),
            hours=float(times[-1] - times[0]) / 3600,
        )

    def _earlier_days(self) -> EarlierDays:
        """The last seven days with data, at the hours of the incident."""
        query = self._case.alert.query
        holds_s = (query.holds_for_s or 0.0) if query is not None else 0.0
        days, longest = 0, 0.0
        true_at: list[datetime] = []
        values: list[float] = []
        for number in range(1, 15):
            latest = self._incident.end - number * DAY
            at = pl.col("time")
            day = self._earlier.filter(at > latest - DAY / 2, at <= latest)
            if not day.height or days == WEEK:
                continue
            days += 1
            values += day["value"].drop_nulls().to_list()
            step = _step(day)
            for begin, finish in _stretches(day.filter(pl.col("is_true") > 0), step):
                lasted = finish - begin + step
                # A shorter one did not fire.
                if lasted < holds_s:
                    continue
                longest = max(longest, lasted)
                if len(true_at) == 0 or true_at[-1] > latest:
                    true_at.append(_time(begin))
        return EarlierDays(days, len(true_at), tuple(true_at), longest, self._farthest(values))

    def _farthest(self, values: Sequence[float]) -> float | None:
        if not values:
            return None
        return max(values) if self._fires_above else min(values)

    def _levels(
        self, shown: pl.DataFrame, since: datetime | None, until: datetime | None
    ) -> tuple[float | None, float | None]:
        """Where the series that is farthest in the alert's direction ended up in the stretch, and
        its median before."""
        values = shown.filter(pl.col("value").is_not_null())
        if not values.height:
            return None, None
        levels = values.group_by("series").agg(pl.col("value").median()).sort("series")
        levels = levels.sort("value", descending=self._fires_above, maintain_order=True)
        about = pl.col("series") == levels["series"][0]
        rows = self._recent.filter(about, pl.col("value").is_not_null())
        if since is None:
            return _median(rows.tail(3)), None
        during = rows.filter(pl.col("time").is_between(since, until or self._incident.end))
        return _median(during.tail(3)), _median(rows.filter(pl.col("time") < since))


def _stretches(true: pl.DataFrame, step: float) -> list[tuple[float, float]]:
    """First and last time (s) of each run of true points."""
    if not true.height:
        return []
    times = np.unique(_seconds(true))
    breaks: Bools = np.diff(times) > BRIDGED_STEPS * step
    begins = np.concatenate([times[:1], times[1:][breaks]])
    ends = np.concatenate([times[:-1][breaks], times[-1:]])
    return list(zip(begins.tolist(), ends.tolist(), strict=True))


def _step(rows: pl.DataFrame) -> float:
    """The usual distance (s) of two points; a minute where there is one."""
    times = np.unique(_seconds(rows))
    return float(np.median(np.diff(times))) if len(times) > 1 else 60.0


def _seconds(rows: pl.DataFrame) -> Floats:
    return rows["time"].dt.epoch("ns").to_numpy() / 1e9


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _median(rows: pl.DataFrame) -> float | None:
    median = rows["value"].median()
    return float(median) if isinstance(median, (int, float)) else None


def _labels(key: str) -> dict[str, str]:
    try:
        labels = json.loads(key)
    except ValueError:
        return {}
    if not isinstance(labels, dict):
        return {}
    return {str(name): str(value) for name, value in labels.items()}


def _place(labels: Mapping[str, str]) -> dict[str, str]:
    """Environment, cluster, region and namespace; that of a scrape job stands in front of it."""
    namespace = namespace_in(labels) or job_namespace(labels.get("job", ""))
    return {**place_in(labels), "namespace": namespace}


def _common(label_sets: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The labels that all sets share."""
    if not label_sets:
        return {}
    first, *remaining = label_sets
    return {
        name: value
        for name, value in first.items()
        if all(other.get(name) == value for other in remaining)
    }


def _first(rows: pl.DataFrame, column: str) -> str | None:
    values: Iterable[object] = rows[column].drop_nulls().head(1).to_list()
    return next((str(value) for value in values), None)


def _number(rows: pl.DataFrame, column: str) -> float | None:
    values = rows[column].drop_nulls().head(1).to_list()
    return float(values[0]) if values else None
