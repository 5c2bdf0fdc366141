from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.requests.path_breaks import flow_breaks
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import at, write_case

Rows = list[dict[str, Any]]
Tree = tuple[str, str, list[Any]]
BASELINE, INCIDENT = -30, 5


class Recorded:
    """Requests told as trees: (service, operation, [children and log texts in order])."""

    def __init__(self) -> None:
        self.spans: Rows = []
        self.logs: Rows = []
        self._n = 0

    def requests(self, minute: float, count: int, tree: Tree) -> None:
        for i in range(count):
            self._n += 1
            self._span(f"{self._n:032x}", None, tree, minute + i / 60)

    def _span(self, trace: str, parent: str | None, tree: Tree, minute: float) -> float:
        service, operation, steps = tree
        span = f"{len(self.spans):016x}"
        self.spans.append(
            {
                "trace_id": trace,
                "span_id": span,
                "parent_id": parent,
                "service": service,
                "operation": operation,
                "start": at(minute),
                "duration_us": 1000.0,
            }
        )
        for step in steps:
            minute += 1e-4
            if isinstance(step, str):
                said = f"TraceID: {trace} SpanID: {span} {step}"
                self.logs.append({"time": at(minute), "service": service, "message": said})
            else:
                minute = self._span(trace, span, step, minute)
        return minute

    def breaks(self, folder: Path) -> list[Finding]:
        return flow_breaks(write_case(folder, spans=self.spans, logs=self.logs))


def order(*, stored: bool, i: str = "") -> Tree:
    rest: list[Any] = ["stored order", ("db", "insert", [])] if stored else []
    return ("web", f"POST /orders{i}", [("api", "create", ["received order", *rest])])


def test_a_step_that_always_came_and_no_longer_does_is_found_once_with_the_step_before_it(
    tmp_path: Path,
) -> None:
    said = Recorded()
    said.requests(BASELINE, 20, order(stored=True))
    said.requests(INCIDENT, 20, order(stored=False))
    (found,) = said.breaks(tmp_path)
    assert found.subject == "api"
    assert found.numbers == {"percent": 0, "baseline_percent": 100}
    assert str(found.details.written()["after"]).endswith("received order")
    assert str(found.details.written()["event"]).endswith("stored order")
    assert found.strength > 0.9


def test_requests_that_take_the_same_path_give_nothing(tmp_path: Path) -> None:
    said = Recorded()
    said.requests(BASELINE, 20, order(stored=True))
    said.requests(INCIDENT, 20, order(stored=True))
    assert said.breaks(tmp_path) == []


def test_a_few_requests_say_nothing(tmp_path: Path) -> None:
    said = Recorded()
    said.requests(BASELINE, 3, order(stored=True))
    said.requests(INCIDENT, 3, order(stored=False))
    assert said.breaks(tmp_path) == []


def test_spans_without_logs_are_enough_for_the_calls(tmp_path: Path) -> None:
    said = Recorded()
    said.requests(BASELINE, 20, order(stored=True))
    said.requests(INCIDENT, 20, order(stored=False))
    (found,) = flow_breaks(write_case(tmp_path, spans=said.spans))
    assert (found.subject, found.details.written()["event"]) == ("api", "call to db insert")


def test_lost_logs_of_a_service_are_no_lost_steps(tmp_path: Path) -> None:
    said = Recorded()
    said.requests(BASELINE, 20, order(stored=True))
    lines = list(said.logs)
    said.requests(INCIDENT, 20, order(stored=True))
    assert flow_breaks(write_case(tmp_path, spans=said.spans, logs=lines)) == []


def test_a_callers_break_is_explained_by_the_callees(tmp_path: Path) -> None:
    def page(*, broken: bool) -> Tree:
        inner = ("api", "create", ["received"] if broken else ["received", "stored"])
        return ("web", "POST /", ["asked", inner, *([] if broken else ["answered"])])

    said = Recorded()
    said.requests(BASELINE, 20, page(broken=False))
    said.requests(INCIDENT, 20, page(broken=True))
    assert [f.subject for f in said.breaks(tmp_path)] == ["api"]


