"""What a map of an incident shows: the services of its story, who calls whom, and how the fault
spread. The layout and the drawing are in other files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from faultline.analysis.analyzers import fault_of
from faultline.analysis.case.calls import ServiceCall
from faultline.analysis.kinds.finding_details import ChangeDetails, JobDetails, PartDetails
from faultline.analysis.requests.topology import Topology, topology_of
from faultline.analysis.vocabulary import Finding, Verdict
from faultline.analysis.wording.names import change_name, subject_name
from faultline.analysis.wording.phrases import counted, plain
from faultline.bot.answer.pictures.box_states import NO_DATA, BoxStates, Role
from faultline.bot.answer.view import AnswerView

MOST_BOXES = 9
"""Services that a reader takes in at a glance; the mock of the answer says 7 to 9."""
MOST_ON_LARGE_MAP = 60
MOST_CALLS = 4
"""Calls for each service that is drawn: with more of them no line can be followed any more."""
MOST_CANDIDATES = 3
MOST_HOPS = 6
"""A longer chain of calls is no longer one picture."""


@dataclass(frozen=True)
class MapBox:
    """A service, and what is known of it."""

    service: str
    role: Role
    state: str
    """In words: "began here", "3x slower", "no data"."""
    has_data: bool = True
    change: str | None = None
    """The change that is blamed, by its short name."""
    place: str | None = None
    """Where in the service the fault is, if that is known: "zone eu-1a"."""
    finding: str | None = None
    """The finding that its state is taken from."""

    @property
    def name(self) -> str:
        """As people call it."""
        return subject_name(self.service)


@dataclass(frozen=True)
class MapCall:
    """`caller` calls `callee`."""

    call: ServiceCall

    @property
    def caller(self) -> str:
        return self.call.caller

    @property
    def callee(self) -> str:
        return self.call.callee

    @property
    def remembered(self) -> bool:
        """Whether only an earlier investigation knows of it."""
        return self.call.learned_in is not None


@dataclass(frozen=True)
class FaultArrow:
    """The fault came from one service to the other; `on_both_ends` where both show it."""

    start: str
    end: str
    on_both_ends: bool


@dataclass(frozen=True)
class IncidentMap:
    """The map, as data. `notes` are sentences to stand beside it."""

    boxes: tuple[MapBox, ...]
    calls: tuple[MapCall, ...]
    arrows: tuple[FaultArrow, ...]
    left_out: int = 0
    """Services in the known calls that are not drawn."""
    affected_left_out: int = 0
    notes: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The map for those who do not see it."""
        sentences = []
        for box in self.boxes:
            change = f", {box.change}" if box.change else ""
            sentences.append(f"{box.name}: {box.state}{change}")
        for arrow in self.arrows:
            sentences.append(f"from {subject_name(arrow.start)} to {subject_name(arrow.end)}")
        return "; ".join(sentences)

    def box(self, service: str) -> MapBox:
        """The box of a service that is drawn."""
        return next(box for box in self.boxes if box.service == service)


def incident_map(
    view: AnswerView, calls: Sequence[ServiceCall], most: int = MOST_BOXES
) -> IncidentMap | None:
    """The map of an answer, with at most that many services.

    None where there is nothing to show: no incident, a training job, no service known.
    """
    if view.verdict is Verdict.NO_ACTIVE_INCIDENT or _is_job(view):
        return None
    return _MapMaker(view, calls, most).made()


def _is_job(view: AnswerView) -> bool:
    """Whether it is about a training job, whose ranks are not called by each other."""
    first = view.cause.findings if view.cause else view.impact.findings
    about_job = any(isinstance(finding.details, JobDetails) for finding in view.findings_of(first))
    return about_job or (view.alert.job is not None and not view.causes)


