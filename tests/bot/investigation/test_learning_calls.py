"""What one investigation learns of who calls whom, the next one knows."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from faultline.analysis.case.calls import CALLS_FILE
from faultline.analysis.case.folder import json_bytes, read_case
from faultline.analysis.errors import ConnectorError
from faultline.analysis.requests.topology import case_calls
from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.bot.investigation.analyzing import analyze_with_leads
from faultline.bot.investigation.collecting import assemble, collect_part
from faultline.bot.investigation.learning_calls import (
    LEARNED,
    MOST_CALLEES,
    EarlierCalls,
    callees_now,
    learn_calls,
    with_callees,
)
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.memory import LearnedCall, LearnedCalls
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.connectors.shared.contract.base import Check, Collected, Item, Request
from faultline.connectors.shared.settings.connector_settings import Limits
from tests.analysis.cases import write_case

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
DAY = timedelta(days=1)
SETTINGS = Settings()


class OneCall:
    """A source that tells of one call, or of none."""

    name = "tracing"
    kinds = ("topology",)
    limits = Limits()

    def __init__(self, callee: str | None) -> None:
        self._callee = callee

    async def collect(self, request: Request) -> Collected:
        if self._callee is None:
            return Collected()
        seen = request.scope.incident.end
        row = {"caller": ["web"], "callee": [self._callee], "source": ["jaeger"]}
        table = pl.DataFrame({**row, "last_seen": [seen]})
        return Collected({"topology": table}, (Item("topology", "dependencies", rows=1),))

    async def check(self) -> Check:
        return Check(self.name, True, "")


class Bot:
    """A store, case folders, and one alert after the other."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store, self.cases = store, CaseStore(folder)
        self.folder = folder

    def investigate(
        self, days_ago: float, callee: str | None, settings: Settings = SETTINGS, **labels: str
    ) -> StoredInvestigation:
        """One investigation, in which one source tells of a call."""
        when = NOW - timedelta(days=days_ago)
        alert = Alert(source="test", title="slow", started_at=when, service="web", labels=labels)
        name = self.store.accept(alert, now=when).investigation_id or ""
        self.store.accept(alert.model_copy(update={"status": "resolved"}), now=when)
        found = self.store.get(name)
        assert found is not None
        scope = Scope(incident=Window(start=when - timedelta(minutes=30), end=when))
        source, parts = OneCall(callee), ["tracing"]
        asyncio.run(collect_part(source, alert, scope, self.cases, name))
        earlier = EarlierCalls(self.store.engine, found, alert, settings)
        if earlier.store_part(self.cases, name):
            parts.append(LEARNED)
        assemble(alert, scope, parts, self.cases, name)
        calls = analyze_with_leads(self.folder / name).calls
        self.cases.put(name, CALLS_FILE, json_bytes(calls))
        learn_calls(self.store.engine, self.cases, found, settings)
        return found

    def known_in(self, investigation: StoredInvestigation) -> dict[str, str | None]:
        """Callees in the folder of an investigation, and where each was learned."""
        case = read_case(self.folder / investigation.id)
        return {call.callee: call.learned_in for call in case_calls(case)}


@pytest.fixture
def bot(store: Store, tmp_path: Path) -> Bot:
    return Bot(store, tmp_path / "cases")


def test_the_next_investigation_knows_what_the_last_one_learned(bot: Bot) -> None:
    first = bot.investigate(3, "api")
    second = bot.investigate(2, "db")
    assert bot.known_in(second) == {"api": first.id, "db": None}
    third = bot.investigate(1, None)
    assert bot.known_in(third) == {"api": first.id, "db": second.id}
    # What was only remembered is not learned again: it would never expire.
    seen = LearnedCalls(bot.store.engine).everywhere()
    assert {one.callee: one.investigation_id for one in seen} == {"api": first.id, "db": second.id}
    [item] = read_case(bot.folder / third.id).evidence
    assert (item.kind, item.source, item.rows) == ("topology", "earlier investigations", 2)


@pytest.mark.parametrize(
    ("labels", "days_ago", "days"),
    [({"env": "staging"}, 3, 30), ({"env": "prod"}, 31, 30), ({"env": "prod"}, 3, 0)],
    ids=["elsewhere", "too long ago", "turned off"],
)
def test_what_does_not_count_is_not_in_the_folder(
    bot: Bot, labels: dict[str, str], days_ago: float, days: float
) -> None:
    bot.investigate(days_ago, "api", **labels)
    settings = Settings.model_validate({"investigation": {"learned_calls_days": days}})
    assert bot.known_in(bot.investigate(0, None, settings, env="prod")) == {}


def test_services_that_it_was_seen_to_call_are_asked_about_unless_the_settings_tell(
    bot: Bot,
) -> None:
    alert = Alert(source="test", title="slow", started_at=NOW, service="web")
    now = bot.investigate(0, None)
    calls = [("web", f"callee-{n}", n) for n in range(9)] + [("front", "web", 0.5)]
    LearnedCalls(bot.store.engine).learn(
        LearnedCall(a, b, "mesh", NOW - (1 + age) * DAY, "I1") for a, b, age in calls
    )
    callees = EarlierCalls(bot.store.engine, now, alert, SETTINGS).callees("web")
    assert callees == [f"callee-{n}" for n in range(9)]
    scope = Scope(incident=Window(start=NOW, end=NOW), services=("web", "callee-3"))
    assert with_callees(scope, callees).services == (
        *("web", "callee-3"),
        *[one for one in callees if one != "callee-3"][:MOST_CALLEES],
    )
    configured = scope.model_copy(update={"calls": (("web", "db"),)})
    assert with_callees(configured, callees) == configured


def test_memory_that_fails_stops_nothing(bot: Bot, tmp_path: Path) -> None:
    first = bot.investigate(1, "api")
    bot.cases.put(first.id, CALLS_FILE, b"{")
    learn_calls(bot.store.engine, bot.cases, first, SETTINGS)
    with bot.store.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE learned_calls")
    assert bot.known_in(bot.investigate(0, "db")) == {"db": None}


def test_the_settings_are_asked_anew_each_time(bot: Bot, tmp_path: Path) -> None:
    write_case(tmp_path / "case", scope={"calls": [["web", "db"]]})
    calls = analyze_with_leads(tmp_path / "case").calls
    investigation = bot.investigate(0, None)
    bot.cases.put(investigation.id, CALLS_FILE, json_bytes(calls))
    learn_calls(bot.store.engine, bot.cases, investigation, SETTINGS)
    assert LearnedCalls(bot.store.engine).everywhere() == []


class QuickConnector(OneCall):
    """Tells callees at once, fails, or never answers."""

    async def callees_of(self, alert: Alert, scope: Scope) -> tuple[str, ...]:
        if self._callee is None:
            raise ConnectorError("tracing", "callees", "no answer")
        if self._callee == "never":
            await asyncio.Event().wait()
        return (self._callee, "cache")


def test_whom_a_service_calls_now_is_asked_of_those_that_know_at_once() -> None:
    alert = Alert(source="test", title="slow", started_at=NOW, service="web")
    scope = Scope(incident=Window(start=NOW, end=NOW), services=("web",))

    def told(*callees: str | None, service: str | None = "web") -> list[str]:
        connectors = [OneCall("slow"), *(QuickConnector(callee) for callee in callees)]
        about = alert.model_copy(update={"service": service})
        return asyncio.run(callees_now(connectors, about, scope, deadline_s=0.2))

    assert told("api", None, "db") == ["api", "cache", "db"]
    assert told("never", "api") == []
    assert told("api", service=None) == []
