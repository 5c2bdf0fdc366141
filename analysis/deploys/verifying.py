"""Judge one deploy: go, hold or roll back.

Each signal after the deploy is held against quiet windows before it and, where labels tell parts
with the deploy from the rest, against the rest at the same time. A roll-back takes a move that is
large enough to matter, and rarer in healthy deploys than `FALSE_ALARMS`, shared out over all
signals and looks. The signal must not have moved alike where the deploy did not go, nor be back at
its usual level. A service without requests, or without pods that come up, is rolled back too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta

from faultline.analysis.case.folder import Case
from faultline.analysis.deploys.question import DeployQuestion
from faultline.analysis.deploys.quiet_test import LEAST_WINDOWS
from faultline.analysis.deploys.signal_checks import DECIDES, LEAST_REQUESTS, ServiceSignals
from faultline.analysis.deploys.verdict import (
    Comparison,
    Decision,
    DeployVerdict,
    Group,
    SignalCheck,
)
from faultline.analysis.deploys.words import called
from faultline.analysis.states.facts import fact_groups
from faultline.analysis.states.weighing import evidence_of, fact_sentence
from faultline.analysis.wording.amounts import amount, unit_of
from faultline.analysis.wording.names import subject_name
from faultline.analysis.wording.phrases import capitalised, counted, number

# What a cluster says of the rollout: pods that keep crashing, images that cannot be pulled,
# replicas that do not become ready.
#
# Only what began with the deploy counts. It rolls back where the service is gone with it. Where the
# old pods still serve, it keeps a rollout that never happened from being called a go.

MISSING = "replicas_missing"
LASTS = timedelta(minutes=5)
"""A rollout and an autoscaler leave replicas missing for as long as a pod takes to start."""
TELLING = frozenset(
    {
        MISSING,
        "rollout_stuck",
        "scaled_to_zero",
        "crash_loop",
        "image_unavailable",
        "container_refused",
        "unschedulable",
    }
)
"""Facts of `faultline.analysis.kinds.cluster_faults` that keep new pods from serving."""
EARLIEST = timedelta(minutes=1)
"""The API server's clock and the pipeline's are not the same."""


@dataclass(frozen=True)
class RolloutFact:
    """One fact that began with the deploy."""

    sentence: str
    says_none: bool
    """Whether it says by itself that no instance serves."""
    evidence: tuple[str, ...]


def rollout_facts(case: Case, question: DeployQuestion) -> tuple[RolloutFact, ...]:
    """The facts about the service, those that say most first."""
    facts = list(_facts(case, question)) if case.states.height else []
    return tuple(sorted(facts, key=lambda fact: not fact.says_none))


def _facts(case: Case, question: DeployQuestion) -> Iterator[RolloutFact]:
    earliest, end = question.deployed_at - EARLIEST, question.look.end
    for group in fact_groups(case):
        since = group.since
        if group.fault.name not in TELLING or question.service not in (
            group.subject,
            *group.services,
        ):
            continue
        # Pods need minutes to start: what is missing only now may be there soon.
        latest = end - LASTS if group.fault.name == MISSING else end
        if since is not None and earliest <= since <= latest:
            evidence = evidence_of(case, group)
            # Nothing serves only if every object is at zero.
            none_left = group.fault.name == MISSING and all(
                fact.value == "0" for fact in group.facts
            )
            yield RolloutFact(
                f"{fact_sentence(group)}.",
                (none_left or group.fault.name == "scaled_to_zero"),
                evidence,
            )


FALSE_ALARMS = 0.02
"""Share of healthy deploys that may get a roll-back: one of fifty. Measured by
`benchmarks/verify_deploy.py`."""
FELT = (Group.ERRORS, Group.LATENCY)
TOO_COARSE = {Group.ERRORS: 0.1, Group.LATENCY: 3.0}
"""What must have been noticeable for a go: a tenth of all requests failing, latency three times as
high."""


def judge_deploy(case: Case, question: DeployQuestion) -> DeployVerdict:
    """The verdict on the time that the look covers."""
    signals = ServiceSignals(case, question)
    # Share the budget of false alarms among the looks.
    ordered_checks = _ordered(signals.checks(FALSE_ALARMS * question.look.spends))
    checks = tuple(
        check.model_copy(update={"id": f"S{n}"}) for n, check in enumerate(ordered_checks, 1)
    )
    # Without requests there is no error rate, so the silence itself has to decide.
    stopped = next((check for check in checks if signals.has_stopped(check)), None)
    rollout = rollout_facts(case, question)
    missing = tuple(_Missing(question, signals, checks, stopped).lines())
    judged = _Judged(
        question, checks, missing, signals.in_parts, stopped, rollout, is_silent=signals.is_silent
    )
    cited = {evidence for check in checks for evidence in check.evidence}
    cited.update(evidence for fact in rollout for evidence in fact.evidence)
    look = question.look
    return DeployVerdict(
        service=question.service,
        deployed_at=question.deployed_at,
        judged_from=look.start,
        judged_until=look.end,
        # No later look can take a roll-back back.
        final=look.is_last or judged.decision is Decision.ROLL_BACK,
        decision=judged.decision,
        headline=judged.headline(),
        reasons=tuple(judged.reasons()),
        missing=judged.missing,
        checks=checks,
        rollout=tuple(fact.sentence for fact in rollout),
        evidence=tuple(citation for citation in case.evidence if citation.id in cited),
        gaps=case.gaps,
        false_alarm_rate=FALSE_ALARMS,
        look=look.number,
        looks=look.of,
    )


@dataclass(frozen=True)
class _Judged:
    """What the checks come to."""

    question: DeployQuestion
    checks: Sequence[SignalCheck]
    missing: tuple[str, ...]
    in_parts: frozenset[Group]
    stopped: SignalCheck | None
    """That no requests come any more."""
    rollout: Sequence[RolloutFact]
    is_silent: bool

    @property
    def worse(self) -> list[SignalCheck]:
        """What is certain, and reason enough."""
        return [check for check in self.checks if check.worse and check.group in DECIDES]

    @property
    def over(self) -> list[SignalCheck]:
        """What came and went."""
        return [check for check in self.worse if check.over]

    @property
    def gone(self) -> list[RolloutFact]:
        """What the cluster says of a service that nothing was heard of since, or that has no
        instance."""
        # A crash loop is no outage while old pods still serve.
        unheard = self.is_silent or self.stopped is not None
        return [fact for fact in self.rollout if unheard or fact.says_none]

    @property
    def excused(self) -> list[SignalCheck]:
        """What the parts without the deploy show too."""
        return [check for check in self.worse if _moved_alike(check, self.checks)]

    @property
    def postponed(self) -> list[SignalCheck]:
        """What moved against the past, and can be compared with the rest at a later look."""
        # After the last look there is no later comparison to wait for.
        if self.question.look.is_last:
            return []
        compared = {check.group for check in self.checks if check.comparison is Comparison.REST}
        waiting = self.in_parts - compared
        return [check for check in self.worse if check.group in waiting]

    @property
    def blamed(self) -> list[SignalCheck]:
        """What is left of it."""
        spared = [*self.excused, *self.postponed, *self.over]
        stopped = [self.stopped] if self.stopped is not None else []
        return [*(check for check in self.worse if check not in spared), *stopped]

    @property
    def doubts(self) -> list[SignalCheck]:
        """What keeps it from a go."""
        blamed = self.blamed
        return [
            check
            for check in self.checks
            if check.suspicious or (check.worse and check not in blamed)
        ]

    @property
    def decision(self) -> Decision:
        """Go, hold or roll back."""
        if self.gone or self.blamed:
            return Decision.ROLL_BACK
        # Only the last look may say go: an earlier one may be followed by a rise.
        if self.rollout or self.doubts or self.missing or not self.question.look.is_last:
            return Decision.HOLD
        return Decision.GO

    def headline(self) -> str:
        """The decision and its first reason in a sentence."""
        service = subject_name(self.question.service)
        if self.gone:
            return f"Roll back {service}: {self.gone[0].sentence}"
        if self.decision is Decision.ROLL_BACK:
            return f"Roll back {service}: {_lower(self._sentence(self.blamed[0]))}"
        if self.decision is Decision.GO:
            return f"Go: nothing about {service} got worse after the deploy."
        if self.rollout:
            return f"Hold {service}: {self.rollout[0].sentence}"
        if self.doubts:
            return f"Hold {service}: {_lower(self.doubts[0].sentence)}"
        if self.missing:
            return f"Hold {service}: {_lower(self.missing[0])}"
        return f"Hold {service}: nothing is worse so far, and the time is not over."

    def reasons(self) -> Iterator[str]:
        """A line for each check and each fact that speaks for the decision."""
        for fact in self.rollout:
            yield " ".join([fact.sentence, *(f"[{evidence}]" for evidence in fact.evidence)])
        for check in self.blamed:
            yield f"{self._sentence(check)} [{check.id}]"
        excused, postponed = self.excused, self.postponed
        for doubt in self.doubts:
            if doubt in excused:
                yield f"{doubt.sentence} The parts without the deploy moved alike. [{doubt.id}]"
            elif doubt in postponed:
                sentence = "It is too early to compare the parts without the deploy."
                yield f"{doubt.sentence} {sentence} [{doubt.id}]"
            elif doubt.over:
                yield f"{doubt.sentence} It was over before the end of the window. [{doubt.id}]"
            elif doubt.worse:
                yield f"{doubt.sentence} This alone is no reason to roll back. [{doubt.id}]"
            else:
                yield f"{doubt.sentence} Unusual, but not certain. [{doubt.id}]"

    def _sentence(self, check: SignalCheck) -> str:
        if check is not self.stopped:
            return check.sentence
        return f"It takes no requests any more. {check.sentence}"


@dataclass(frozen=True)
class _Missing:
    """What a go would take and is not there."""

    question: DeployQuestion
    signals: ServiceSignals
    checks: Sequence[SignalCheck]
    stopped: SignalCheck | None

    def lines(self) -> Iterator[str]:
        """A sentence for each."""
        if not self.signals.series:
            service = subject_name(self.question.service)
            yield (
                f"No request metrics of {service} were found. Connect them, or set "
                "prometheus.service_label and aliases in the service catalogue."
            )
            # Without a series every other line would say the same.
            return
        if not {check.group for check in self.checks}.intersection(FELT):
            yield f"Neither errors nor latency could be judged: {self._why_not()}."
        requests, look = self.signals.requests, self.question.look
        if self.stopped is None and requests is not None and requests < LEAST_REQUESTS:
            minutes = (look.end - look.start).total_seconds() / 60
            yield (
                f"Too little traffic: {counted(round(requests), 'request')} in "
                f"{number(minutes, 2)} min, at least {LEAST_REQUESTS} are needed. Wait longer."
            )
        for group, coarse in TOO_COARSE.items():
            checks = [check for check in self.checks if check.group is group]
            # One comparison that is fine enough suffices for a go.
            if checks and all(_is_coarse(check, coarse) for check in checks):
                vary = "varies" if group is Group.LATENCY else "vary"
                yield (
                    f"{capitalised(group)} {vary} too much: only "
                    f"{_least_noticed(checks)} would have "
                    "been noticed. Wait longer, or compare with more history (--baseline)."
                )

    def _why_not(self) -> str:
        felt = [
            series
            for series in self.signals.series
            if series.group in FELT and series.parts is None
        ]
        if not felt:
            return "no such metric of it was found"
        start = self.question.look.start.timestamp()
        if not any(bool((series.times >= start).any()) for series in felt):
            return (
                "nothing was recorded after the deploy. Either it is not scraped any more, or it "
                "does not run: kube-state-metrics or a Kubernetes cluster in the settings would "
                "tell which"
            )
        first_time = min(float(series.times[0]) for series in felt if len(series.times))
        before = (self.question.deployed_at.timestamp() - first_time) / 60
        look = self.question.look
        needed = LEAST_WINDOWS * (look.end - look.start).total_seconds() / 60
        if before < needed:
            return (
                f"{number(max(0.0, before), 2)} min before the deploy are known, and at least "
                f"{number(needed, 2)} min are needed. A shorter --wait needs less"
            )
        return "there are too few points before the deploy, or after it"


def _moved_alike(check: SignalCheck, checks: Iterable[SignalCheck]) -> bool:
    """Whether a move against the past is no larger than that of parts without the deploy."""
    if check.comparison is Comparison.REST:
        return False
    parts = [
        two for two in checks if two.comparison is Comparison.REST and two.group is check.group
    ]
    return bool(parts) and not any(two.worse or two.suspicious for two in parts)


def _ordered(checks: Iterable[SignalCheck]) -> list[SignalCheck]:
    """The worst first."""
    order = list(Group)
    return sorted(
        checks,
        key=lambda check: (
            not check.worse,
            not check.suspicious,
            order.index(check.group),
            # What parts show at the same time is the sharper evidence.
            check.comparison is Comparison.BEFORE,
            check.p,
            check.signal,
        ),
    )


def _is_coarse(check: SignalCheck, coarse: float) -> bool:
    if check.detectable is None:
        return True
    if check.group is Group.LATENCY:
        return check.detectable > coarse * max(check.before, 1e-9)
    return check.unit == "ratio" and abs(check.detectable - check.before) > coarse


def _least_noticed(checks: Sequence[SignalCheck]) -> str:
    signal_check = min(
        checks,
        key=lambda signal_check: abs(
            (signal_check.detectable or 0.0) / max(signal_check.before, 1e-9) - 1
        ),
    )
    level = signal_check.detectable or 0.0
    move = "fall" if level < signal_check.before else "rise"
    shown = amount(level, unit_of(signal_check.signal, signal_check.unit, (level,)))
    return f"a {move} to {shown} ({called(signal_check.signal)})"


def _lower(sentence: str) -> str:
    words = sentence.split(maxsplit=1)
    # A name such as `CPU` or `checkoutService` keeps its capitals.
    if not words or not words[0][1:].islower():
        return sentence
    return sentence[:1].lower() + sentence[1:]
