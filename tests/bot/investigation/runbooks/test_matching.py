"""Which runbooks apply: every key must match, the most specific comes first, includes follow."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.investigation.runbooks.library import read_library
from faultline.bot.investigation.runbooks.matching import (
    MOST_APPLIED,
    applying,
    glob_matches,
    holds,
    in_words,
)
from faultline.bot.investigation.runbooks.runbook import Hours
from tests.bot.investigation.runbooks.runbook_files import AT, alert, scope, write


def applied(
    directory: str, given: Alert, *services: str, job: str | None = None
) -> list[tuple[str, str]]:
    found = applying(read_library([directory]), given, scope(*services, job=job))
    return [(one.runbook.name, one.why) for one in found]


def test_every_key_must_match_and_one_pattern_of_it_suffices(tmp_path: Path) -> None:
    head = (
        "---\nmatch:\n  services: [cart, check*]\n  severity: critical\n  labels:\n    env: "
        "[prod*]\n---\n"
    )
    directory = write(tmp_path, a=head)
    right = alert(severity="Critical", labels={"env": "prod-eu"})
    assert applied(directory, right) == [("a", "services check*, severity critical, env prod*")]
    for wrong in (
        alert(service="pay", severity="critical", labels={"env": "prod-eu"}),
        alert(severity="warning", labels={"env": "prod-eu"}),
        alert(severity="critical", labels={"env": "test"}),
        alert(severity="critical"),
        alert(service=None, severity="critical", labels={"env": "prod-eu"}),
    ):
        assert applied(directory, wrong) == []


def test_titles_rule_names_the_catalogues_names_and_jobs_match(tmp_path: Path) -> None:
    directory = write(
        tmp_path,
        title="---\nmatch: {alerts: 'high error rate*'}\n---\n",
        rule="---\nmatch: {alerts: CheckoutBurn}\n---\n",
        ours="---\nmatch: {services: shop}\n---\n",
        job="---\nmatch: {jobs: 'llama-*'}\n---\n",
        source="---\nmatch: {source: datadog}\n---\n",
    )
    given = alert(labels={"alertname": "CheckoutBurn"})
    assert {name for name, _ in applied(directory, given, "shop", job="llama-7b")} == {
        "title",
        "rule",
        "ours",
        "job",
    }


def test_the_most_specific_comes_first_then_the_name_then_what_they_include(tmp_path: Path) -> None:
    directory = write(
        tmp_path,
        any_="---\nname: B any\nmatch: {services: '*'}\n---\n",
        also="---\nname: A any\nmatch: {services: 'c*'}\ninclude: shared/db.md\n---\n",
        exact="---\nname: Z exact\nmatch: {services: checkout}\n---\n",
        both="---\nname: Z both\nmatch: {services: checkout, alerts: 'High*'}\n---\n",
        shared__db="---\nname: Database\n---\n",
        shared__unused="---\nname: Unused\n---\n",
    )
    names = [name for name, _ in applied(directory, alert())]
    assert names == ["Z both", "Z exact", "A any", "B any", "Database"]
    assert applied(directory, alert())[-1] == ("Database", "included by A any")


def test_a_circle_of_includes_and_a_crowd_of_runbooks_end(tmp_path: Path) -> None:
    match = "match: {services: checkout}\n"
    circle = write(
        tmp_path / "circle",
        a=f"---\n{match}include: [b.md, a.md, gone.md]\n---\n",
        b="---\ninclude: c.md\n---\n",
        c="---\ninclude: a.md\n---\n",
    )
    assert [name for name, _ in applied(circle, alert())] == ["a", "b", "c"]
    crowd = write(tmp_path / "crowd", **{f"r{n}": f"---\n{match}---\n" for n in range(50)})
    assert len(applied(crowd, alert())) == MOST_APPLIED


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("*", "", True),
        ("a*c", "ABBC", True),
        ("a*c", "abcd", False),
        ("a?c", "abc", True),
        ("[P1] *", "[P1] disk full", True),
        ("[P1] *", "P disk full", False),
        ("disk full", "disk\n full", True),
        ("a.c", "abc", False),
        ("", "a", False),
    ],
)
def test_patterns(pattern: str, text: str, matches: bool) -> None:
    assert glob_matches(pattern, text) is matches


def test_a_hostile_title_and_pattern_end() -> None:
    assert not glob_matches("a*" * 99 + "b", "a" * 1_000_000)
    assert not glob_matches("*a" * 99 + "b", "a" * 5000)


@pytest.mark.parametrize(
    ("hours", "at", "inside"),
    [
        ({"hours": "02:00-02:30"}, AT, True),
        ({"hours": "02:00-02:10"}, AT, False),
        ({"hours": "23:30-02:30"}, AT, True),
        ({"hours": "23:30-02:30", "days": ["sun"]}, AT, True),
        ({"hours": "23:30-02:30", "days": ["mon"]}, AT, False),
        ({"hours": "02:00-02:30", "days": ["mon"]}, AT, True),
        ({"hours": "03:00-03:30", "timezone": "Europe/Berlin"}, AT, True),
        ({"hours": "22:00-24:00"}, AT.replace(hour=23, minute=59), True),
        ({"hours": "23:30-02:30"}, datetime(1, 1, 1, tzinfo=UTC), False),
        (
            {"hours": "02:00-02:30", "timezone": "Asia/Tokyo"},
            datetime(9999, 12, 31, 23, 59, tzinfo=UTC),
            False,
        ),
    ],
)
def test_hours(hours: dict[str, object], at: datetime, inside: bool) -> None:
    assert holds(Hours.model_validate(hours), at) is inside


def test_hours_in_words() -> None:
    assert in_words(Hours(hours="2:00 to 02:30")) == "daily 02:00 to 02:30 UTC"
    weekend = Hours(hours="23:30-02:30", days=("sat", "sun"), timezone="Europe/Berlin")
    assert in_words(weekend) == "sat, sun 23:30 to 02:30 Europe/Berlin"
