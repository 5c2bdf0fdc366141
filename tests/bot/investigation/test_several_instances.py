"""Two accounts of one vendor in an investigation: only those that may know of an alert are asked,
and evidence says which of them it is from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from faultline.analysis.case.folder import read_case
from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert, EvidenceKind
from faultline.bot.investigation.steps import InvestigationSteps
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.investigation.workflow import Opened
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.contract.instances import ConnectorInstance
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.instances import Covers
from faultline.connectors.vendors.datadog import DatadogSettings
from tests.bot.investigation.test_steps import a_desk
from tests.scenarios.small_case import STARTED


class Organisation:
    """A vendor's account that knows the monitors of one team."""

    name = "datadog"
    kinds: tuple[EvidenceKind, ...] = ("metrics", "monitors")
    limits = Limits()

    def __init__(self, team: str) -> None:
        self.team = team

    async def collect(self, request: Request) -> Collected:
        missing = [Missing("monitors", "monitors", "none")]
        tables = {}
        if self.team == "us":
            row = (STARTED, "checkout", "errors", 1.0)
            columns = ["time", "service", "signal", "value"]
            tables["metrics"] = pl.DataFrame([row], schema=columns, orient="row")
            unknown = "payments"
        else:
            unknown = "checkout"
        # Neither knows the second service.
        for service in dict.fromkeys((unknown, "payments")):
            missing.append(Missing("metrics", service, "no such service", unknown=True))
        item = Item("metrics", f"of {self.team}")
        return Collected(tables, items=(item,), missing=tuple(missing))

    async def check(self) -> Check:
        return Check(self.name, True, self.team)

    async def enrich(self, alert: Alert) -> Alert:
        if alert.labels.get("monitor") != self.team:
            raise ConnectorError(self.name, "monitor", "is not known", status=404)
        return alert.model_copy(update={"labels": {**alert.labels, "team": self.team}})


def instance(name: str) -> ConnectorInstance:
    table = DatadogSettings().as_instance(name, Covers({"cluster": (name,)}))
    return ConnectorInstance(Organisation(name), table)


@pytest.fixture
def context(tmp_path: Path, pool: ProcessPool) -> Iterator[WorkerContext]:
    """A context with two accounts and nothing recorded."""
    context = a_desk(tmp_path, pool)
    yield replace(context, connectors=[instance("eu"), instance("us")], recorded=None)
    context.pool.close()
    context.store.engine.dispose()


def investigated(context: WorkerContext, **labels: str) -> tuple[str, Opened]:
    """An alert with these labels, up to its case."""
    alert = Alert(
        source="datadog", title="slow", started_at=STARTED, service="checkout", labels=labels
    )
    investigation = context.store.accept(alert).investigation_id
    assert investigation is not None

    async def story() -> Opened:
        steps = InvestigationSteps(context)
        opened = await steps.open(investigation)
        for connector in opened["connectors"]:
            await steps.collect(investigation, connector, opened)
        await steps.assemble(investigation, opened)
        return opened

    return investigation, asyncio.run(story())


def test_the_account_that_knows_the_alert_completes_it(context: WorkerContext) -> None:
    _, opened = investigated(context, monitor="us")
    assert opened["alert"]["labels"]["team"] == "us"
    assert opened["connectors"] == ["datadog eu", "datadog us"]


def test_evidence_and_gaps_name_the_account_that_was_asked(context: WorkerContext) -> None:
    investigation, opened = investigated(context, kube_cluster_name="us")
    assert opened["connectors"] == ["datadog us"]
    with context.cases.checkout(investigation) as folder:
        case = read_case(folder)
    assert [(one.source, one.query) for one in case.evidence] == [("datadog us", "of us")]
    assert {one.source for one in case.gaps} == {"datadog us"}
    (scope,) = [one for one in context.store.progress(investigation) if one.stage == "scope"]
    assert "not asked, for other places or services: datadog eu" in scope.text


def test_a_service_that_one_account_knows_is_no_gap_of_the_other(context: WorkerContext) -> None:
    investigation, _ = investigated(context)
    with context.cases.checkout(investigation) as folder:
        gaps = read_case(folder).gaps
    assert sorted((one.source, one.query) for one in gaps if one.kind == "metrics") == [
        ("datadog eu", "payments"),
        ("datadog us", "payments"),
    ]
