"""The calls around the alerting service, as the page draws them: callers above, below what it
calls, down to the suspects; beside the drawing where each call is known from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from analysis.case.calls import KnownCall
from analysis.requests.topology import Topology, topology_of
from analysis.vocabulary import Alert, Diagnosis
from analysis.wording.phrases import plain

Role = Literal["alert", "cause", "other"]

MOST_IN_A_ROW = 3
"""Boxes that stand beside each other on a phone."""
MOST_BELOW = 4
"""Rows below the alerting service."""
SUSPECTS = 3
WIDTH, BOX, HEIGHT, GAP, STEP = 366, 114, 34, 12, 74
"""In pixels; STEP is from one row to the next."""
LONGEST_LABEL = 15
LONGEST_LINE = 120
_ID = re.compile(r"[0-9A-Za-z-]{1,64}")


@dataclass(frozen=True)
class CallBox:
    """A service; x and y are its upper left corner."""

    name: str
    role: Role
    x: int
    y: int

    @property
    def label(self) -> str:
        """The name, cut in its middle where it is long: the ends tell services apart."""
        if len(self.name) <= LONGEST_LABEL:
            return self.name
        half = (LONGEST_LABEL - 1) // 2
        return f"{self.name[:half]}…{self.name[-half:]}"


@dataclass(frozen=True)
class DrawnCall:
    """A call between two boxes, from the lower edge of one to the upper edge of the other."""

    call: KnownCall
    x1: int
    y1: int
    x2: int
    y2: int

    @property
    def page(self) -> str | None:
        """The page of the investigation that learned it."""
        learned_in = self.call.learned_in or ""
        return f"/investigations/{learned_in}" if _ID.fullmatch(learned_in) else None


@dataclass(frozen=True)
class CallMap:
    """The figure; `left_out` calls of the alerting service are not drawn."""

    service: str
    boxes: tuple[CallBox, ...]
    calls: tuple[DrawnCall, ...]
    left_out: int

    @property
    def height(self) -> int:
        """Of the figure."""
        return max(box.y for box in self.boxes) + HEIGHT + 2

    @property
    def line(self) -> str:
        """What is known, in one line."""
        return plain(self.words, LONGEST_LINE)

    @property
    def words(self) -> str:
        """The figure for those who do not see it."""
        return "; ".join(f"{one.call.caller} calls {one.call.callee}" for one in self.calls)


def call_map(alert: Alert, diagnosis: Diagnosis, calls: Sequence[KnownCall]) -> CallMap | None:
    """The calls around the alerting service, else around the first cause; None where no call of it
    is known."""
    suspects = [cause.subject for cause in diagnosis.causes[:SUSPECTS]]
    known = {call.pair: call for call in calls}
    graph = topology_of(known)
    centre = next((one for one in (alert.service, *suspects) if one in graph.services), None)
    if centre is None:
        return None
    liked = [*suspects, *diagnosis.impact.services]
    rows = _rows(centre, graph, suspects, liked)
    boxes = {}
    for place, row in enumerate(rows):
        for box in _boxes(row, place, alert.service, suspects):
            boxes[box.name] = box
    drawn = tuple(_drawn(rows, boxes, known))
    own = {call.pair for call in calls if centre in call.pair}
    left_out = len(own - {one.call.pair for one in drawn})
    return CallMap(centre, tuple(boxes.values()), drawn, left_out)


def _rows(
    centre: str, graph: Topology, suspects: Sequence[str], liked: Sequence[str]
) -> list[list[str]]:
    """Callers, the service itself, and what it calls, row by row."""
    on_path = _paths(centre, graph, suspects)
    order = {name: place for place, name in reversed(list(enumerate([*on_path, *liked])))}

    def first(names: Iterable[str], shown: set[str]) -> list[str]:
        fresh = [name for name in dict.fromkeys(names) if name not in shown]
        return sorted(fresh, key=lambda name: (order.get(name, len(order)), name))[:MOST_IN_A_ROW]

    shown = {centre}
    callers = first(graph.callers(centre), shown)
    shown.update(callers)
    rows = [callers, [centre]] if callers else [[centre]]
    row = [centre]
    for below in range(MOST_BELOW):
        called = [callee for name in row for callee in graph.callees(name)]
        if below:
            # Further down only what leads to a suspect.
            called = [name for name in called if name in on_path]
        row = first(called, shown)
        if not row:
            break
        shown.update(row)
        rows.append(row)
    return rows


def _paths(centre: str, graph: Topology, suspects: Sequence[str]) -> list[str]:
    """The services on the shortest ways down to the suspects."""
    hops = graph.downstream(centre, MOST_BELOW)
    found: list[str] = []
    for suspect in suspects:
        at = suspect
        while hops.get(at, 0):
            found.append(at)
            nearer = [one for one in graph.callers(at) if hops.get(one) == hops[at] - 1]
            at = nearer[0]
    return list(dict.fromkeys(found))


def _boxes(
    row: Sequence[str], place: int, alerting: str | None, suspects: Sequence[str]
) -> Iterator[CallBox]:
    width = len(row) * BOX + (len(row) - 1) * GAP
    left = (WIDTH - width) // 2
    for number, name in enumerate(row):
        role: Role = "other"
        if name == alerting:
            role = "alert"
        # A service that alerts by its own fault is drawn as the cause.
        if suspects and name == suspects[0]:
            role = "cause"
        yield CallBox(name, role, left + number * (BOX + GAP), place * STEP + 1)


def _drawn(
    rows: Sequence[Sequence[str]],
    boxes: Mapping[str, CallBox],
    known: Mapping[tuple[str, str], KnownCall],
) -> Iterator[DrawnCall]:
    """The calls from one row to the next."""
    for upper, lower in pairwise(rows):
        for caller in upper:
            for callee in lower:
                call = known.get((caller, callee))
                if call is not None:
                    a, b = boxes[caller], boxes[callee]
                    middle = BOX // 2
                    yield DrawnCall(call, a.x + middle, a.y + HEIGHT, b.x + middle, b.y)
