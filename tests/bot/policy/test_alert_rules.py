"""Rules: the first that matches decides."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.admission import blocking_rule_of, matches
from faultline.bot.policy.services import ServiceTopology
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertRule
from faultline.connectors.shared.settings.shared_settings import ServiceSettings

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
TOPOLOGY = ServiceTopology.of(
    Settings(services={"checkout": ServiceSettings(aliases=("checkout-api",))})
)
ALERT = Alert(
    source="datadog",
    title="[P2] Checkout latency is high",
    started_at=NOW,
    service="Checkout-API",
    severity="SEV-2",
    labels={"team": "shop", "env": "prod"},
)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ({}, True),
        ({"source": ("datadog", "sentry")}, True),
        ({"source": ("sentry",)}, False),
        ({"service": ("checkout",)}, True),
        ({"service": ("check*",)}, True),
        ({"service": ("payments",)}, False),
        ({"severity": ("sev2",)}, True),
        ({"severity": ("critical",)}, False),
        ({"channel": ("C1",)}, True),
        ({"channel": ("C2",)}, False),
        ({"title": ("*latency*",)}, True),
        ({"title": ("[P2] *",)}, True),
        ({"title": ("[P?] *",)}, True),
        ({"title": ("latency",)}, False),
        ({"labels": {"team": "shop"}}, True),
        ({"labels": {"team": "sh*", "env": "prod"}}, True),
        ({"labels": {"team": "shop", "env": "staging"}}, False),
        ({"labels": {"absent": "*"}}, False),
        ({"source": ("datadog",), "severity": ("sev1",)}, False),
    ],
)
def test_a_rule_matches_what_meets_all_its_conditions(
    condition: dict[str, Any], expected: bool
) -> None:
    assert matches(AlertRule(**condition), ALERT, "C1", TOPOLOGY) is expected


def test_the_first_rule_that_matches_decides() -> None:
    keep = AlertRule(service=("checkout",))
    nothing_else = AlertRule(name="only checkout", investigate=False)
    assert blocking_rule_of(ALERT, "C1", (keep, nothing_else), TOPOLOGY) is None
    assert blocking_rule_of(ALERT, "C1", (nothing_else,), TOPOLOGY) == "rule 1 (only checkout)"
    other = ALERT.model_copy(update={"service": None})
    assert blocking_rule_of(other, "C1", (keep, nothing_else), TOPOLOGY) == "rule 2 (only checkout)"
    assert blocking_rule_of(other, "C1", (keep,), TOPOLOGY) is None


def test_a_hostile_title_against_many_stars_is_compared_at_once() -> None:
    rule = AlertRule(title=("*" + "a*" * 40 + "b",))
    assert not matches(rule, ALERT.model_copy(update={"title": "a" * 100_000}), "", TOPOLOGY)
