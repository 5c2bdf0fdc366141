"""Which services a source lists, and what an investigation makes of it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import ModuleType

import pytest

from faultline.analysis.vocabulary import Alert, Window
from faultline.bot.investigation.scoping import with_named_service
from faultline.bot.settings import Settings
from faultline.connectors.registry import build_connectors
from faultline.connectors.shared.contract.abilities import KnowsServices
from tests.connectors.conftest import ALERT_AT, RunningPrometheus, prometheus, server
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import jaeger, loki, tempo

__all__ = ["prometheus", "server"]

HOUR = Window(start=ALERT_AT - timedelta(hours=1), end=ALERT_AT)
UNNAMED = Alert(source="terminal", title="checkout is slow", started_at=ALERT_AT)


def listed(values: dict[str, object]) -> tuple[str, ...]:
    (connector,) = build_connectors(Settings.model_validate(values))
    assert isinstance(connector, KnowsServices)
    return asyncio.run(connector.services_in(HOUR))


def named(
    question: str | None, alert: Alert, values: dict[str, object], deadline_s: float = 5.0
) -> str | None:
    connectors = build_connectors(Settings.model_validate(values))
    found = with_named_service(alert, question, connectors, deadline_s=deadline_s)
    return asyncio.run(found).service


def test_prometheus_lists_the_values_of_its_labels(prometheus: RunningPrometheus) -> None:
    found = listed({"prometheus": {"url": prometheus.url}})
    assert {"checkout", 'ca"rt'} <= set(found)


@pytest.mark.parametrize("source", [loki, tempo, jaeger])
def test_the_others_list_what_they_know(server: LocalServer, source: ModuleType) -> None:
    source.serve(server)
    assert "checkout" in listed(source.settings(server.url))


def test_a_question_names_a_service_of_the_sources(server: LocalServer) -> None:
    values = loki.settings(server.url)
    loki.serve(server)
    assert named("checkout is slow", UNNAMED, values) == "checkout"
    assert named("why does it hurt?", UNNAMED, values) is None
    assert named(None, UNNAMED, values) is None
    vendors = UNNAMED.model_copy(update={"service": "payments"})
    assert named("is checkout slow, too?", vendors, values) == "payments"
    guessed = UNNAMED.model_copy(update={"service": "checkout-service"})
    assert named("checkout-service is slow", guessed, values) == "checkout"


@pytest.mark.parametrize("reply", [Reply({}, status=503), Reply({"data": None})])
def test_a_source_that_lists_nothing_leaves_the_alert_as_it_is(
    server: LocalServer, reply: Reply
) -> None:
    server.on("/loki/api/v1/label/service_name/values", reply)
    assert named("checkout is slow", UNNAMED, loki.settings(server.url)) is None
