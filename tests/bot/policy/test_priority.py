"""How urgent alerts are, in the words of each vendor."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.priority import HIGH, LOW, URGENT, USUAL, priority_of

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)


def alert(severity: str | None, **labels: str) -> Alert:
    return Alert(source="alertmanager", title="t", started_at=NOW, severity=severity, labels=labels)


@pytest.mark.parametrize(
    ("severity", "level"),
    [
        ("critical", URGENT),
        ("Critical", URGENT),
        ("page", URGENT),
        ("fatal", URGENT),
        ("P1", URGENT),
        ("p-1", URGENT),
        ("SEV1", URGENT),
        ("SEV-1", URGENT),
        ("Sev 0 (all hands)", URGENT),
        ("S1", URGENT),
        ("P2", HIGH),
        ("sev2 - major", HIGH),
        ("high", HIGH),
        ("error", HIGH),
        ("P3", USUAL),
        ("warning", USUAL),
        ("warning 5 minutes", USUAL),
        (None, USUAL),
        ("", USUAL),
        ("sideways", USUAL),
        ("p12", USUAL),
        ("P4", LOW),
        ("P5", LOW),
        ("low", LOW),
        ("info", LOW),
        ("none", LOW),
        ("ticket", LOW),
    ],
)
def test_each_vendor_s_word_has_its_priority(severity: str | None, level: int) -> None:
    assert priority_of(alert(severity)) == level


def test_a_severity_that_says_nothing_leaves_it_to_the_labels() -> None:
    assert priority_of(alert("Database team", urgency="low")) == LOW
    assert priority_of(alert(None, priority="P1", urgency="low")) == URGENT


def test_an_incident_s_priority_counts_before_its_urgency() -> None:
    assert priority_of(alert("P3", priority="P3", urgency="high")) == USUAL


def test_what_a_person_asked_for_is_urgent() -> None:
    assert priority_of(alert("info"), on_request=True) == URGENT


def test_a_long_or_odd_severity_is_usual() -> None:
    for text in (
        "x" * 1_000_000,
        " " * 500 + "critical",
        "\x00\u202e",
        "p" * 300 + "1",
        "５",
        "p１",
    ):
        assert priority_of(alert(text)) == USUAL
