"""Webhooks of several servers of one vendor: the secret that fits says which of them sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from faultline.bot.intake.alert_source import WebhookRequest, WebhookSource
from faultline.bot.intake.signatures import BadSignature
from faultline.bot.intake.sources.alertmanager import ALERT_SOURCE
from faultline.bot.policy.values import Arrival
from faultline.bot.settings import Settings, load_settings
from tests.bot.intake.conftest import alertmanager_alert, alertmanager_group

TWO = """
[[alertmanager]]
name = "prod-eu"
covers = { cluster = "prod-eu" }

[[alertmanager]]
name = "prod-us"
covers = { cluster = "prod-us" }

[services.checkout]
aliases = ["basket"]
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Two Alertmanagers, each with its own token."""
    file = tmp_path / "faultline.toml"
    file.write_text(TWO)
    environ = {
        "FAULTLINE_ALERTMANAGER__PROD_EU__WEBHOOK_TOKENS": "of-eu",
        "FAULTLINE_ALERTMANAGER__PROD_US__WEBHOOK_TOKENS": "old-of-us,of-us",
    }
    return load_settings(file, environ)


def received(settings: Settings, token: str) -> Arrival:
    """The one alert of a notification that comes with this token."""
    source = ALERT_SOURCE
    assert isinstance(source, WebhookSource)

    async def body() -> bytes:
        return json.dumps(alertmanager_group(alertmanager_alert("CheckoutSlow"))).encode()

    request = WebhookRequest({"authorization": f"Bearer {token}"}, body)
    found = asyncio.run(_receive(source, settings, request))
    assert isinstance(found, Sequence)
    (arrival,) = found
    return arrival


async def _receive(source: WebhookSource, settings: Settings, request: WebhookRequest) -> object:
    return await source.receive(source, settings)(request)


def test_an_alert_gets_the_places_of_the_server_that_sent_it(settings: Settings) -> None:
    eu, us = received(settings, "of-eu"), received(settings, "of-us")
    assert eu.alert.labels["cluster"] == "prod-eu"
    assert us.alert.labels["cluster"] == "prod-us"
    assert us.alert.service == "checkout"


def test_equal_alerts_of_two_servers_are_two_alerts(settings: Settings) -> None:
    eu, us = received(settings, "of-eu"), received(settings, "of-us")
    assert eu.alert.fingerprint != us.alert.fingerprint
    assert us.alert.fingerprint == received(settings, "old-of-us").alert.fingerprint


def test_a_token_of_none_of_them_is_refused(settings: Settings) -> None:
    with pytest.raises(BadSignature):
        received(settings, "of-ap")


def test_one_of_them_with_a_token_is_enough_to_take_alerts(tmp_path: Path) -> None:
    file = tmp_path / "faultline.toml"
    file.write_text(TWO)
    environ = {"FAULTLINE_ALERTMANAGER__PROD_US__WEBHOOK_TOKENS": "x"}
    assert ALERT_SOURCE.missing(load_settings(file, environ)) is None
    variable = "FAULTLINE_ALERTMANAGER__PROD_EU__WEBHOOK_TOKENS"
    assert ALERT_SOURCE.missing(load_settings(file, {})) == variable
