"""How the doctor prints what it saw."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from faultline.bot.operating.inspection import (
    CheckResult,
    as_json,
    lasting,
    print_findings,
    when,
)

FINE = CheckResult("ok", "store", "works")
ODD = CheckResult("note", "alerts.groups", "are off")
BROKEN = CheckResult("wrong", "slack", "[red]no[/red] channel", "Invite the bot.")


def test_findings_are_lines_in_columns_with_what_to_do_below(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_findings([FINE, ODD, BROKEN, BROKEN])
    assert capsys.readouterr().out.splitlines() == [
        "ok     store          works",
        "note   alerts.groups  are off",
        *(
            "WRONG  slack          [red]no[/red] channel",
            "                      -> Invite the bot.",
        )
        * 2,
        "2 wrong: slack",
    ]


@pytest.mark.parametrize("findings", [[], [FINE, ODD]])
def test_where_nothing_is_wrong_the_last_line_says_so(
    findings: list[CheckResult], capsys: pytest.CaptureFixture[str]
) -> None:
    print_findings(findings)
    assert capsys.readouterr().out.splitlines()[len(findings) :] == ["nothing is wrong"]


def test_programs_get_the_same() -> None:
    assert json.loads(as_json([BROKEN])) == {
        "findings": [
            {
                "state": "wrong",
                "about": "slack",
                "what": "[red]no[/red] channel",
                "todo": "Invite the bot.",
            }
        ]
    }


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0.0 s"),
        (9.94, "9.9 s"),
        (10, "10 s"),
        (59.4, "59 s"),
        (60, "1 min 0 s"),
        (3599, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (7260, "2 h 1 min"),
        (172_740, "47 h 59 min"),
        (172_800, "2 d 0 h"),
        (180_000, "2 d 2 h"),
    ],
)
def test_a_length_of_time_has_two_units(seconds: float, shown: str) -> None:
    assert lasting(timedelta(seconds=seconds)) == shown


def test_a_moment_is_shown_to_the_second() -> None:
    assert when(datetime(2026, 3, 2, 11, 50, 4, 999, tzinfo=UTC)) == "2026-03-02 11:50:04 UTC"
