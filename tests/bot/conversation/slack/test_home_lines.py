"""What the Home tab says of investigations, judgements and health."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from faultline.analysis.case.earlier import RecordLevel
from faultline.bot.conversation.slack.home import PARTS, RECENT, Home, home_view
from faultline.bot.store.listing import AnswerLabel
from faultline.connectors.shared.contract.base import Check
from tests.bot.answer.targets.answers import ALERT_AT, an_alert, an_investigation


def shown(**more: Any) -> str:
    fields: dict[str, Any] = {
        "now": ALERT_AT + timedelta(minutes=3),
        "latest": [],
        "labels": {},
        "waiting": 1,
        "running": 2,
        "checks": None,
        "record": [],
        "mutes": [],
        "public_url": "https://faultline.example.com",
    }
    return json.dumps(home_view(Home(**{**fields, **more})), ensure_ascii=False)


@pytest.mark.parametrize(
    ("fields", "label"),
    [
        ({"status": "failed", "verdict": "cause_found"}, "Failed"),
        ({"status": "done", "verdict": "cause_found"}, "Cause found"),
        ({"status": "done", "verdict": "recovered"}, "Recovered"),
        ({"status": "done", "verdict": "of another version"}, "Investigating"),
        ({"status": "done", "verdict": None}, "Investigating"),
        ({"status": "running", "verdict": "recovered"}, "Investigating"),
        ({"status": "accepted"}, "Waiting"),
    ],
)
def test_the_state_of_an_investigation(fields: dict[str, Any], label: str) -> None:
    assert f'" {label}"' in shown(latest=[an_investigation(**fields)])


@pytest.mark.parametrize(
    ("fields", "about"),
    [
        ({"confidence": 0.86}, "3 min ago · 86 %"),
        ({"confidence": 0.86, "status": "running"}, "3 min ago"),
        ({"related": ("b",)}, "3 min ago · 2 alerts"),
    ],
)
def test_a_line_says_when_how_sure_and_how_many(fields: dict[str, Any], about: str) -> None:
    assert f'  {about}"' in shown(latest=[an_investigation(verdict="cause_found", **fields)])


@pytest.mark.parametrize(("right", "word"), [(True, "right"), (False, "wrong")])
def test_a_judgement_stands_beside_its_answer(word: str, *, right: bool) -> None:
    investigation = an_investigation()
    label = AnswerLabel(investigation.id, right, None, "ann", ALERT_AT)
    assert f"{word}, said ann" in shown(latest=[investigation], labels={investigation.id: label})
    assert "said ann" not in shown(latest=[investigation], labels={"another": label})


def test_an_alert_without_a_title_and_more_than_a_few() -> None:
    bare = an_investigation(an_alert(title=""))
    assert "an alert without a title" in shown(latest=[bare])
    many = [an_investigation(id=f"i-{number:02}") for number in range(RECENT + 1)]
    said = shown(latest=many)
    assert f"i-{RECENT - 1:02}" in said
    assert f"i-{RECENT:02}" not in said


def test_judgements_are_counted_by_level() -> None:
    record = [RecordLevel(level=9, right=8, of=10), RecordLevel(level=5, right=1, of=10)]
    said = shown(record=[*record, RecordLevel(level=2, right=0, of=1)])
    assert "9 of 21" in said
    high, low = (
        said.index("said 90 % and more: 8 of 10 right"),
        said.index("said 50 to 59 %: 1 of 10 right"),
    )
    assert high < low
    assert "said 20" not in said


@pytest.mark.parametrize(
    ("checks", "phrase"),
    [
        ([Check("a", True, "fine")], "Everything works"),
        ([Check("a", True, "fine", unread=("logs", "traces"))], "Some evidence cannot be read"),
        (
            [Check("a", True, "fine", unread=("logs",)), Check("b", False, "down")],
            "1 of 2 parts do not work",
        ),
    ],
)
def test_health_is_the_worst_of_the_parts(checks: list[Check], phrase: str) -> None:
    said = shown(checks=checks)
    assert phrase in said
    assert "Queue: 2 running, 1 waiting" in said
    assert "Works: a" in said


def test_parts_that_fail_are_named_with_what_is_wrong() -> None:
    checks = [Check(f"part-{n:02}", False, f"down {n}") for n in range(PARTS + 1)]
    said = shown(checks=checks)
    assert f"down {PARTS - 1}" in said
    assert f"down {PARTS}" not in said
    assert "Works:" not in said
    partial = shown(checks=[Check("a", True, "fine", unread=("logs", "traces"))])
    assert "logs; traces" in partial
