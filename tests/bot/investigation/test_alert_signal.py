"""An investigation begins by saying what the alert watches, and ends with it in the case folder."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from faultline.analysis.case.folder import read_case
from faultline.analysis.errors import ConnectorError
from faultline.analysis.kinds.signals import AlertQuery, SignalClass, SignalSource
from faultline.analysis.vocabulary import Alert
from faultline.bot.investigation.steps import InvestigationSteps
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.connectors.vendors.recorded.connector import RecordedConnector
from tests.bot.investigation.test_steps import a_desk
from tests.scenarios.small_case import STARTED

RULE = "histogram_quantile(0.99, sum by (le, service) (rate(reply_seconds_bucket[5m]))) > 0.5"


class RecordedWithRules(RecordedConnector):
    """A recorded case whose server knows one alert rule, or is down."""

    down = False

    async def rule_of(self, alert: Alert) -> AlertQuery | None:
        if self.down:
            raise ConnectorError("prometheus", "rules", "is down")
        known = alert.labels.get("alertname") == "Rule7"
        return AlertQuery(language="promql", text=RULE, holds_for_s=600) if known else None


@pytest.fixture
def context(tmp_path: Path) -> Iterator[WorkerContext]:
    """A context whose one connector knows rules."""
    context = a_desk(tmp_path, ProcessPool(workers=1))
    yield replace(context, connectors=[RecordedWithRules(tmp_path / "case")])
    context.pool.close()
    context.store.engine.dispose()


def investigated(context: WorkerContext, alert: Alert) -> Alert:
    """The alert as the case folder has it."""

    async def story() -> None:
        steps = InvestigationSteps(context)
        opened = await steps.open(investigation)
        await steps.collect(investigation, "recorded", opened)
        await steps.assemble(investigation, opened)

    investigation = context.store.accept(alert).investigation_id
    assert investigation is not None
    asyncio.run(story())
    with context.cases.checkout(investigation) as folder:
        return read_case(folder).alert


def test_an_alert_with_only_a_name_gets_its_rule_and_its_series(context: WorkerContext) -> None:
    labels = {"alertname": "Rule7", "service": "checkout"}
    given = Alert(source="slack", title="Rule7", started_at=STARTED, labels=labels)
    found = investigated(context, given)
    assert found.query is not None
    assert found.watches is not None
    assert (found.watches.signal_class, found.watches.quantile) == (SignalClass.LATENCY, 0.99)
    assert (found.watches.threshold, found.watches.holds_for_s) == (0.5, 600)
    assert (found.service, found.signal) == ("checkout", "p99_latency_ms")
    assert found.signal_source is SignalSource.EXPRESSION


def test_without_a_rule_the_title_names_the_signal(context: WorkerContext) -> None:
    title = "p99 latency above 800 ms"
    given = Alert(source="pagerduty", title=title, started_at=STARTED, service="checkout")
    found = investigated(context, given)
    assert (found.signal, found.signal_source) == ("p99_latency_ms", SignalSource.TITLE)


def test_a_server_that_is_down_costs_the_rule_alone(
    context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RecordedWithRules, "down", True)
    labels = {"alertname": "Rule7", "service": "checkout"}
    given = Alert(source="slack", title="Rule7", started_at=STARTED, labels=labels)
    found = investigated(context, given)
    assert (found.query, found.signal) == (None, None)
    assert found.watches is not None
    assert found.watches.source is SignalSource.UNKNOWN
