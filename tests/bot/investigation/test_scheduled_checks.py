"""What a worker looks at by the clock: deploys that programs asked about, and watched services."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sqlalchemy import update

from faultline.analysis.case.tables import SCHEMAS
from faultline.analysis.deploys.verdict import DeployVerdict
from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import EvidenceKind
from faultline.bot.investigation.scheduled_checks import DeployCheckLoop, WatchLoop
from faultline.bot.policy.values import DeployToCheck
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import WatchSettings
from faultline.bot.store.changes import DeployChecks, StoredCheck, Watches
from faultline.bot.store.store import Store
from faultline.bot.store.tables import WatchRow
from faultline.connectors.shared.contract.base import Check, Collected, Item, Request
from faultline.connectors.shared.settings.connector_settings import Limits
from tests.databases import store_engine

STEP_S = 60


@dataclass
class Monitoring:
    """A source whose service fails more or less of its requests, from a moment on."""

    name: str = "monitoring"
    kinds: tuple[EvidenceKind, ...] = ("metrics",)
    limits: Limits = field(default_factory=Limits)
    failing: float = 0.004
    since: datetime = datetime(2000, 1, 1, tzinfo=UTC)
    is_away: bool = False
    asked: list[tuple[str, ...]] = field(default_factory=list)

    async def collect(self, request: Request) -> Collected:
        self.asked.append(request.scope.services)
        if self.is_away:
            raise ConnectorError("monitoring", "query", "does not answer")
        rows = list(self._rows(request))
        table = pl.DataFrame(rows, schema=SCHEMAS["metrics"].columns, orient="row")
        return Collected({"metrics": table}, (Item("metrics", "errors").holding(rows),))

    async def check(self) -> Check:
        return Check(self.name, ok=True, line="")

    def _rows(self, request: Request) -> Iterator[tuple[object, ...]]:
        rng, scope = np.random.default_rng(3), request.scope
        for service in scope.services:
            at = min(window.start for window in scope.baseline)
            while at <= scope.incident.end:
                share = self.failing if at >= self.since else 0.004
                failed = rng.binomial(2_400, share) / 2_400
                yield at, service, "request_rate", 40.0, "1/s", None
                yield at, service, "error_ratio", failed, "ratio", None
                yield at, service, "latency_p99", 80 * rng.lognormal(0, 0.08), "ms", None
                at += timedelta(seconds=STEP_S)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(store_engine(f"sqlite:///{tmp_path}/faultline.sqlite"))
    yield made
    made.engine.dispose()


def settings(**more: object) -> Settings:
    own = {"every_minutes": 10, **more}
    return Settings(watch={"checkout": WatchSettings.model_validate(own)})


def make_due(store: Store) -> None:
    """Ten minutes pass."""
    with store.engine.begin() as connection:
        connection.execute(update(WatchRow).values(due_at=datetime.now(UTC)))


def look(store: Store, source: Monitoring, own: Settings | None = None) -> None:
    make_due(store)
    assert WatchLoop(own or settings(), store, [source]).turn()


def test_what_lasts_becomes_one_alert_and_its_end_resolves_it(store: Store) -> None:
    source = Monitoring()
    look(store, source)
    assert store.count() == 0
    source.failing, source.since = 0.1, datetime.now(UTC) - timedelta(minutes=15)
    look(store, source)
    assert store.count() == 0, "once may be chance"
    for _ in range(3):
        look(store, source)
    assert store.count() == 1, "quiet while it is open"
    (found,) = store.undispatched()
    stored = store.get(found)
    assert stored is not None
    alert = stored.alert
    assert (alert.source, alert.service, alert.signal) == ("watch", "checkout", "error_ratio")
    assert "checkout" in alert.title
    source.failing = 0.004
    look(store, source)
    (state,) = Watches(store.engine).states()
    assert (state.alerted, state.worse_in_a_row) == (False, 0)


def test_a_look_that_two_workers_take_raises_one_alert(store: Store) -> None:
    source = Monitoring(failing=0.1, since=datetime.now(UTC) - timedelta(minutes=15))
    own = settings(times=1)
    one, other = (WatchLoop(own, store, [source]) for _ in range(2))
    assert one.turn()
    assert not other.turn(), "it is not due any more"
    with store.engine.begin() as connection:
        # As if the first worker had died after the alert and before it wrote its state.
        earlier = update(WatchRow).values(due_at=_first_due(store, source), alerted=False)
        connection.execute(earlier)
    assert other.turn()
    assert store.count() == 1


def _first_due(store: Store, _source: Monitoring) -> datetime:
    (found,) = store.undispatched()
    stored = store.get(found)
    assert stored is not None
    return datetime.fromisoformat(stored.alert.id.removeprefix("checkout:"))


def test_a_source_that_is_away_neither_alerts_nor_resolves(store: Store) -> None:
    source = Monitoring(failing=0.1, since=datetime.now(UTC) - timedelta(minutes=15))
    look(store, source, settings(times=1))
    source.is_away = True
    look(store, source, settings(times=1))
    (state,) = Watches(store.engine).states()
    assert state.alerted
    assert store.count() == 1


def test_a_look_asks_about_one_service_and_only_when_it_is_due(store: Store) -> None:
    source = Monitoring()
    loop = WatchLoop(settings(service="cart"), store, [source])
    assert loop.turn()
    assert source.asked == [("cart",)]
    assert not loop.turn()


def asked(store: Store, ago: timedelta) -> str:
    now = datetime.now(UTC)
    deploy = DeployToCheck(service="checkout", deployed_at=now - ago)
    check = StoredCheck("c1", deploy.model_dump(mode="json"), "", "ann", now, now, 0, None)
    DeployChecks(store.engine).add(check)
    return check.id


def verdict_of(store: Store, check_id: str) -> tuple[DeployVerdict, datetime | None]:
    found = DeployChecks(store.engine).get(check_id)
    assert found is not None
    assert found.verdict is not None
    return DeployVerdict.model_validate(found.verdict), found.due_at


def test_a_deploy_is_looked_at_until_its_time_is_over(store: Store) -> None:
    check_id = asked(store, timedelta(minutes=10))
    loop = DeployCheckLoop(store, [Monitoring()])
    assert loop.turn()
    verdict, due_at = verdict_of(store, check_id)
    assert (verdict.decision, verdict.final, verdict.look) == ("hold", False, 2)
    assert due_at is not None
    assert not loop.turn(), "the next look is not due"


def test_a_bad_deploy_is_decided_at_once(store: Store) -> None:
    check_id = asked(store, timedelta(minutes=10))
    since = datetime.now(UTC) - timedelta(minutes=10)
    assert DeployCheckLoop(store, [Monitoring(failing=0.1, since=since)]).turn()
    verdict, due_at = verdict_of(store, check_id)
    assert (verdict.decision, due_at) == ("roll_back", None)


def test_a_deploy_of_an_hour_ago_takes_one_look(store: Store) -> None:
    check_id = asked(store, timedelta(hours=1))
    assert DeployCheckLoop(store, [Monitoring()]).turn()
    verdict, due_at = verdict_of(store, check_id)
    assert (verdict.decision, due_at) == ("go", None)