class _MapMaker:
    """Chooses the services of one map and what each of them says."""

    def __init__(self, view: AnswerView, calls: Sequence[ServiceCall], most: int) -> None:
        self.view = view
        self.most = most
        self.calls_by_pair = {call.pair: call for call in calls if call.caller != call.callee}
        self.graph = topology_of(self.calls_by_pair)
        findings = view.findings.values()
        by_subject: dict[str, list[Finding]] = {}
        for finding in findings:
            # A change is a badge on the box, not the state of its service.
            if not isinstance(finding.details, ChangeDetails):
                by_subject.setdefault(finding.subject, []).append(finding)
        self.findings = by_subject
        self.states = BoxStates(view)
        self.effect_subject = next(iter(self._effect_subjects()), None)
        self.began = self._where_it_began()
        self.affected = self._affected()

    def made(self) -> IncidentMap | None:
        chosen = self._chosen()
        if not chosen:
            return None
        arrows = self._arrows(chosen)
        boxes = tuple(self._box(service) for service in chosen)
        drawn = set(chosen)
        lines = self._calls(drawn, arrows)
        return IncidentMap(
            boxes=boxes,
            calls=lines[: MOST_CALLS * len(boxes)],
            arrows=arrows,
            left_out=len(self.graph.services - drawn),
            affected_left_out=len([service for service in self.affected if service not in drawn]),
            notes=tuple(self._notes(chosen, arrows)),
        )

    def _calls(self, drawn: set[str], arrows: Sequence[FaultArrow]) -> tuple[MapCall, ...]:
        """The calls between services that are drawn; first those along which the fault spread."""
        ways = {frozenset((arrow.start, arrow.end)) for arrow in arrows}
        story = {*self.began, *self.affected}
        lines = []
        for call in self.calls_by_pair.values():
            if call.caller in drawn and call.callee in drawn:
                lines.append(MapCall(call))
        lines.sort(
            key=lambda line: (
                frozenset((line.caller, line.callee)) not in ways,
                not story & {line.caller, line.callee},
            )
        )
        return tuple(lines)

    def _where_it_began(self) -> list[str]:
        """The culprit, or the candidates where none is established; the likeliest first."""
        causes = self.view.suspects
        if self.view.established:
            return [causes[0].subject] if causes else []
        named = [cause.subject for cause in causes[:MOST_CANDIDATES]]
        return list(dict.fromkeys(named))

    def _affected(self) -> list[str]:
        """Those of the impact, the one that alerts, and callers with symptoms, but where it began;
        the worst first."""
        named = [self.effect_subject, self.view.alert.service, *self.view.impact.services]
        if self.view.established:
            for service in self.began:
                named += self._suffering_callers(service)
        return [
            service for service in dict.fromkeys(named) if service and service not in self.began
        ]

    def _suffering_callers(self, service: str) -> list[str]:
        """The services that reach it by calls and show symptoms, the nearest first."""
        callers = []
        for caller in self.graph.upstream(service, MOST_HOPS):
            if any(_is_symptom(finding) for finding in self.findings.get(caller, ())):
                callers.append(caller)
        return callers

    def _effect_subjects(self) -> Iterable[str]:
        return (finding.subject for finding in self.view.findings_of(self.view.impact.findings))

    def _chosen(self) -> list[str]:
        """The services to draw: where it began, the way to what it reached, then the neighbours
        that narrow it down."""
        # Whom the answer itself speaks of comes first: of a long way only a part may fit.
        services = [*self.began, *self.affected[:1]]
        for service in self.affected:
            services += self._way(service)
        services += self.affected
        around = self._neighbours([*self.began, *self.affected[:2]])
        services = list(dict.fromkeys([*services, *around]))
        # A large map also shows what has no part in the story.
        if self.most > MOST_BOXES:
            services = list(dict.fromkeys([*services, *sorted(self.graph.services)]))
        return services[: self.most]

    def _way(self, service: str) -> list[str]:
        """Services on a shortest way from where it began to this one, by calls.

        From a callee up to its callers, as faults travel. Down to a callee only for what the answer
        itself says that the fault reached: another one may be worse for other reasons.
        """
        goes_down = service in (self.view.alert.service, self.effect_subject)
        ways = [_shortest(self.graph, first, service, down=goes_down) for first in self.began]
        return min((way for way in ways if way), key=len, default=[])

    def _neighbours(self, services: Sequence[str]) -> list[str]:
        """What they call and who calls them; those with findings first."""
        near: list[str] = []
        for service in services:
            near += [*self.graph.callees(service), *self.graph.callers(service)]
        # Sorting is stable: those that a finding is about come first, else as they were met.
        return sorted(dict.fromkeys(near), key=lambda neighbour: neighbour not in self.findings)

    def _arrows(self, chosen: Sequence[str]) -> tuple[FaultArrow, ...]:
        """From where it began, call by call, to each that is affected. Candidates have none: it is
        not known that anything came from them."""
        if not self.view.established:
            return ()
        arrows: dict[tuple[str, str], FaultArrow] = {}
        drawn = set(chosen)
        hit = {*self.began, *self.affected}
        for service in self.affected:
            way = self._way(service)
            # A way of which a part is not drawn would lead nowhere.
            if not drawn.issuperset(way):
                continue
            for start, end in pairwise(way):
                arrows[start, end] = FaultArrow(start, end, start in hit and end in hit)
        return tuple(arrows.values())

    def _box(self, service: str) -> MapBox:
        role = self._role(service)
        finding = self.findings.get(service, [])
        state = self.states.of(service, role, finding)
        return MapBox(
            service=service,
            role=role,
            state=state.words,
            has_data=state.words != NO_DATA,
            change=self._change(service),
            place=_place(finding) if role in ("culprit", "candidate") else None,
            finding=state.finding,
        )

    def _role(self, service: str) -> Role:
        if service in self.began:
            return "culprit" if self.view.established else "candidate"
        return "affected" if service in self.affected else "other"

    def _change(self, service: str) -> str | None:
        """The change that is blamed for what began in this service."""
        for cause in self.view.suspects[:MOST_CANDIDATES]:
            if cause.subject == service and cause.change:
                return change_name(cause.change)
        return None

    def _notes(self, chosen: Sequence[str], arrows: Sequence[FaultArrow]) -> Iterable[str]:
        origin = self.began[:1] or self.affected[:1]
        unknown = [service for service in origin if service not in self.graph.services]
        if unknown:
            name = subject_name(unknown[0])
            yield (
                f"I don't know what {name} calls or who calls it. Set `depends_on` in the service "
                "catalogue, or connect traces."
            )
        elif self.view.established and (pair := self._unreached(chosen, arrows)):
            yield f"No known calls lead from {pair}."
        left_out = len([service for service in self.affected if service not in chosen])
        if left_out:
            yield f"{counted(left_out, 'more affected service')} not drawn."
        calls = len(self._calls(set(chosen), ())) - MOST_CALLS * len(chosen)
        if calls > 0:
            yield f"{counted(calls, 'more call')} not drawn."

    def _unreached(self, chosen: Sequence[str], arrows: Sequence[FaultArrow]) -> str:
        """Where it began and the first affected service to which no calls lead from there, as "a to
        b"; empty where there is none."""
        reached = {arrow.end for arrow in arrows}
        first = self.began[0]
        for service in self.affected:
            unreached = service in chosen and service not in reached
            if unreached and not _shortest(self.graph, first, service, down=True):
                return f"{subject_name(first)} to {subject_name(service)}"
        return ""


