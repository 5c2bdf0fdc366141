"""What vendors say beside the evidence, in answers to other questions and in errors, goes through
the same edge before it is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultline.analysis.errors import ConnectorError
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert, EvidenceKind, Scope, Window
from faultline.bot.answer.outcome import Outcome
from faultline.bot.investigation.steps import InvestigationSteps
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.investigation.workflow import Opened
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.bot.store.changes import DeployChecks, StoredCheck
from faultline.bot.store.follow_ups import CaptureBudget, CaptureLog
from faultline.bot.store.store import StoredInvestigation
from faultline.connectors.asking import bounded
from faultline.connectors.shared.contract.base import Check, Collected, Request
from faultline.connectors.shared.settings.connector_settings import Limits
from tests.bot.investigation.test_steps import Notebook, a_desk
from tests.hostile.planting import PLANTED, SECRET
from tests.scenarios.small_case import STARTED

NOW = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)


class Talkative:
    """A vendor's account that knows everything, each time with a secret in it."""

    name = "datadog"
    kinds: tuple[EvidenceKind, ...] = ("metrics",)
    limits = Limits()

    async def collect(self, request: Request) -> Collected:
        return Collected()

    async def check(self) -> Check:
        return Check(self.name, True, f"read as{PLANTED}", (f"events{PLANTED}",))

    async def enrich(self, alert: Alert) -> Alert:
        return alert.model_copy(update={"labels": {**alert.labels, "dsn": PLANTED.strip()}})

    async def rule_of(self, alert: Alert) -> AlertQuery | None:
        return AlertQuery(text=f'errors{{note="{PLANTED.strip()}"}}', language="promql")

    async def callees_of(self, alert: Alert, scope: Scope) -> tuple[str, ...]:
        return (f"payments{PLANTED}",)

    async def services_in(self, window: Window) -> tuple[str, ...]:
        return (f"checkout{PLANTED}",)


class Rude(Notebook):
    """A place whose refusals quote what it got."""

    async def announce(self, investigation: StoredInvestigation) -> None:
        raise ConnectorError(self.name, "post", f"cannot parse{PLANTED}")

    async def answer(self, outcome: Outcome) -> None:
        await self.announce(outcome.investigation)


@pytest.fixture
def context(tmp_path: Path, pool: ProcessPool) -> Iterator[WorkerContext]:
    context = a_desk(tmp_path, pool)
    yield replace(context, connectors=[Talkative()], reply_targets=[Rude()], recorded=None)
    context.store.engine.dispose()


def accepted(context: WorkerContext) -> str:
    alert = Alert(source="datadog", title="slow", started_at=STARTED, service="checkout")
    found = context.store.accept(alert).investigation_id
    assert found is not None
    return found


def test_what_a_vendor_adds_to_an_alert_is_masked_like_the_alert(context: WorkerContext) -> None:
    investigation = accepted(context)

    async def story() -> Opened:
        steps = InvestigationSteps(context)
        opened = await steps.open(investigation)
        await steps.collect(investigation, "datadog", opened)
        await steps.assemble(investigation, opened)
        return opened

    opened = asyncio.run(story())
    assert opened["alert"]["labels"]["dsn"] == "db_password=[SECRET]"
    assert "[SECRET]" in opened["alert"]["query"]["text"]
    assert "payments db_password=[SECRET]" in opened["scope"]["services"]
    assert SECRET not in json.dumps(opened), "which the engine keeps"
    with context.cases.checkout(investigation) as folder:
        assert all(SECRET not in path.read_text() for path in folder.glob("*.json"))


def test_an_error_of_a_target_is_masked_where_it_is_kept(context: WorkerContext) -> None:
    investigation = accepted(context)
    told: list[object] = []

    async def story() -> None:
        steps = InvestigationSteps(context)
        told.append(await steps.announce(investigation, "notebook"))
        await steps.fail(investigation, f"cannot read{PLANTED}")
        told.append(await steps.reply(investigation, "notebook"))

    asyncio.run(story())
    lines = [line.text for line in context.store.progress(investigation)]
    stored = context.store.get(investigation)
    assert stored is not None
    for said in (*map(str, told), *lines[-3:], stored.headline or ""):
        assert SECRET not in said
        assert "[SECRET]" in said


def test_a_check_is_masked_whether_it_succeeds_or_fails() -> None:
    said = asyncio.run(bounded("datadog", Talkative().check))
    assert (said.line, said.unread) == (
        "read as db_password=[SECRET]",
        ("events db_password=[SECRET]",),
    )

    async def fails() -> Check:
        raise ConnectorError("datadog", "check", f"refused{PLANTED}")

    assert asyncio.run(bounded("datadog", fails)).line == (
        "datadog check: refused db_password=[SECRET]"
    )


def test_checks_of_deploys_and_captures_keep_none(context: WorkerContext) -> None:
    checks, captures = DeployChecks(context.store.engine), CaptureLog(context.store.engine)
    asked = StoredCheck("c1", {"service": f"api{PLANTED}"}, "", "ann", NOW, NOW, 0, None)
    checks.add(asked)
    checks.record_look("c1", 1, {"headline": f"worse{PLANTED}"}, None)
    kept = checks.get("c1")
    assert kept is not None
    assert kept.request == {"service": "api db_password=[SECRET]"}
    assert kept.verdict == {"headline": "worse db_password=[SECRET]"}
    claim = captures.claim(
        "llm-1",
        requested_by="ann",
        requested=f"5 s{PLANTED}",
        hosts="h",
        budget=CaptureBudget(timedelta(0), 9),
    )
    captures.finish(claim.id, "failed", result=f"refused{PLANTED}", counts=True)
    [record] = captures.history("llm-1")
    assert (record.requested, record.result) == (
        "5 s db_password=[SECRET]",
        "refused db_password=[SECRET]",
    )
