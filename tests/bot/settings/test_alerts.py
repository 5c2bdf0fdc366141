"""Rules and quiet hours that cannot work are one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.errors import SettingsError
from faultline.bot.settings import load_settings


def loaded(tmp_path: Path, text: str) -> object:
    file = tmp_path / "faultline.toml"
    file.write_text(text, encoding="utf-8")
    return load_settings(file, {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[[alerts.rules]]\nsource = ['sentri']",
            "alerts.rules.0.source: 'sentri' is none of alertmanager, ",
        ),
        ("[[alerts.rules]]\nsevrity = ['x']", "alerts.rules.0.sevrity: no such setting"),
        (
            "[[alerts.rules]]\ninvestigate = false\n[[alerts.rules]]\ntitle = ['x']",
            "alerts: rule 1 names no condition, so the rules after it never match",
        ),
        (
            "[alerts.channels.C1]\nquiet = '22-7'",
            "alerts.channels.C1.quiet: must be two times of day",
        ),
        (
            "[alerts.channels.C1]\nquiet = '22:00-22:00'",
            "alerts.channels.C1.quiet: begins when it ends",
        ),
        (
            "[alerts.channels.C1]\nquiet = '25:00-07:00'",
            "alerts.channels.C1.quiet: must be two times",
        ),
        (
            "[alerts.channels.C1]\ntime_zone = 'Mars/Base'",
            "alerts.channels.C1.time_zone: 'Mars/Base' is not a time zone",
        ),
        ("[alerts.channels.C1]\ntime_zone = '../../etc/passwd'", "alerts.channels.C1.time_zone: "),
        (
            "[alerts.channels.C1]\nquiet_days = ['someday']",
            "alerts.channels.C1.quiet_days: 'someday' is not a day",
        ),
        (
            "[alerts.channels.C1]\nquiet_days = ['mon','tue','wed','thu','fri','sat','sun']",
            "alerts.channels.C1.quiet_days: names every day",
        ),
        ("[alerts.channels.C1]\nper_hour = 0", "alerts.channels.C1.per_hour: "),
        ("[alerts]\ngroups = 'maybe'", "alerts.groups: "),
        (
            "[alerts]\ngroup_minutes = 40",
            "alerts: group_longest_minutes is shorter than group_minutes",
        ),
    ],
)
def test_a_rule_that_cannot_work_is_named_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as refused:
        loaded(tmp_path, text)
    assert str(refused.value).startswith(said)
    assert "\n" not in str(refused.value)


def test_rules_as_they_are_documented_load(tmp_path: Path) -> None:
    loaded(
        tmp_path,
        """
[alerts]
groups = "shadow"

[[alerts.rules]]
name = "no information"
severity = ["info", "notice"]
investigate = false

[alerts.channels."*"]
per_hour = 20

[alerts.channels.C0123456789]
quiet = "22:00-07:00"
quiet_days = ["Sat", "sunday"]
time_zone = "Europe/Berlin"
""",
    )
