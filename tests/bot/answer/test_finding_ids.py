"""A diagnosis made again keeps the ids that a conversation cites."""

from __future__ import annotations

from typing import Any

import pytest

from faultline.analysis.kinds.finding_details import EarlierDetails
from faultline.analysis.vocabulary import Assertion, Cause, Claim, Diagnosis, Finding
from faultline.bot.answer.finding_ids import claims_renamed, with_stable_ids
from tests.bot.answer.targets.answers import a_diagnosis


def finding(name: str, subject: str = "web", sentence: str = "It rose.", **more: Any) -> Finding:
    fields = {"kind": "metric_shift", "strength": 0.5, **more}
    return Finding(id=name, subject=subject, sentence=sentence, **fields)


def diagnosis_of(*findings: Finding) -> Diagnosis:
    impact = a_diagnosis().impact.model_copy(update={"findings": ()})
    return a_diagnosis(findings=findings, causes=(), impact=impact)


@pytest.mark.parametrize(
    ("before", "after", "ids"),
    [
        # The same sentence wins over the order.
        (
            [finding("F1", sentence="a"), finding("F2", sentence="b")],
            [finding("F1", sentence="b"), finding("F2", sentence="a")],
            ["F2", "F1"],
        ),
        # The one of that signal, with other figures.
        (
            [finding("F1", signal="cpu", sentence="a")],
            [finding("F7", signal="cpu", sentence="b")],
            ["F1"],
        ),
        # The one of that kind and subject, whatever its signal.
        ([finding("F1", signal="cpu")], [finding("F7", signal="rps")], ["F1"]),
        # Which of two it is nobody knows.
        (
            [finding("F1", sentence="a"), finding("F2", sentence="b")],
            [finding("F1", sentence="c"), finding("F2", sentence="d")],
            ["F3", "F4"],
        ),
        # What matched by its sentence matches no second one.
        (
            [finding("F1", sentence="a", signal="cpu")],
            [
                finding("F1", sentence="b", signal="cpu"),
                finding("F2", sentence="a", signal="cpu"),
            ],
            ["F2", "F1"],
        ),
        # Ids of other kinds stay.
        ([finding("F1")], [finding("L3", subject="db"), finding("F1", subject="db")], ["L3", "F2"]),
    ],
)
def test_a_finding_keeps_its_id(
    before: list[Finding], after: list[Finding], ids: list[str]
) -> None:
    renamed, names = with_stable_ids(diagnosis_of(*before), diagnosis_of(*after), ())
    assert [item.id for item in renamed.findings] == ids
    assert names == dict(zip(ids, [item.id for item in after], strict=True))


def test_new_ids_follow_every_id_that_was_given_out() -> None:
    before, after = diagnosis_of(finding("F1")), diagnosis_of(finding("F1", subject="db"))
    renamed, _ = with_stable_ids(before, after, ["F9", "L40", "F²", "F"])
    assert [item.id for item in renamed.findings] == ["F10"]


def test_all_that_cites_a_finding_follows_its_id() -> None:
    before = diagnosis_of(finding("F1", subject="db"))
    memory = finding("F8", subject="old", details=EarlierDetails(shows_in=("F5", "F6")))
    cause = (
        a_diagnosis()
        .causes[0]
        .model_copy(update={"findings": ("F5", "F9"), "contradicting": ("F6",)})
    )
    after = diagnosis_of(finding("F5", subject="db"), finding("F6"), memory)
    impact = after.impact.model_copy(update={"findings": ("F6", "F5")})
    after = after.model_copy(update={"causes": (cause,), "impact": impact})
    renamed, _ = with_stable_ids(before, after, ())
    assert [item.id for item in renamed.findings] == ["F1", "F2", "F3"]
    (moved,) = renamed.causes
    assert isinstance(moved, Cause)
    assert (moved.findings, moved.contradicting) == (("F1", "F9"), ("F2",))
    assert renamed.impact.findings == ("F2", "F1")
    details = EarlierDetails.of(renamed.findings[2])
    assert details is not None
    assert details.shows_in == ("F1", "F2")


def test_claims_and_what_they_assert_are_renamed() -> None:
    asserted = Assertion(relation="measured", findings=("F1", "F2"))
    claim = Claim(text="It rose.", findings=("F2", "F1"), asserted=(asserted,))
    (renamed,) = claims_renamed([claim], {"F1": "F7"})
    assert renamed.findings == ("F2", "F7")
    assert renamed.asserted[0].findings == ("F7", "F2")
    assert renamed.text == "It rose."
