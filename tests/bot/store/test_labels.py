"""What people said of answers, and the record that is counted from it, on both databases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from faultline.analysis.vocabulary import Alert
from faultline.bot.store.listing import MAX_CAUSE, Labels, Record
from faultline.bot.store.store import Store
from faultline.bot.store.tables import InvestigationRow

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def answered(
    store: Store, number: int, confidence: float | None, verdict: str = "cause_found"
) -> str:
    """An investigation that ended with that confidence."""
    about = Alert(source="test", title=f"alert {number}", started_at=NOW)
    found = store.accept(about).investigation_id
    assert found is not None
    store.finish(found, "done", verdict=verdict, confidence=confidence, headline="slow")
    return found


def test_the_newest_judgement_holds_and_none_is_lost(store: Store) -> None:
    name, labels = answered(store, 1, 0.8), Labels(store.engine)
    assert labels.get(name) is None
    labels.write(name, right=False, cause=" the pool was too small ", who="ann", now=NOW)
    held = labels.get(name)
    assert held is not None
    assert (held.right, held.cause, held.who, held.at) == (
        False,
        "the pool was too small",
        "ann",
        NOW,
    )
    labels.write(name, right=True, who="bob", now=NOW - timedelta(days=1))
    again = labels.get(name)
    assert again is not None
    assert (again.right, again.who) == (True, "bob")
    assert [label.investigation_id for label in labels.all()] == [name]


def test_the_same_judgement_again_is_the_same(store: Store) -> None:
    name, labels = answered(store, 1, 0.8), Labels(store.engine)
    first = labels.write(name, right=True, who="ann", now=NOW)
    assert labels.write(name, right=True, who="ann", now=NOW + timedelta(hours=1)) == first


def test_an_investigation_that_is_not_there_cannot_be_judged(store: Store) -> None:
    assert Labels(store.engine).write("none", right=True) is None


def test_the_record_counts_the_same_tenth_of_confidence(store: Store) -> None:
    labels = Labels(store.engine)
    for number, (confidence, right) in enumerate(
        [(0.8, True), (0.85, False), (0.899, True), (0.9, True), (0.3, False)]
    ):
        labels.write(answered(store, number, confidence), right=right)
    assert labels.record_at(0.81) == Record(right=2, of=3)
    assert labels.record_at(0.95) == Record(right=1, of=1)
    assert labels.record_at(1.0) == Record(right=1, of=1)
    assert labels.record_at(0.5) == Record(right=0, of=0)
    assert [(r.level, r.right, r.of) for r in labels.record()] == [(3, 0, 1), (8, 2, 3), (9, 1, 1)]


def test_the_record_counts_each_answer_once_and_not_the_one_asked_about(store: Store) -> None:
    labels, name = Labels(store.engine), answered(store, 1, 0.8)
    labels.write(name, right=True)
    labels.write(name, right=False)
    assert labels.record_at(0.8) == Record(right=0, of=1)
    assert labels.record_at(0.8, but=name) == Record(right=0, of=0)


def test_what_is_no_answer_makes_no_record(store: Store) -> None:
    labels = Labels(store.engine)
    labels.write(answered(store, 1, 0.0, "insufficient_evidence"), right=True)
    labels.write(answered(store, 2, None), right=True)
    assert labels.record() == ()


@pytest.mark.parametrize("hostile", ["a\x00b", "\ud800", "x" * 100_000, "'; DROP TABLE labels; --"])
def test_hostile_text_is_kept_as_text(store: Store, hostile: str) -> None:
    name, labels = answered(store, 1, 0.8), Labels(store.engine)
    labels.write(name, right=False, cause=hostile, who=hostile)
    held = labels.get(name)
    assert held is not None
    assert "\x00" not in held.cause
    assert 0 < len(held.cause) <= MAX_CAUSE


def test_judgements_go_with_their_investigation(store: Store) -> None:
    name, labels = answered(store, 1, 0.8), Labels(store.engine)
    labels.write(name, right=True)
    with Session(store.engine) as session, session.begin():
        session.delete(session.get_one(InvestigationRow, name))
    assert labels.all() == []
