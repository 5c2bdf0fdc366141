"""An investigation goes where the evidence leads, in rounds."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from faultline.analysis.case.folder import Case, read_case, read_diagnosis
from faultline.analysis.case.rounds import FollowedKind, Lead, Round, Rounds
from faultline.analysis.kinds.evidence_kinds import EvidenceKind
from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.bot.investigation.rounds import (
    LAST,
    MOST_LEADS,
    ask_round,
    next_round,
    request_for,
)
from faultline.bot.investigation.steps import InvestigationSteps
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.store import Store
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.settings.connector_settings import Limits
from tests.databases import store_engine

NOW = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=20)
STEP = timedelta(seconds=30)
CHAIN = ("web", "api", "payments", "payments-db")
"""Each calls the next; the last but one fails by itself."""


@dataclass
class Source:
    """A source of one kind that notes what it was asked about."""

    name: str
    kinds: tuple[EvidenceKind, ...]
    follows: tuple[FollowedKind, ...] = ("service",)
    limits: Limits = field(default_factory=Limits)
    requests: list[Request] = field(default_factory=list)

    async def collect(self, request: Request) -> Collected:
        self.requests.append(request)
        return self.answer(request)

    def answer(self, request: Request) -> Collected:
        raise NotImplementedError

    def services(self) -> list[tuple[str, ...]]:
        return [request.scope.services for request in self.requests]

    async def check(self) -> Check:
        return Check(self.name, True, "")


class Metrics(Source):
    """Requests and errors of all services, whoever was asked about, and who calls whom."""

    def answer(self, request: Request) -> Collected:
        start = min(window.start for window in request.scope.baseline)
        steps = int((request.scope.incident.end - start) / STEP)
        rows = []
        for n in range(steps):
            at = start + n * STEP
            failing = at >= NOW - timedelta(minutes=10)
            for place, service in enumerate(CHAIN[:3]):
                share = (0.3 + 0.02 * place if failing else 0.002) + 0.001 * math.sin(n + place)
                rows.append((at, service, "error_ratio", abs(share)))
                rows.append((at, service, "request_rate", 50.0 + math.sin(n)))
        metrics = pl.DataFrame(rows, schema=["time", "service", "signal", "value"], orient="row")
        calls = [(caller, callee, "mesh") for caller, callee in pairwise(CHAIN)]
        topology = pl.DataFrame(calls, schema=["caller", "callee", "source"], orient="row")
        tables = {"metrics": metrics, "topology": topology}
        return Collected(tables, (Item("metrics", "everything", rows=metrics.height),))


class Deploys(Source):
    """Deploys of the services in scope."""

    def answer(self, request: Request) -> Collected:
        if "payments" not in request.scope.services:
            unknown = Missing("changes", "nobody", "no such service", unknown=True)
            return Collected(missing=(unknown,))
        row = {
            "time": [NOW - timedelta(minutes=11)],
            "service": ["payments"],
            "kind": ["deploy"],
            "id": ["d1"],
            "title": ["Deploy payments v2.1.0"],
        }
        item = Item("changes", "deploys of payments", rows=1, services=("payments",))
        return Collected({"changes": pl.DataFrame(row)}, (item,))


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("metrics", ("metrics", "topology"), follows=())


@pytest.fixture
def deploys() -> Deploys:
    return Deploys("deploys", ("changes",))


@pytest.fixture
def context(
    tmp_path: Path, pool: ProcessPool, metrics: Metrics, deploys: Deploys
) -> Iterator[WorkerContext]:
    engine = store_engine(f"sqlite:///{tmp_path}/faultline.sqlite")
    yield WorkerContext(
        settings=Settings(),
        store=Store(engine),
        cases=CaseStore(tmp_path / "cases"),
        connectors=[metrics, deploys],
        reply_targets=[],
        pool=pool,
    )
    engine.dispose()


def investigated(context: WorkerContext, analyses: int = 1) -> str:
    """The investigation of one alert, up to its analysis."""
    alert = Alert(source="test", title="web fails", started_at=NOW, service="web")
    name = context.store.accept(alert).investigation_id
    assert name is not None

    async def story() -> None:
        steps = InvestigationSteps(context)
        opened = await steps.open(name)
        for connector in opened["connectors"]:
            await steps.collect(name, connector, opened)
        await steps.assemble(name, opened)
        for _ in range(analyses):
            await steps.analyze(name)

    asyncio.run(story())
    return name


def case_of(context: WorkerContext, name: str) -> Case:
    with context.cases.checkout(name) as folder:
        return read_case(folder)


def test_a_deploy_of_the_service_to_which_the_evidence_leads_is_fetched_and_blamed(
    context: WorkerContext, metrics: Metrics, deploys: Deploys
) -> None:
    name = investigated(context)
    assert deploys.services()[0] == ("web",)
    assert "payments" in deploys.services()[1]
    assert len(metrics.requests) == 1, "all of it was there in the first round"
    case = case_of(context, name)
    assert case.changes["title"].to_list() == ["Deploy payments v2.1.0"]
    with context.cases.checkout(name) as folder:
        first = read_diagnosis(folder).first_cause
    assert first is not None
    assert (first.subject, first.change) == ("payments", "d1")


def test_the_case_tells_which_round_brought_what_and_why(
    context: WorkerContext, deploys: Deploys
) -> None:
    case = case_of(context, investigated(context))
    first = case.rounds.rounds[0]
    assert (first.number, first.connectors) == (2, ("deploys",))
    assert {lead.subject: lead.because for lead in first.leads}["api"].startswith("cause ")
    by_query = {item.query: item.round for item in case.evidence}
    assert by_query == {"everything": None, "deploys of payments": 2}
    # The alerting service is unknown to the source, which is a gap. An unknown lead is none.
    assert [gap.kind for gap in case.gaps] == ["changes"]


def test_nobody_is_asked_twice_about_a_lead_however_often_the_step_runs(
    context: WorkerContext, deploys: Deploys
) -> None:
    investigated(context, analyses=2)
    subjects = [service for services in deploys.services() for service in services]
    assert len(subjects) == len(set(subjects))


def test_without_a_source_that_can_follow_there_is_one_round(
    context: WorkerContext, deploys: Deploys
) -> None:
    deploys.follows = ()
    case = case_of(context, investigated(context))
    assert case.rounds == Rounds()
    assert len(deploys.requests) == 1


def test_a_lead_that_the_limits_leave_is_a_gap(
    context: WorkerContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultline.bot.investigation.rounds.LAST", 1)
    case = case_of(context, investigated(context))
    assert "payments" in {lead.subject for lead in case.rounds.left}
    assert [gap.reason for gap in case.gaps if gap.source == "rounds"] == [
        f"nobody was asked about {', '.join(lead.subject for lead in case.rounds.left)}: "
        "1 rounds are the limit"
    ]


def test_a_source_that_fails_in_a_later_round_leaves_a_gap_and_what_was_there(
    context: WorkerContext, deploys: Deploys, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: Request) -> Collected:
        if request.round > 1:
            raise OSError("connection reset")
        return Collected()

    monkeypatch.setattr(deploys, "answer", answer)
    case = case_of(context, investigated(context))
    assert case.metrics.height
    assert {gap.reason for gap in case.gaps} == {"internal error (OSError)"}


SCOPE = Scope(incident=Window(start=NOW, end=NOW + STEP), services=("web",), job="train-7")
ALERT = Alert(
    source="test",
    title="web fails",
    started_at=NOW,
    service="web",
    labels={"namespace": "shop", "cluster": "eu", "pod": "web-7d4b-x2x"},
)
LEADS = [Lead(subject=f"s{n}", because="called by web") for n in range(9)]


def test_a_round_asks_about_leads_in_the_alerts_place_and_nothing_else() -> None:
    alert, scope = request_for(LEADS[:2], ALERT, SCOPE)
    assert (alert.service, scope.services, scope.job) == ("s0", ("s0", "s1"), None)
    assert alert.labels == {"namespace": "shop", "cluster": "eu"}


def test_rounds_and_their_leads_are_bounded(deploys: Deploys) -> None:
    now = time.monotonic()
    first = next_round(Rounds(), LEADS, [deploys], ALERT, SCOPE, now).round
    assert first is not None
    assert len(first.leads) == MOST_LEADS
    rounds = Rounds(rounds=(first, first.model_copy(update={"number": LAST})))
    assert next_round(rounds, LEADS, [deploys], ALERT, SCOPE, now).why == "3 rounds are the limit"
    late = next_round(Rounds(), LEADS, [deploys], ALERT, SCOPE, now - 60)
    assert (late.round, late.why) == (None, "12 s had passed")
    assert next_round(Rounds(), [], [deploys], ALERT, SCOPE, now).why is None


NODE = Lead(kind="node", subject="node-7", because="the alert is about it")
VOLUME = Lead(kind="volume", subject="shop/data-0", because="orders mounts it")


def test_each_source_is_asked_about_the_kinds_of_leads_that_it_can_follow(
    context: WorkerContext, deploys: Deploys
) -> None:
    cluster = Deploys("cluster", ("states",), follows=("service", "node"))
    following = next_round(Rounds(), [LEADS[0], NODE, VOLUME], [deploys, cluster], ALERT, SCOPE, 0)
    assert following.why is not None, "0 is long ago"
    now = time.monotonic()
    chosen = next_round(Rounds(), [LEADS[0], NODE, VOLUME], [deploys, cluster], ALERT, SCOPE, now)
    assert chosen.round is not None
    # Nobody follows volumes here.
    assert chosen.round.leads == (LEADS[0], NODE)
    assert chosen.round.connectors == ("deploys", "cluster")
    asyncio.run(
        ask_round(chosen.round, [deploys, cluster], ALERT, SCOPE, context.cases, "c", Rounds())
    )
    assert [request.leads for request in deploys.requests] == [(LEADS[0],)]
    assert [request.leads for request in cluster.requests] == [(LEADS[0], NODE)]
    assert deploys.services() == cluster.services() == [("s0",)]


class Repositories(Deploys):
    """A code host whose settings name one repository."""

    def reads_repository(self, address: str) -> bool:
        return address.endswith("/shop/payments")


@pytest.mark.parametrize(("name", "is_read"), [("payments", True), ("secrets", False)])
def test_a_repository_is_followed_where_the_settings_of_a_code_host_name_it(
    deploys: Deploys, name: str, is_read: bool
) -> None:
    address = f"https://github.com/shop/{name}"
    lead = Lead(kind="repository", subject=address, because="web names it", links=(address,))
    host = Repositories("github", ("changes",), follows=("service", "repository"))
    now = time.monotonic()
    chosen = next_round(Rounds(), [lead], [deploys, host], ALERT, SCOPE, now).round
    assert (chosen.connectors if chosen else ()) == (("github",) if is_read else ())


def test_a_round_about_a_node_alone_asks_no_source_of_services(deploys: Deploys) -> None:
    cluster = Deploys("cluster", ("states",), follows=("node",))
    now = time.monotonic()
    chosen = next_round(Rounds(), [NODE], [deploys, cluster], ALERT, SCOPE, now).round
    assert chosen is not None
    assert chosen.connectors == ("cluster",)
    alert, scope = request_for([NODE], ALERT, SCOPE)
    assert (alert.service, scope.services) == (None, ())


def test_a_round_says_what_was_asked_before_and_what_the_changes_link_to(
    context: WorkerContext, deploys: Deploys
) -> None:
    """A code host reads the repositories of the suspects, each in one round alone."""
    link = "https://github.com/shop/payments/commit/abc"
    lead = Lead(subject="payments", because="called by web", links=(link,))
    first = SCOPE.model_copy(update={"connectors": ("deploys",)})
    second = Round(number=2, leads=LEADS[:1], connectors=("deploys",))
    third = Round(number=3, leads=(lead,), connectors=("deploys",))
    rounds = Rounds(rounds=(second,))
    asyncio.run(ask_round(third, [deploys], ALERT, first, context.cases, "c", rounds))
    (request,) = deploys.requests
    assert [scope.services for _, scope in request.earlier] == [("web",), ("s0",)]
    assert [each.url for each in request.alert.links] == [link]