def _is_symptom(finding: Finding) -> bool:
    fault = fault_of(finding)
    return fault is not None and fault.is_symptom and finding.details.bad is not False


def _shortest(graph: Topology, start: str, end: str, *, down: bool) -> list[str]:
    """A shortest way between two services: up to callers, or where there is none, and `down` allows
    it, down to callees."""
    callers = graph.upstream(start, MOST_HOPS)
    if end in callers:
        return _back(end, callers, graph.callees)
    callees = graph.downstream(start, MOST_HOPS) if down else {}
    return _back(end, callees, graph.callers) if end in callees else []


def _back(end: str, hops: Mapping[str, int], nearer: Callable[[str], Sequence[str]]) -> list[str]:
    way = [end]
    # Each step is one hop nearer to the start, which is at zero.
    while hops[way[-1]]:
        before = nearer(way[-1])
        way.append(next(service for service in before if hops.get(service) == hops[way[-1]] - 1))
    return way[::-1]


def _place(findings: Sequence[Finding]) -> str | None:
    """The part of the service in which the fault is: "zone eu-1a"."""
    for finding in findings:
        details = PartDetails.of(finding)
        if details is not None and details.parts:
            more = f" +{len(details.parts) - 1}" if len(details.parts) > 1 else ""
            return plain(f"{details.part_kind} {details.parts[0]}{more}", 40)
    return None
