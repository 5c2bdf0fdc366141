"""Judge one deploy: go, hold or roll back.

Each signal after the deploy is held against quiet windows before it and, where labels tell parts
with the deploy from the rest, against the rest at the same time. A roll-back takes a move that is
large enough to matter, and rarer in healthy deploys than `FALSE_ALARMS`, shared out over all
signals and looks. The signal must not have moved alike where the deploy did not go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from analysis.case.folder import Case
from analysis.deploys.canary import Canary, CanaryTest, canaries, canary_test
from analysis.deploys.judged_signals import JudgedSeries, judged_series, requests_between
from analysis.deploys.log_signals import NEW_ERROR_LINES, LogSignals, log_signals
from analysis.deploys.looks import Look
from analysis.deploys.quiet_test import QuietTest, quiet_test, window_means
from analysis.deploys.verdict import Comparison, Decision, DeployVerdict, Group, SignalCheck
from analysis.deploys.window_levels import WindowScale
from analysis.deploys.words import PER_MINUTE, beside, called, moved
from analysis.vocabulary import Evidence
from analysis.wording.amounts import amount, unit_of
from analysis.wording.names import subject_name
from analysis.wording.phrases import capitalised, counted, number, plain, rounded

FALSE_ALARMS = 0.02
"""Share of healthy deploys that may get a roll-back: one of fifty. Measured by
`benchmarks/verify_deploy.py`."""
SUSPICIOUS = 0.005
"""A move that matters and is rarer than this, by itself, is not passed as healthy."""
DECIDES = (Group.ERRORS, Group.LATENCY, Group.RESTARTS)
"""What is worth a rollback by itself. Load, traffic and log lines also change because the new code
is meant to do something else: they make it hold."""
FELT = (Group.ERRORS, Group.LATENCY)
LEAST_REQUESTS = 100
"""With fewer requests a rise from no errors to 5 % would show five errors or none."""
LEAST_POINTS = 3
TOO_COARSE = {Group.ERRORS: 0.1, Group.LATENCY: 3.0}
"""What must have been noticeable for a go: a tenth of all requests failing, latency three times as
high."""
MOST_CITED = 3
MOST_NAMED = 3


@dataclass(frozen=True)
class DeployQuestion:
    """What is asked."""

    service: str
    deployed_at: datetime
    look: Look
    parts: Mapping[str, str] = field(default_factory=dict)
    """The parts that got the deploy, by kind: `{"cluster": "eu-1"}`. Unset: told by what is new."""


def judge_deploy(case: Case, question: DeployQuestion) -> DeployVerdict:
    """The verdict on the time that the look covers."""
    return _Judge(case, question).verdict()


@dataclass(frozen=True)
class _Judged:
    """A series with its tests."""

    series: JudgedSeries
    scale: WindowScale
    before: QuietTest | None


class _Judge:
    """One judgement."""

    def __init__(self, case: Case, question: DeployQuestion) -> None:
        self._case, self._question = case, question
        look = question.look
        self._start, self._end = look.start.timestamp(), look.end.timestamp()
        self._deployed = question.deployed_at.timestamp()
        every = judged_series(case.metrics, question.service)
        self._series = [self._without_warm_up(one) for one in every]
        self._requests = requests_between(self._series, self._start, self._end)
        self._logs = self._log_signals()
        self._canaries = canaries(self._series, self._start, self._end, question.parts)

    def verdict(self) -> DeployVerdict:
        """Everything said and decided."""
        needed = self._needed()
        checks = [*self._before(needed), *self._beside(needed)]
        numbered = tuple(
            one.model_copy(update={"id": f"S{n}"}) for n, one in enumerate(_ordered(checks), 1)
        )
        worse = [one for one in numbered if one.worse and one.group in DECIDES]
        excused = [one for one in worse if self._moved_alike(one, numbered)]
        blamed = [one for one in worse if one not in excused]
        missing = self._missing(numbered)
        doubts = [one for one in numbered if one.suspicious or (one.worse and one not in blamed)]
        decision = self._decision(blamed, doubts, missing)
        look = self._question.look
        cited = {evidence for one in numbered for evidence in one.evidence}
        return DeployVerdict(
            service=self._question.service,
            deployed_at=self._question.deployed_at,
            judged_from=look.start,
            judged_until=look.end,
            final=look.is_last or decision is Decision.ROLL_BACK,
            decision=decision,
            headline=self._headline(decision, blamed, doubts, missing),
            reasons=tuple(self._reasons(blamed, doubts, excused)),
            missing=tuple(missing),
            checks=numbered,
            evidence=tuple(one for one in self._case.evidence if one.id in cited),
            gaps=self._case.gaps,
            false_alarm_rate=FALSE_ALARMS,
            look=look.number,
            looks=look.of,
        )

    def _without_warm_up(self, one: JudgedSeries) -> JudgedSeries:
        """The series without what was recorded while the rollout ran."""
        kept = (one.times < self._deployed) | (one.times >= self._start)
        kept &= one.times <= self._end
        return JudgedSeries(
            one.signal,
            one.unit,
            one.group,
            one.times[kept],
            one.values[kept],
            is_share=one.is_share,
            falls=one.falls,
            per_second=one.per_second,
            parts=one.parts,
        )

    def _log_signals(self) -> LogSignals:
        own = self._cited("logs", None)
        # Of lines that were cut nobody knows how many there were.
        if any(one.cut for one in own):
            return LogSignals((), None)
        return log_signals(self._case.logs, self._question.service, self._start, self._end)

    def _whole(self) -> Iterator[JudgedSeries]:
        for one in (*self._series, *self._logs.series):
            if one.parts is None:
                yield one

    def _needed(self) -> float:
        """The chance that each test of this look may have, by the union bound."""
        deciding = [one for one in self._whole() if one.group in DECIDES]
        tests = len(deciding) + len(self._canaries)
        return FALSE_ALARMS * self._question.look.spends / max(1, tests)

    def _before(self, needed: float) -> Iterator[SignalCheck]:
        for one in self._whole():
            scale = WindowScale(one, self._end - self._start, self._requests)
            points = one.values[(one.times >= self._start) & (one.times <= self._end)]
            if int(np.isfinite(points).sum()) < LEAST_POINTS:
                continue
            # Quiet windows end where the deploy began, not where its warm-up did.
            shifted = np.where(
                one.times < self._deployed, one.times + self._start - self._deployed, one.times
            )
            means, mean = window_means(shifted, scale.points(), self._start, self._end)
            level = float(scale.levels(np.array([mean]))[0])
            found = quiet_test(scale.levels(means), level, scale.floor, needed)
            if found is not None:
                yield self._check(one, scale, found, needed)

    def _check(
        self, one: JudgedSeries, scale: WindowScale, found: QuietTest, needed: float
    ) -> SignalCheck:
        before, after = scale.shown(found.centre), scale.shown(found.level)
        return self._said(
            one,
            Comparison.BEFORE,
            f"{counted(found.windows, 'quiet window')} before",
            (before, after),
            (found.p, needed),
            found.windows,
            scale.shown(found.detectable),
            matters=scale.matters(before, after),
        )

    def _beside(self, needed: float) -> Iterator[SignalCheck]:
        for canary in self._canaries:
            found = canary_test(canary, self._start, self._end, needed, self._requests)
            if found is not None:
                yield self._check_beside(canary, found, needed)

    def _check_beside(self, canary: Canary, found: CanaryTest, needed: float) -> SignalCheck:
        scale = WindowScale(canary.own, self._end - self._start, self._requests)
        return self._said(
            canary.own,
            Comparison.REST,
            f"{canary.kind} {_names(canary.rest)}",
            (found.rest, found.own),
            (found.p, needed),
            found.windows,
            found.detectable,
            matters=scale.matters(found.rest, found.own),
            part=f"{canary.kind} {_names(canary.names)}",
        )

    def _said(
        self,
        one: JudgedSeries,
        comparison: Comparison,
        against: str,
        levels_of: tuple[float, float],
        chances: tuple[float, float],
        windows: int,
        detectable: float,
        *,
        matters: bool,
        part: str = "",
    ) -> SignalCheck:
        p, needed = chances
        worse = matters and p < needed
        before, after = levels_of
        unit = one.unit
        if one.per_second and one.group in (Group.RESTARTS, Group.LOGS):
            # Nobody counts them by the second.
            before, after, detectable = before * 60, after * 60, detectable * 60
            unit = PER_MINUTE
        is_log = one.group is Group.LOGS
        items = self._cited("logs" if is_log else "metrics", None if is_log else one.signal)
        return SignalCheck(
            id="",
            group=one.group,
            signal=one.signal,
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
            sentence=self._sentence(one.signal, unit, comparison, against, (before, after), part),
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
        said = moved(signal, unit, *levels_of, against)
        if signal == NEW_ERROR_LINES and self._logs.newest:
            said += f" Most often: {plain(self._logs.newest, 120)}"
        return said

    def _cited(self, kind: str, signal: str | None) -> list[Evidence]:
        found = [
            one
            for one in self._case.evidence
            if one.kind == kind and one.may_show(self._question.service, signal)
        ]
        found.sort(
            key=lambda one: one.window is None or one.window.end <= self._question.look.start
        )
        return found[:MOST_CITED]

    def _moved_alike(self, one: SignalCheck, checks: Iterable[SignalCheck]) -> bool:
        """Whether a move against the past is no larger than that of parts without the deploy."""
        if one.comparison is Comparison.REST:
            return False
        parts = [
            two for two in checks if two.comparison is Comparison.REST and two.group is one.group
        ]
        return bool(parts) and not any(two.worse or two.suspicious for two in parts)

    def _missing(self, checks: Sequence[SignalCheck]) -> list[str]:
        """What a go would take and is not there."""
        service = subject_name(self._question.service)
        if not self._series:
            return [
                f"No request metrics of {service} were found. Connect them, or set "
                "prometheus.service_label and aliases in the service catalogue."
            ]
        found = []
        judged = {one.group for one in checks}
        if not judged.intersection(FELT):
            why = "neither errors nor latency could be judged"
            found.append(f"{capitalised(why)}: {self._why_not()}.")
        if self._requests is not None and self._requests < LEAST_REQUESTS:
            found.append(
                f"Too little traffic: {counted(round(self._requests), 'request')} in "
                f"{number((self._end - self._start) / 60, 2)} min, at least {LEAST_REQUESTS} are "
                "needed. Wait longer."
            )
        for group, coarse in TOO_COARSE.items():
            own = [one for one in checks if one.group is group]
            if own and all(_is_coarse(one, coarse) for one in own):
                found.append(
                    f"{capitalised(group)} vary too much: only a rise to "
                    f"{_least_noticed(own)} would have been noticed. Wait longer, or compare "
                    "with more history (--baseline)."
                )
        return found

    def _why_not(self) -> str:
        felt = [one for one in self._series if one.group in FELT and one.parts is None]
        if not felt:
            return "no such metric of it was found"
        after = [one for one in felt if bool((one.times >= self._start).any())]
        if not after:
            return "nothing was recorded after the deploy"
        return "there is too little before the deploy, or too few points after it"

    def _decision(
        self,
        blamed: Sequence[SignalCheck],
        doubts: Sequence[SignalCheck],
        missing: Sequence[str],
    ) -> Decision:
        if blamed:
            return Decision.ROLL_BACK
        if doubts or missing or not self._question.look.is_last:
            return Decision.HOLD
        return Decision.GO

    def _headline(
        self,
        decision: Decision,
        blamed: Sequence[SignalCheck],
        doubts: Sequence[SignalCheck],
        missing: Sequence[str],
    ) -> str:
        service = subject_name(self._question.service)
        if decision is Decision.ROLL_BACK:
            return f"Roll back {service}: {_lower(blamed[0].sentence)}"
        if decision is Decision.GO:
            return f"Go: nothing about {service} got worse after the deploy."
        if doubts:
            return f"Hold {service}: {_lower(doubts[0].sentence)}"
        if missing:
            return f"Hold {service}: {_lower(missing[0])}"
        return f"Hold {service}: nothing is worse so far, and the time is not over."

    def _reasons(
        self,
        blamed: Sequence[SignalCheck],
        doubts: Sequence[SignalCheck],
        excused: Sequence[SignalCheck],
    ) -> Iterator[str]:
        for one in blamed:
            yield f"{one.sentence} [{one.id}]"
        for one in doubts:
            if one in excused:
                yield f"{one.sentence} The parts without the deploy moved alike. [{one.id}]"
            elif one.worse:
                yield f"{one.sentence} This alone is no reason to roll back. [{one.id}]"
            else:
                yield f"{one.sentence} Unusual, but not certain. [{one.id}]"


def _ordered(checks: Iterable[SignalCheck]) -> list[SignalCheck]:
    """The worst first."""
    order = list(Group)
    return sorted(
        checks,
        key=lambda one: (
            not one.worse,
            not one.suspicious,
            order.index(one.group),
            # What parts show at the same time is the sharper evidence.
            one.comparison is Comparison.BEFORE,
            one.p,
            one.signal,
        ),
    )


def _is_coarse(one: SignalCheck, coarse: float) -> bool:
    if one.detectable is None:
        return True
    if one.group is Group.LATENCY:
        return one.detectable > coarse * max(one.before, 1e-9)
    return one.unit == "ratio" and one.detectable - one.before > coarse


def _least_noticed(own: Sequence[SignalCheck]) -> str:
    best = min(own, key=lambda one: (one.detectable or 0.0) / max(one.before, 1e-9))
    level = best.detectable or 0.0
    return f"{amount(level, unit_of(best.signal, best.unit, (level,)))} ({called(best.signal)})"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(plain(name, 40) for name in names[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _lower(sentence: str) -> str:
    words = sentence.split(maxsplit=1)
    if not words or not words[0][1:].islower():
        return sentence
    return sentence[:1].lower() + sentence[1:]