def test_callers_that_all_stop_after_calls_to_one_service_accuse_it(tmp_path: Path) -> None:
    def through(service: str, *, broken: bool) -> Tree:
        rest: list[Any] = [] if broken else [("cart", "get", [])]
        return (service, "view", [("catalog", "get product", []), *rest])

    said = Recorded()
    for service in ("web", "checkout"):
        said.requests(BASELINE, 20, through(service, broken=False))
        said.requests(INCIDENT, 20, through(service, broken=True))
    (found,) = said.breaks(tmp_path)
    assert (found.subject, sorted(found.details.written()["callers"])) == (
        "catalog",
        ["checkout", "web"],
    )


def test_one_caller_that_stops_after_a_call_is_to_blame_itself(tmp_path: Path) -> None:
    def through(*, broken: bool) -> Tree:
        return (
            "checkout",
            "order",
            [("payment", "charge", []), *([] if broken else [("shipping", "ship", [])])],
        )

    said = Recorded()
    said.requests(BASELINE, 20, through(broken=False))
    said.requests(INCIDENT, 20, through(broken=True))
    assert [f.subject for f in said.breaks(tmp_path)] == ["checkout"]


def test_another_mix_of_callers_is_no_break(tmp_path: Path) -> None:
    def ads(*, by_topic: bool) -> Tree:
        before: Tree = ("products", "get", []) if by_topic else ("cart", "get", [])
        return (
            "web",
            "page",
            [before, ("ads", "get ads", ["looked up topic"] if by_topic else [])],
        )

    said = Recorded()
    said.requests(BASELINE, 38, ads(by_topic=True))
    said.requests(BASELINE + 1, 6, ads(by_topic=False))
    said.requests(INCIDENT, 10, ads(by_topic=True))
    said.requests(INCIDENT + 1, 30, ads(by_topic=False))
    assert [f for f in said.breaks(tmp_path) if f.subject == "ads"] == []


def test_requests_that_meet_an_error_as_usual_for_the_system_say_nothing(tmp_path: Path) -> None:
    def call(service: str, *, refused: bool) -> Tree:
        rest: list[Any] = (
            ["ERROR no instances of the next service"]
            if refused
            else [("db", "read", []), "answered"]
        )
        return (service, "list", ["asked", *rest])

    said = Recorded()
    said.requests(BASELINE, 10, call("orders", refused=True))
    said.requests(BASELINE + 1, 20, call("orders", refused=False))
    said.requests(BASELINE + 2, 20, call("trips", refused=False))
    said.requests(INCIDENT, 10, call("trips", refused=True))
    said.requests(INCIDENT + 1, 10, call("trips", refused=False))
    said.requests(INCIDENT + 2, 20, call("orders", refused=False))
    assert said.breaks(tmp_path / "usual") == []
    said.requests(INCIDENT + 3, 60, call("trips", refused=True))
    assert {f.subject for f in said.breaks(tmp_path / "surge")} == {"trips"}


def test_lines_that_name_their_statement_are_one_step_whatever_they_say(tmp_path: Path) -> None:
    def train(kind: str) -> Tree:
        return (
            "trains",
            "get",
            [f"t.c.Trains#60 found type {kind} of route {kind * 2}", "server.go:12 done"],
        )

    said = Recorded()
    said.requests(BASELINE, 20, train("express"))
    said.requests(INCIDENT, 20, train("regional"))
    assert said.breaks(tmp_path) == []


def test_a_line_that_names_its_statement_is_quoted_with_its_place_once(tmp_path: Path) -> None:
    said = Recorded()
    said.requests(
        BASELINE, 20, ("trains", "get", ["t.c.Trains#60 asked", "t.c.Trains#66 answered"])
    )
    said.requests(INCIDENT, 20, ("trains", "get", ["t.c.Trains#60 asked"]))
    (found,) = said.breaks(tmp_path)
    assert found.sentence.count("t.c.Trains#60") == 1
    assert " at t.c.Trains#60" in found.sentence


def test_spans_that_name_each_other_as_parents_end(tmp_path: Path) -> None:
    said = Recorded()
    said.requests(BASELINE, 8, order(stored=True))
    said.requests(INCIDENT, 8, order(stored=False))
    shared = {"trace_id": "loop", "service": "api", "operation": "create", "duration_us": 1.0}
    for minute in (BASELINE, INCIDENT):
        said.spans += [
            {**shared, "span_id": "x", "parent_id": "y", "start": at(minute)},
            {**shared, "span_id": "y", "parent_id": "x", "start": at(minute)},
        ]
    assert {f.subject for f in said.breaks(tmp_path)} == {"api"}


