"""A channel of one of several workspaces is written with the workspace's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.errors import SettingsError
from faultline.bot.intake.slack_socket import socket_mode_tokens
from faultline.bot.settings import Settings, load_settings

TWO = """
[[slack]]
name = "eu"
channel = "C0EU"

[[slack]]
name = "us"
"""


def load(folder: Path, text: str, **environ: str) -> Settings:
    """The settings of a file with this text."""
    file = folder / "faultline.toml"
    file.write_text(text)
    return load_settings(file, environ)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            "[services.cart]\nslack_channel = 'C0CART'\n",
            "services.cart.slack_channel: 'C0CART' names no workspace: "
            "write eu:C0CART or us:C0CART",
        ),
        (
            "[services.cart]\nslack_channel = 'uk:C0CART'\n",
            "services.cart.slack_channel: 'uk:C0CART' names no workspace: "
            "write eu:C0CART or us:C0CART",
        ),
        (
            "[[alerts.rules]]\nchannel = ['C0CART']\n",
            "alerts.rules.channel: 'C0CART' names no workspace: write eu:C0CART or us:C0CART",
        ),
        (
            "[alerts.channels.C0CART]\nper_hour = 2\n",
            "alerts.channels.C0CART: 'C0CART' names no workspace: write eu:C0CART or us:C0CART",
        ),
        (
            "[teams.shop]\nchannels = ['C0CART']\n",
            "teams.shop.channels: 'C0CART' names no workspace: write eu:C0CART or us:C0CART",
        ),
        (
            "alert_channels = ['us:C0CART']\n",
            "slack.us.alert_channels: 'us:C0CART': here the id alone, it is a channel of us",
        ),
    ],
)
def test_a_channel_that_names_no_workspace_is_one_line(
    tmp_path: Path, more: str, said: str
) -> None:
    with pytest.raises(SettingsError) as refused:
        load(tmp_path, TWO + more)
    assert str(refused.value) == said


def test_channels_of_a_workspace_of_other_targets_and_of_a_single_table_are_fine(
    tmp_path: Path,
) -> None:
    named = "[services.cart]\nslack_channel = 'us:C0CART'\n[alerts.channels.'#ops']\nper_hour = 2\n"
    assert load(tmp_path, TWO + named).services["cart"].slack_channel == "us:C0CART"
    single = "[slack]\nchannel = 'C0EU'\n[services.cart]\nslack_channel = 'C0CART'\n"
    assert load(tmp_path, single).services["cart"].slack_channel == "C0CART"


def test_each_workspace_has_settings_of_its_own_and_no_other_s_token(tmp_path: Path) -> None:
    settings = load(tmp_path, TWO, FAULTLINE_SLACK__EU__APP_TOKEN="xapp-eu")
    assert settings.slack.app_token is None
    eu, us = settings.per_instance("slack")
    assert (eu.slack.instance.name, us.slack.instance.name) == ("eu", "us")
    assert (eu.slack.channel, us.slack.channel) == ("C0EU", None)
    assert us.slack.app_token is None
    with pytest.raises(SettingsError) as refused:
        socket_mode_tokens(eu)
    assert refused.value.key == "slack.eu.bot_token"
    assert "FAULTLINE_SLACK__EU__BOT_TOKEN" in refused.value.problem
