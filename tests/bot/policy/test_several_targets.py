"""Which of several workspaces and accounts an alert is posted to, and where."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.operating.installation_checks import settings_checks
from faultline.bot.policy.reply_targets import configured_targets, reply_channel, targets_of
from faultline.bot.policy.values import ReplyTo
from faultline.bot.settings import Settings
from faultline.bot.settings.loading import settings_of

AT = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)
WORKSPACES = {
    "slack": [
        {"name": "eu", "channel": "C0MAIN", "covers": {"cluster": ["prod-eu"]}},
        {"name": "us", "channel": "C0MAIN", "covers": {"services": ["cart", "pay*"]}},
    ],
    "pagerduty": [{"name": "eu"}, {"name": "us"}],
    "services": {"cart": {"slack_channel": "eu:C0CART"}, "search": {}},
}
TOKENS = {
    "FAULTLINE_SLACK__EU__BOT_TOKEN": "xoxb-eu",
    "FAULTLINE_SLACK__US__BOT_TOKEN": "xoxb-us",
    "FAULTLINE_PAGERDUTY__EU__API_TOKEN": "key-eu",
    "FAULTLINE_PAGERDUTY__US__API_TOKEN": "key-us",
}


@pytest.fixture
def settings() -> Settings:
    """Two of each."""
    return settings_of(dict(WORKSPACES), TOKENS)


def told(
    settings: Settings, service: str | None, reply_to: ReplyTo, **labels: str
) -> dict[str, str]:
    """Where each target answers such an alert."""
    alert = Alert(source="datadog", title="slow", started_at=AT, service=service, labels=labels)
    found: dict[str, str] = {}
    for one in configured_targets(settings):
        address = one.address_for(alert, service, reply_to, settings)
        if address:
            found[one.target_name] = address
    slack = frozenset(name for name in found if name.startswith("slack"))
    assert targets_of(alert, service, reply_to, settings) == slack
    channels = [found[name] for name in ("slack eu", "slack us") if name in found]
    assert reply_channel(alert, service, reply_to, settings) == next(iter(channels), "")
    return found


def test_an_alert_is_told_where_it_may_be_known(settings: Settings) -> None:
    elsewhere = ReplyTo()
    assert told(settings, "cart", elsewhere) == {"slack eu": "eu:C0CART", "slack us": "us:C0MAIN"}
    assert told(settings, "cart", elsewhere, cluster="prod-us") == {"slack us": "us:C0MAIN"}
    assert told(settings, "search", elsewhere, cluster="prod-eu") == {"slack eu": "eu:C0MAIN"}
    assert told(settings, "search", elsewhere, cluster="prod-us") == {}
    assert told(settings, None, elsewhere) == {"slack eu": "eu:C0MAIN", "slack us": "us:C0MAIN"}


def test_what_came_from_a_workspace_or_an_account_is_answered_there_alone(
    settings: Settings,
) -> None:
    from_us = ReplyTo("us:C0OTHER", "1763690000.000100", "eu:Q1")
    assert told(settings, "search", from_us) == {"slack us": "us:C0OTHER", "pagerduty eu": "eu:Q1"}
    earlier = ReplyTo("C0OTHER", "1763690000.000100", "Q1")
    assert told(settings, "cart", earlier) == {}, "of a single table that is no more"


def test_each_is_looked_over_by_itself(settings: Settings) -> None:
    said = " ".join(f"{one.what} {one.todo}" for one in settings_checks(settings))
    assert "FAULTLINE_SLACK__EU__SIGNING_SECRETS" in said
    assert "FAULTLINE_SLACK__US__SIGNING_SECRETS" in said
    assert "pagerduty.eu.from_email" in said
