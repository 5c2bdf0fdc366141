"""The signals of a service after a deploy, each beside its past and beside the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import numpy as np

from faultline.analysis.case.folder import Case
from faultline.analysis.deploys.canary import Canary, CanaryTest, canaries, canary_test
from faultline.analysis.deploys.judged_signals import (
    NEW_ERROR_LINES,
    JudgedSeries,
    LogSignals,
    judged_series,
    log_signals,
    requests_between,
)
from faultline.analysis.deploys.question import DeployQuestion
from faultline.analysis.deploys.quiet_test import (
    LEAST_POINTS,
    QuietTest,
    WindowScale,
    quiet_test,
    window_means,
)
from faultline.analysis.deploys.verdict import Comparison, Group, SignalCheck
from faultline.analysis.deploys.words import PER_MINUTE, beside, moved
from faultline.analysis.vocabulary import Evidence
from faultline.analysis.wording.phrases import counted, plain, rounded

SUSPICIOUS = 0.005
"""A move that matters and is rarer than this, by itself, is not passed as healthy."""
DECIDES = (Group.ERRORS, Group.LATENCY, Group.RESTARTS)
"""What is worth a rollback by itself. Load, traffic and log lines also change because the new code
is meant to do something else: they make it hold."""
REQUEST_GROUPS = (Group.ERRORS, Group.LATENCY, Group.THROUGHPUT)
"""Signals that a service has because it is asked something."""
LEAST_REQUESTS = 100
"""With fewer requests a rise from no errors to 5 % would show five errors or none."""
STOPPED = 0.01
"""Of a hundred requests not one arrives any more."""
LONGEST_START = timedelta(minutes=5)
"""Pods that load much take no request for minutes."""
MOST_CITED = 3
MOST_NAMED = 3


class ServiceSignals:
    """The signals of one service, for one look. `series` are those of its metrics, without the
    warm-up; `requests` those it took in the judged window, where known."""

    def __init__(self, case: Case, question: DeployQuestion) -> None:
        self._case, self._question = case, question
        look = question.look
        self._start, self._end = look.start.timestamp(), look.end.timestamp()
        self._last_third = look.last_third.timestamp()
        self._deployed = question.deployed_at.timestamp()
        every = judged_series(case.metrics, question.service)
        self.series = [self._without_warm_up(series) for series in every]
        self.requests = requests_between(self.series, self._start, self._end)
        self._logs = self._log_signals()
        self._canaries = canaries(self.series, self._start, self._end, question.parts)

    @property
    def in_parts(self) -> frozenset[Group]:
        """The groups of signals that are known of parts with the deploy and of the rest."""
        return frozenset(canary.canary_series.group for canary in self._canaries)

    @property
    def is_silent(self) -> bool:
        """Whether nothing was recorded of its requests after the deploy, and something before."""
        request_series = [series for series in self._whole() if series.group in REQUEST_GROUPS]
        active_series = [
            series for series in request_series if bool((series.times >= self._start).any())
        ]
        return bool(request_series) and not active_series

    def has_stopped(self, check: SignalCheck) -> bool:
        """Whether requests that came in every window before do not come any more."""
        look = self._question.look
        if check.group is not Group.THROUGHPUT or not check.worse:
            return False
        # A pod that starts takes no requests either.
        if self.requests is None or look.end - self._question.deployed_at < LONGEST_START:
            return False
        length = self._end - self._start
        before = requests_between(self.series, self._deployed - length, self._deployed)
        return (
            before is not None
            and before >= LEAST_REQUESTS
            and self.requests < STOPPED * before
            and check.after < STOPPED * check.before
        )

    def checks(self, spends: float) -> list[SignalCheck]:
        """All checks. `spends` is the chance that any of those which decide is a false alarm."""
        needed = self._needed(spends)
        return [*self._before(needed), *self._beside(needed)]

    def _without_warm_up(self, series: JudgedSeries) -> JudgedSeries:
        """The series without what was recorded while the rollout ran."""
        mask = (series.times < self._deployed) | (series.times >= self._start)
        mask &= series.times <= self._end
        return replace(series, times=series.times[mask], values=series.values[mask])

    def _log_signals(self) -> LogSignals:
        citations = self._cited("logs", None)
        # Of lines that were cut nobody knows how many there were.
        if any(citation.cut for citation in citations):
            return LogSignals((), None)
        return log_signals(self._case.logs, self._question.service, self._start, self._end)

    def _whole(self) -> Iterator[JudgedSeries]:
        for series in (*self.series, *self._logs.series):
            if series.parts is None:
                yield series

    def _needed(self, spends: float) -> float:
        """The chance that each test may have, by the union bound."""
        deciding = [series for series in self._whole() if series.group in DECIDES]
        tests = len(deciding) + len(self._canaries)
        return spends / max(1, tests)

    def _before(self, needed: float) -> Iterator[SignalCheck]:
        for series in self._whole():
            scale = WindowScale(series, self._end - self._start, self.requests)
            points = series.values[(series.times >= self._start) & (series.times <= self._end)]
            if int(np.isfinite(points).sum()) < LEAST_POINTS:
                continue
            # Quiet windows end where the deploy began, not where its warm-up did.
            shifted = np.where(
                series.times < self._deployed,
                series.times + self._start - self._deployed,
                series.times,
            )
            means, mean = window_means(shifted, scale.points(), self._start, self._end)
            level = float(scale.levels(np.array([mean]))[0])
            outcome = quiet_test(scale.levels(means), level, scale.floor, needed)
            if outcome is not None:
                yield self._check(series, scale, outcome, needed)

    def _check(
        self, series: JudgedSeries, scale: WindowScale, outcome: QuietTest, needed: float
    ) -> SignalCheck:
        before, after = scale.shown(outcome.centre), scale.shown(outcome.level)
        lately = scale.level_between(self._last_third, self._end)
        return self._signal_check(
            series,
            Comparison.BEFORE,
            f"{counted(outcome.windows, 'quiet window')} before",
            (before, after),
            (outcome.p, needed),
            outcome.windows,
            scale.shown(outcome.detectable),
            matters=scale.matters(before, after),
            over=scale.is_over(outcome.centre, outcome.level, lately),
        )

    def _beside(self, needed: float) -> Iterator[SignalCheck]:
        for canary in self._canaries:
            window = self._start, self._end
            outcome = canary_test(canary, window, self._last_third, needed, self.requests)
            if outcome is not None:
                yield self._check_beside(canary, outcome, needed)

    def _check_beside(self, canary: Canary, outcome: CanaryTest, needed: float) -> SignalCheck:
        scale = WindowScale(canary.canary_series, self._end - self._start, self.requests)
        return self._signal_check(
            canary.canary_series,
            Comparison.REST,
            f"{canary.kind} {_names(canary.rest)}",
            (outcome.rest, outcome.canary_level),
            (outcome.p, needed),
            outcome.windows,
            outcome.detectable,
            matters=scale.matters(outcome.rest, outcome.canary_level),
            over=outcome.over,
            part=f"{canary.kind} {_names(canary.names)}",
        )

    def _signal_check(
        self,
        series: JudgedSeries,
        comparison: Comparison,
        against: str,
        levels_of: tuple[float, float],
        chances: tuple[float, float],
        windows: int,
        detectable: float,
        *,
        matters: bool,
        over: bool,
        part: str = "",
    ) -> SignalCheck:
        p, needed = chances
        # A move has to matter and be certain: in a long window trifles are certain too.
        worse = matters and p < needed
        before, after = levels_of
        unit = series.unit
        if series.per_second and series.group in (Group.RESTARTS, Group.LOGS):
            # Nobody counts them by the second.
            before, after, detectable = before * 60, after * 60, detectable * 60
            unit = PER_MINUTE
        if series.is_rest:
            before, after, detectable = 1 - before, 1 - after, 1 - detectable
        is_log = series.group is Group.LOGS
        items = self._cited("logs" if is_log else "metrics", None if is_log else series.signal)
        return SignalCheck(
            id="",
            group=series.group,
            signal=series.signal,
            comparison=comparison,
            against=against,
            before=rounded(before),
            after=rounded(after),
            unit=unit,
            p=rounded(p, 3),
            needed_p=rounded(needed, 3),
            windows=windows,
            detectable=rounded(detectable),
            worse=worse,
            suspicious=matters and not worse and p < SUSPICIOUS,
            over=worse and over,
            sentence=self._sentence(
                series.signal, unit, comparison, against, (before, after), part
            ),
            evidence=tuple(item.id for item in items),
        )

    def _sentence(
        self,
        signal: str,
        unit: str | None,
        comparison: Comparison,
        against: str,
        levels_of: tuple[float, float],
        part: str,
    ) -> str:
        if comparison is Comparison.REST:
            return beside(signal, unit, levels_of, part, against)
        sentence = moved(signal, unit, *levels_of, against)
        if signal == NEW_ERROR_LINES and self._logs.newest:
            sentence += f" Most often: {plain(self._logs.newest, 120)}"
        return sentence

    def _cited(self, kind: str, signal: str | None) -> list[Evidence]:
        evidence = [
            citation
            for citation in self._case.evidence
            if citation.kind == kind and citation.may_show(self._question.service, signal)
        ]
        # The items that reach into the judged window come first.
        evidence.sort(
            key=lambda citation: (
                citation.window is None or citation.window.end <= self._question.look.start
            )
        )
        return evidence[:MOST_CITED]


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(plain(name, 40) for name in names[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
