"""What is on the map of an incident, in each state of an answer."""

from __future__ import annotations

from typing import Any

import pytest

from faultline.analysis.vocabulary import Impact, Verdict
from faultline.bot.answer.pictures.service_map import (
    MOST_BOXES,
    MOST_CALLS,
    MOST_ON_LARGE_MAP,
    IncidentMap,
    incident_map,
)
from tests.bot.answer.pictures.incidents import (
    FINDINGS,
    MEASURED,
    SHOP,
    calls,
    cause,
    diagnosis,
    slower,
    view_of,
)
from tests.bot.answer.targets.answers import an_alert


def drawn(known: Any = SHOP, most: int = MOST_BOXES, **more: Any) -> IncidentMap:
    found = incident_map(view_of(diagnosis(**more)), known, most)
    assert found is not None
    return found


def said(found: IncidentMap) -> dict[str, tuple[str, str]]:
    return {box.service: (box.role, box.state) for box in found.boxes}


def arrows(found: IncidentMap) -> list[tuple[str, str, bool]]:
    return [(arrow.start, arrow.end, arrow.on_both_ends) for arrow in found.arrows]


def test_the_chain_from_the_cause_to_its_users_and_the_neighbours_that_narrow_it_down() -> None:
    found = drawn()
    assert said(found) == {
        "payments": ("culprit", "began here"),
        "checkout": ("affected", "3x slower"),
        "web": ("affected", "1.4x slower"),
        "bank": ("other", "nothing found"),
        "cart": ("other", "nothing found"),
        "catalog": ("other", "nothing found"),
    }
    assert arrows(found) == [("payments", "checkout", True), ("checkout", "web", True)]
    assert found.box("payments").change == "v2.3.1"
    assert (found.left_out, found.notes) == (0, ())
    assert "payments: began here, v2.3.1; checkout: 3x slower" in found.words


def test_what_only_lies_on_the_way_is_no_victim() -> None:
    found = drawn(calls(("web", "basket"), ("basket", "payments"), ("checkout", "basket")))
    assert said(found)["basket"] == ("other", "nothing found")
    assert ("payments", "basket", False) in arrows(found)


def test_a_callee_that_is_worse_as_well_got_it_from_the_cause_only_if_the_answer_says_so() -> None:
    known = calls(("payments", "checkout"), ("payments", "web"))
    assert arrows(drawn(known)) == [("payments", "checkout", True)]


def test_a_caller_with_symptoms_is_affected_even_where_the_impact_does_not_name_it() -> None:
    known = calls(("web", "payments"), ("app", "web"), ("payments", "bank"))
    findings = (*FINDINGS, slower("F5", "app"), slower("F6", "bank"))
    found = drawn(known, findings=findings, impact=Impact(sentence="", findings=("F1",)))
    assert said(found)["app"] == ("affected", "3x slower")
    assert ("web", "app", True) in arrows(found)
    assert said(found)["bank"] == ("other", "3x slower")


def test_candidates_are_not_said_to_have_begun_it() -> None:
    two = (cause(1, "payments", "F2"), cause(2, "cart", "F2"))
    found = drawn(verdict=Verdict.INSUFFICIENT_EVIDENCE, causes=two)
    assert said(found)["payments"] == ("candidate", "suspect 1")
    assert said(found)["cart"] == ("candidate", "suspect 2")
    assert not found.arrows
    one = drawn(verdict=Verdict.INSUFFICIENT_EVIDENCE, causes=two[:1])
    assert said(one)["payments"] == ("candidate", "suspected")


def test_without_a_cause_the_symptom_and_what_is_around_it_stand_there() -> None:
    found = drawn(verdict=Verdict.INSUFFICIENT_EVIDENCE, causes=())
    assert {role for role, _ in said(found).values()} == {"affected", "other"}
    assert said(found)["checkout"] == ("affected", "3x slower")
    assert not found.arrows


def test_what_is_over_was_slow() -> None:
    assert said(drawn(verdict=Verdict.RECOVERED))["checkout"] == ("affected", "was 3x slower")


def test_no_incident_and_a_training_job_have_no_map() -> None:
    assert incident_map(view_of(diagnosis(verdict=Verdict.NO_ACTIVE_INCIDENT)), SHOP) is None
    straggler = FINDINGS[1].model_copy(update={"kind": "straggler", "details": {"rank": 2}})
    job = diagnosis(findings=(straggler.model_validate(straggler.model_dump()),))
    assert incident_map(view_of(job), SHOP) is None
    nothing = diagnosis(causes=(), impact=Impact(sentence=""), findings=())
    assert incident_map(view_of(nothing, an_alert(service=None)), SHOP) is None


def test_where_no_calls_are_known_the_map_says_so() -> None:
    found = drawn(())
    assert set(said(found)) == {"payments", "checkout", "web"}
    assert found.notes[0].startswith("I don't know what payments calls")
    apart = drawn(calls(("payments", "bank"), ("web", "checkout")))
    assert apart.notes == ("No known calls lead from payments to checkout.",)


def test_no_data_is_not_the_same_as_normal() -> None:
    found = incident_map(view_of(evidence=[MEASURED]), SHOP)
    assert found is not None
    assert said(found)["cart"] == ("other", "normal")
    assert said(found)["bank"] == ("other", "no data")
    assert not found.box("bank").has_data


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [(100.0, 250.0, "2.5x slower"), (0.0, 5.0, "slower"), (1e-9, 5.0, "far slower")],
)
def test_a_rise_in_few_words(before: float, after: float, state: str) -> None:
    findings = (slower("F1", "checkout", before, after), *FINDINGS[1:])
    assert said(drawn(findings=findings))["checkout"] == ("affected", state)


def test_a_large_system_is_cut_to_what_matters_and_what_is_left_out_is_counted() -> None:
    many = [(f"service-{n}", f"service-{n // 3}") for n in range(3, 300)]
    known = [*SHOP, *calls(*many)]
    small = drawn(known)
    assert len(small.boxes) <= MOST_BOXES
    assert small.left_out == 6 + 299 - len(small.boxes)
    large = drawn(known, MOST_ON_LARGE_MAP)
    assert len(large.boxes) == MOST_ON_LARGE_MAP
    assert {"payments", "checkout", "web"} <= set(said(large))


def test_more_victims_than_there_is_room_for_are_counted() -> None:
    victims = tuple(f"shop-{n}" for n in range(20))
    impact = Impact(sentence="", services=victims, findings=("F1",))
    found = drawn(calls(*((name, "payments") for name in victims)), impact=impact)
    assert found.affected_left_out == 13
    assert found.notes[-1] == "13 more affected services not drawn."


def test_where_all_call_each_other_only_some_calls_are_drawn() -> None:
    names = [f"service-{n}" for n in range(80)]
    known = [*SHOP, *calls(*((a, b) for a in names for b in names))]
    large = drawn([*known, *calls(("web", "service-0"))], MOST_ON_LARGE_MAP)
    assert len(large.calls) == MOST_CALLS * MOST_ON_LARGE_MAP
    assert large.notes[-1].endswith("more calls not drawn.")
    assert all(one.pair in {call.call.pair for call in large.calls} for one in SHOP[:1])


def test_calls_in_a_circle_end() -> None:
    circle = calls(("web", "checkout"), ("checkout", "payments"), ("payments", "web"))
    found = drawn([*circle, *calls(("payments", "payments"))])
    assert ("payments", "checkout", True) in arrows(found)
    assert len(found.calls) == 3