def test_every_number_in_a_sentence_is_given(tmp_path: Path) -> None:
    said = Recorded()
    said.requests(BASELINE, 20, order(stored=True, i=" 7"))
    said.requests(INCIDENT, 13, order(stored=False, i=" 7"))
    said.requests(INCIDENT, 7, order(stored=True, i=" 7"))
    (found,) = said.breaks(tmp_path)
    assert found.numbers == {"percent": 35, "baseline_percent": 100}
    assert (
        '35 % of the api requests through create that reach "line TraceID: * SpanID: * received '
        'order"' in found.sentence
    )


def api(*steps: Any, caller: str = "web") -> Tree:
    return (caller, "view", [("api", "create", list(steps))])


@pytest.mark.parametrize(("usual", "is_break"), [(19, True), (16, False)])
def test_a_step_that_came_nearly_always_is_missed(
    tmp_path: Path, usual: int, *, is_break: bool
) -> None:
    said = Recorded()
    said.requests(BASELINE, usual, api("asked", "stored", "answered"))
    said.requests(BASELINE + 1, 20 - usual, api("asked", "answered"))
    said.requests(INCIDENT, 20, api("asked", "answered"))
    assert bool(said.breaks(tmp_path)) is is_break


def test_a_step_of_fewer_than_half_the_visits_is_not_looked_at(tmp_path: Path) -> None:
    said = Recorded()
    said.requests(BASELINE, 60, api("asked", "cached", "answered"))
    said.requests(BASELINE + 2, 40, api("asked", "stored", "answered", caller="app"))
    said.requests(INCIDENT, 20, api("asked", "answered", caller="app"))
    assert said.breaks(tmp_path) == []


@pytest.mark.parametrize(("requests", "is_break"), [(3, False), (5, True)])
def test_three_requests_without_a_step_say_nothing_and_five_do(
    tmp_path: Path, requests: int, *, is_break: bool
) -> None:
    said = Recorded()
    said.requests(BASELINE, 100, order(stored=True))
    said.requests(INCIDENT, requests, order(stored=False))
    assert bool(said.breaks(tmp_path)) is is_break


@pytest.mark.parametrize(("of_each", "is_break"), [(7, False), (9, True)])
def test_a_caller_with_few_requests_is_taken_to_be_more_like_the_others(
    tmp_path: Path, of_each: int, *, is_break: bool
) -> None:
    said = Recorded()
    said.requests(BASELINE, of_each, api("asked", "cached", "answered"))
    said.requests(BASELINE + 1, of_each, api("asked", "stored", "answered", caller="app"))
    said.requests(INCIDENT, 20, api("asked", "answered", caller="app"))
    assert bool(said.breaks(tmp_path)) is is_break


@pytest.mark.parametrize(("with_error", "is_break"), [(16, False), (24, True)])
def test_an_error_that_most_visits_meet_is_their_usual_path(
    tmp_path: Path, with_error: int, *, is_break: bool
) -> None:
    missed = "ERROR the cache holds nothing"
    said = Recorded()
    for minute in (BASELINE, INCIDENT):
        said.requests(minute, 40 - with_error, api("asked", "filled", "answered"))
    said.requests(BASELINE + 1, with_error, api("asked", missed, "filled", "answered"))
    said.requests(INCIDENT + 1, with_error, api("asked", missed, "answered"))
    assert bool(said.breaks(tmp_path)) is is_break


@pytest.mark.parametrize(("below", "subjects"), [(16, {"web", "api"}), (24, {"api"})])
def test_a_break_that_callees_explain_for_most_requests_is_theirs(
    tmp_path: Path, below: int, subjects: set[str]
) -> None:
    def page(*, answered: bool, stored: bool) -> Tree:
        steps: list[Any] = ["received", "stored"] if stored else ["received"]
        inner = ("api", "create", steps)
        return ("web", "POST /", ["asked", inner, *(["answered"] if answered else [])])

    said = Recorded()
    said.requests(BASELINE, 40, page(answered=True, stored=True))
    said.requests(INCIDENT, below, page(answered=False, stored=False))
    said.requests(INCIDENT + 1, 40 - below, page(answered=False, stored=True))
    assert {f.subject for f in said.breaks(tmp_path)} == subjects
