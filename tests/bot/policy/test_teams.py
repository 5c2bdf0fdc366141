"""Whose an alert is, by the settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.errors import SettingsError
from faultline.bot.policy.services import Teams
from faultline.bot.settings import load_settings

CATALOGUE = """
[services.checkout]
aliases = ["checkout-api"]
[services.search]
[teams.shop]
services = ["Checkout-API"]
channels = ["C1"]
share = 2
[teams.find]
services = ["search", "not-in-the-catalogue"]
groups = ["finders"]
"""


def teams(tmp_path: Path, text: str) -> Teams:
    file = tmp_path / "faultline.toml"
    file.write_text(text)
    return Teams.of(load_settings(file, {}))


def test_an_alert_belongs_to_its_service_s_team_else_to_its_channel_s(tmp_path: Path) -> None:
    found = teams(tmp_path, CATALOGUE)
    assert found.team("checkout", "C9") == "shop"
    assert found.team("search", "C1") == "find"
    assert found.team("Not-In-The-Catalogue", "") == "find"
    assert found.team("other", "C1") == "shop"
    assert found.team(None, "C1") == "shop"
    assert (found.team("other", "C9"), found.team(None, "")) == ("", "")


def test_a_share_is_one_unless_it_is_set(tmp_path: Path) -> None:
    found = teams(tmp_path, CATALOGUE)
    assert [found.share(name) for name in ("shop", "find", "", "gone")] == [2, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[services.a]\naliases = ["b"]\n[teams.x]\nservices = ["a"]\n[teams.y]\nservices = '
            '["B"]',
            "teams: service 'B' belongs to 'x' and to 'y'; it can belong to one",
        ),
        (
            '[teams.x]\nchannels = ["C1"]\n[teams.y]\nchannels = ["C1"]',
            "teams: channel 'C1' belongs to 'x' and to 'y'; it can belong to one",
        ),
        ("[teams.x]\nshare = 0", "teams.x.share: input should be greater than 0"),
        ("[teams.x]\nmembers = []", "teams.x.members: no such setting"),
    ],
)
def test_what_two_teams_claim_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SettingsError) as error:
        teams(tmp_path, text)
    assert str(error.value) == said


def test_a_thing_named_twice_by_one_team_is_its_own(tmp_path: Path) -> None:
    assert teams(tmp_path, '[teams.x]\nservices = ["a", "A", ""]').team("a", "") == "x"
