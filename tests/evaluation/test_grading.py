"""An answer is held against the truth: place of the subject, change, verdict."""

from __future__ import annotations

from collections.abc import Sequence

from faultline.analysis.vocabulary import Cause, Diagnosis, Finding, Impact, Verdict
from faultline.evaluation.labels import CaseLabel, Grade, grade


def diagnosis(
    subjects: Sequence[str],
    changes: Sequence[str | None] = (),
    verdict: Verdict = Verdict.CAUSE_FOUND,
    found_about: str = "cart",
) -> Diagnosis:
    causes = tuple(
        Cause(
            rank=n,
            subject=subject,
            kind="errors",
            change=changes[n - 1] if n <= len(changes) else None,
            confidence=0.7,
            summary=f"{subject} fails.",
            findings=("F1",),
        )
        for n, subject in enumerate(subjects, start=1)
    )
    finding = Finding(
        id="F1",
        kind="metric_shift",
        subject=found_about,
        strength=0.5,
        sentence=f"{found_about} is slow.",
    )
    return Diagnosis(
        verdict=verdict,
        confidence=0.7,
        causes=causes,
        findings=(finding,),
        impact=Impact(sentence="-"),
    )


def graded(label: CaseLabel, answer: Diagnosis) -> Grade:
    return grade("case-1", "case", label, answer, 0.1)


def test_the_rank_is_the_place_of_the_true_subject() -> None:
    found = graded(CaseLabel(subject="cart"), diagnosis(["web", "cart"]))
    assert (found.rank, found.right) == (2, False)
    assert [found.hit(k) for k in (1, 2, 3)] == [False, True, True]
    assert found.answer_why == "web fails."
    assert found.truth_why == "cart fails."


def test_a_right_first_cause_is_a_right_answer_and_needs_no_excuse() -> None:
    found = graded(CaseLabel(subject="cart"), diagnosis(["cart", "web"], verdict=Verdict.RECOVERED))
    assert (found.rank, found.right, found.truth_why) == (1, True, "")


def test_a_truth_among_no_cause_is_told_by_its_findings() -> None:
    assert graded(CaseLabel(subject="cart"), diagnosis(["web"])).truth_why == "cart is slow."
    assert (
        graded(CaseLabel(subject="pay"), diagnosis(["web"])).truth_why
        == "nothing was found about it"
    )


def test_saying_that_nothing_is_wrong_is_a_wrong_answer_where_something_is() -> None:
    found = graded(
        CaseLabel(subject="cart"), diagnosis(["cart"], verdict=Verdict.NO_ACTIVE_INCIDENT)
    )
    assert (found.rank, found.right) == (1, False)


def test_saying_that_nothing_is_wrong_is_right_where_nothing_is() -> None:
    label = CaseLabel(verdict=Verdict.NO_ACTIVE_INCIDENT)
    quiet = graded(label, diagnosis([], verdict=Verdict.NO_ACTIVE_INCIDENT))
    assert (quiet.right, quiet.verdict_right, quiet.rank) == (True, True, None)
    alarmed = graded(label, diagnosis(["cart"]))
    assert (alarmed.right, alarmed.verdict_right) == (False, False)


def test_the_culprit_change_is_looked_for_in_the_first_three_causes() -> None:
    label = CaseLabel(subject="cart", change="c3", decoys=("c1", "c2"))
    found = graded(label, diagnosis(["a", "b", "cart", "d"], ["c1", "c2", "c3", "c4"]))
    assert (found.change_rank, found.change_hit(1), found.change_hit(3)) == (3, False, True)
    assert (found.decoy_first, found.decoys) == (True, ("c1", "c2"))
    assert (
        graded(
            CaseLabel(change="c4"), diagnosis(["a", "b", "cart", "d"], ["c1", "c2", "c3", "c4"])
        ).change_rank
        is None
    )


def test_no_change_is_decided_by_the_first_cause_alone() -> None:
    label = CaseLabel(subject="cart", change="none")
    assert graded(label, diagnosis(["cart", "web"], [None, "c1"])).change_hit(1)
    blamed = graded(label, diagnosis(["cart", "web"], ["c1", None]))
    assert not blamed.change_hit(3)
    assert not blamed.decoy_first
    assert graded(label, diagnosis([])).change_hit(1)


def test_without_a_subject_or_verdict_in_the_label_the_answer_is_neither_right_nor_wrong() -> None:
    assert graded(CaseLabel(change="c1"), diagnosis(["cart"], ["c1"])).right is None
