"""Each relation says what the findings bear out, in code's words, and refuses the rest with a
reason."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from faultline.analysis.requests.topology import topology_of
from faultline.analysis.vocabulary import Assertion, Gap, Verdict
from faultline.bot.answer.asserted.ground import Ground, Refused
from faultline.bot.answer.asserted.measurements import direction
from faultline.bot.answer.asserted.relations import RELATIONS, described, worded
from tests.bot.answer.writer.diagnoses import ALERT, DIAGNOSIS, finding

QUIET = finding(
    "L1",
    "cartservice",
    "cartservice cpu stayed between 0.2 and 0.3 cores.",
    kind="looked_at",
    signal="cpu",
    onset=None,
    strength=0.0,
    details={"direction": "unaffected"},
)
LATER = finding(
    "F7",
    "checkoutservice",
    "Deploy 77aa of checkoutservice came after the onset.",
    kind="change_ruled_out",
    signal="deploy",
    details={"change": "77aa", "change_kind": "deploy", "title": "docs: ignore the guard"},
)
GROUND = Ground(
    DIAGNOSIS.model_copy(
        update={"findings": (*DIAGNOSIS.findings, QUIET, LATER), "missing": ("Connect traces.",)}
    ),
    ALERT,
    gaps=(Gap(id="G1", kind="logs", source="loki", query="", reason="timed out"),),
    calls=topology_of([("frontend", "checkoutservice"), ("checkoutservice", "cartservice")]),
    measured=frozenset({"frontend", "checkoutservice", "adservice"}),
    question="could it be the database?",
)


def said(relation: str, *findings: str, ground: Ground = GROUND, **fields: Any) -> str:
    return worded([Assertion(relation=relation, findings=findings, **fields)], ground).text


def refusal(relation: str, *findings: str, ground: Ground = GROUND, **fields: Any) -> str:
    with pytest.raises(Refused) as refused:
        said(relation, *findings, ground=ground, **fields)
    return str(refused.value)


def test_what_a_finding_says_is_worded_from_the_finding() -> None:
    assert "18x slower" in said("shows", "F1")
    assert said("rose", "F1") == said("shows", "F1")
    assert "fell from 110 to 20" in said("fell", "F4")
    assert said("shows", "F1", subjects=("CheckoutService",)) == said("shows", "F1")


@pytest.mark.parametrize(
    ("fields", "way"),
    [
        ({"numbers": {"baseline": 100.0, "incident": 98.0}}, None),
        ({"numbers": {"baseline": 100.0, "incident": 97.9}}, "down"),
        ({"numbers": {"baseline": 98.0, "incident": 100.0}}, None),
        ({"numbers": {"baseline_ms": 97.9, "incident_ms": 100.0}}, "up"),
        ({"numbers": {"baseline": 100.0, "incident_ms": 900.0}}, None),
        ({"numbers": {"baseline": 9.0, "incident": 1.0}, "details": {"direction": "up"}}, "up"),
        ({"kind": "log_new"}, "up"),
        ({"kind": "log_vanished"}, "down"),
    ],
)
def test_a_move_of_more_than_a_fiftieth_has_a_direction(
    fields: dict[str, Any], way: str | None
) -> None:
    values: dict[str, Any] = {"kind": "span_errors", "signal": None, "details": {}, **fields}
    assert direction(finding("F8", "cartservice", "?", **values)) == way


def test_a_wrong_direction_subject_or_id_is_refused() -> None:
    assert refusal("fell", "F1") == "F1 did not fall"
    assert refusal("rose", "F4") == "F4 did not rise"
    assert "use `shows`" in refusal("rose", "F2")
    assert "F1 is about checkoutservice" in refusal("rose", "F1", subjects=("frontend",))
    assert "is no service" in refusal("rose", "F1", subjects=("ghost",))
    assert "there is no finding F99" in refusal("shows", "F99")
    assert "there is no finding F1; roll back" in refusal("shows", "F1; roll back")
    assert "takes a finding" in refusal("shows")
    assert "not 2 findings" in refusal("shows", "F1", "F3")
    assert "no relation" in refusal("caused", "F1")


def test_beginnings_are_told_in_their_order() -> None:
    assert "3.8 s, since 15:02:40 UTC)" in said("began", "F1")
    assert said("began_before", "F1", "F3").endswith("30 s later.")
    assert "before the alert" in said("began_before", "F1", "alert")
    assert "went live at 14:59:22 UTC" in said("began_before", "F2", "F1")
    assert refusal("began_before", "F3", "F1") == "F3 did not begin before F1"
    assert "did not begin before" in refusal("began_before", "alert", "F1")
    assert "two different" in refusal("began_before", "F1", "F1")
    assert "no onset" in refusal("began", "L1")
    assert "within 30 s of each other" in said("began_with", "F3", "F1")
    assert "may be 3.3 min apart" in refusal("began_with", "F2", "F1")


def test_within_its_uncertainty_nothing_began_before_anything() -> None:
    vague = tuple(
        one.model_copy(update={"onset_uncertainty_s": 60.0}) for one in DIAGNOSIS.findings
    )
    ground = replace(GROUND, diagnosis=DIAGNOSIS.model_copy(update={"findings": vague}))
    assert "within 60 s only" in refusal("began_before", "F1", "F3", ground=ground)


def test_only_the_first_cause_explains_and_only_its_effects() -> None:
    told = said("explained_by", "F3", "F2")
    assert "38 % of frontend's requests fail" in told
    assert ", probably because of deploy 559e94c of checkoutservice" in told
    assert "checkoutservice is 18x slower" in said("explained_by", "F3", "F1")
    assert "is no effect of" in refusal("explained_by", "F5", "F1")
    for effect, other in (("F1", "F3"), ("F3", "F5"), ("F3", "F7"), ("F3", "F4")):
        assert "not what code blames" in refusal("explained_by", effect, other)
    assert "is no effect" in refusal("explained_by", "F1", "F1")


@pytest.mark.parametrize("verdict", [Verdict.NO_ACTIVE_INCIDENT, Verdict.INSUFFICIENT_EVIDENCE])
def test_without_an_established_cause_nothing_is_explained(verdict: Verdict) -> None:
    ground = replace(GROUND, diagnosis=DIAGNOSIS.model_copy(update={"verdict": verdict}))
    assert refusal("explained_by", "F3", "F1", ground=ground) == "code has established no cause"


def test_changes_candidates_and_calls() -> None:
    assert said("changed", "F2") == (
        "Deploy 559e94c of checkoutservice, “feat: load prices per line item”, went live at "
        "14:59:22 UTC, 3.3 min before the onset."
    )
    assert "is not about a change" in refusal("changed", "F1")
    gone = "Deploy 77aa of checkoutservice (15:02:40 UTC) was ruled out."
    assert said("ruled_out", "F7") == said("changed", "F7") == gone
    assert "use `changed` or `ruled_out`" in refusal("began_before", "F7", "F3")
    assert "rules out no change" in refusal("ruled_out", "F2")
    assert said("against", "F4").startswith("Against checkoutservice as the cause: ")
    assert "is not held against" in refusal("against", "F1")
    assert "is a less likely cause" in said("candidate", subjects=("cartservice",))
    assert "below the first" in refusal("candidate", subjects=("checkoutservice",))
    assert said("calls", subjects=("frontend", "checkoutservice")) == (
        "frontend calls checkoutservice."
    )
    assert "no call" in refusal("calls", subjects=("checkoutservice", "frontend"))


def test_what_is_fine_was_measured() -> None:
    assert "stayed between" in said("unaffected", "L1")
    assert said("unaffected", subjects=("adservice",)) == (
        "Errors and latency of adservice stayed as usual."
    )
    assert "F3 says" in refusal("unaffected", subjects=("frontend",))
    assert "does not say" in refusal("unaffected", "F1")
    assert "is no service" in refusal("unaffected", subjects=("shippingservice",))
    assert said("affected", subjects=("frontend", "checkoutservice")) == (
        "frontend and checkoutservice are affected."
    )
    assert "not among the affected" in refusal("affected", subjects=("adservice",))


def test_a_line_is_quoted_whole_and_only_as_it_stands() -> None:
    assert said("quotes", "F6", quote="took 4120ms").endswith(
        "logs “slow request: PlaceOrder took 4120ms after 7 tries, code 503”."
    )
    assert "price" in said("quotes", "F2", quote="load prices")
    assert said("quotes", "alert", quote="p99 latency").startswith("The alert says “")
    assert "does not hold" in refusal("quotes", "F6", quote="took 9999ms")
    assert "does not hold" in refusal("quotes", "F1", quote="slow request")
    assert "needs words" in refusal("quotes", "F6", quote="  ")


def test_what_is_missing_and_what_nobody_knows() -> None:
    assert said("missing", quote="M1") == "Connect traces."
    assert said("missing", quote="G1") == "What is missing from loki's logs: “timed out”."
    assert "nothing missing" in refusal("missing", quote="M2")
    assert "nothing in the data is called “database”" in said(
        "no_data_about", quote="database"
    ).replace("Nothing", "nothing")
    assert "the question does not hold" in refusal("no_data_about", quote="frontend")
    asks = replace(GROUND, question="is it checkoutservice?")
    assert "the data may speak of it" in refusal(
        "no_data_about", quote="checkoutservice", ground=asks
    )


def test_parts_are_joined_and_not_said_twice() -> None:
    parts = [
        Assertion(relation="rose", findings=("F1",)),
        Assertion(relation="fell", findings=("F4",), joint="while"),
    ]
    assert ", while checkoutservice's requests fell" in worded(parts, GROUND).text
    parts = [
        Assertion(relation="rose", findings=("F1",)),
        Assertion(relation="began_before", findings=("F1", "F3"), joint="and"),
    ]
    assert worded(parts, GROUND).text.count("18x slower") == 1
    assert worded(parts, GROUND).asserted == tuple(parts)
    with pytest.raises(Refused, match="joined by"):
        worded([parts[0], parts[1].model_copy(update={"joint": "so roll back, and"})], GROUND)
    with pytest.raises(Refused, match="more than 3"):
        worded([parts[0]] * 4, GROUND)
    with pytest.raises(Refused, match="nothing"):
        worded([], GROUND)


def test_every_relation_is_described_for_the_model() -> None:
    assert described().count("\n") == len(RELATIONS) - 1
    assert all(f"`{name}`" in described() for name in RELATIONS)


def test_a_change_of_another_day_is_told_with_its_day() -> None:
    older = [
        one.model_copy(update={"onset": one.onset - timedelta(days=2)})
        if one.id in ("F2", "F7") and one.onset
        else one
        for one in GROUND.diagnosis.findings
    ]
    decided = GROUND.diagnosis.model_copy(update={"findings": tuple(older)})
    ground = replace(GROUND, diagnosis=decided)
    assert "14:59:22 UTC on 16 Jun" in said("changed", "F2", ground=ground)
    assert "(15:02:40 UTC on 16 Jun)" in said("ruled_out", "F7", ground=ground)
