"""The second alert of an incident adds to the answer to the first, and never contradicts it without
saying so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.vocabulary import Alert, Diagnosis, Impact, Report, Section, Verdict
from faultline.bot.answer.outcome import Answer
from faultline.bot.investigation.steps import InvestigationSteps
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.investigation.workflow import Analyzed
from faultline.bot.policy.admission import Policy
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertSettings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.connectors.shared.contract.base import Collected, Request
from tests.bot.investigation.test_rounds import NOW, Deploys, Metrics
from tests.databases import store_engine


@pytest.fixture
def context(tmp_path: Path, pool: ProcessPool) -> Iterator[WorkerContext]:
    engine = store_engine(f"sqlite:///{tmp_path}/faultline.sqlite")
    yield WorkerContext(
        settings=Settings(),
        store=Store(engine, policy=Policy.of(Settings())),
        cases=CaseStore(tmp_path / "cases"),
        connectors=[
            Metrics("metrics", ("metrics", "topology"), follows=()),
            Deploys("deploys", ("changes",)),
        ],
        reply_targets=[],
        pool=pool,
    )
    engine.dispose()


class NoCalls(Metrics):
    """Requests and errors of all services, and nothing of who calls whom."""

    def answer(self, request: Request) -> Collected:
        collected = super().answer(request)
        return replace(collected, tables={"metrics": collected.tables["metrics"]})


def accepted(
    context: WorkerContext, service: str, *, minutes: float = 0, namespace: str = ""
) -> str:
    at = NOW + timedelta(minutes=minutes)
    alert = Alert(
        source="test",
        title=f"{service} fails",
        started_at=at,
        service=service,
        labels={"namespace": namespace} if namespace else {},
    )
    name = context.store.accept(alert, now=at).investigation_id
    assert name is not None
    return name


def analyzed(context: WorkerContext, name: str, *, answered: bool = True) -> Analyzed:
    async def story() -> Analyzed:
        steps = InvestigationSteps(context)
        opened = await steps.open(name)
        for connector in opened["connectors"]:
            await steps.collect(name, connector, opened)
        await steps.assemble(name, opened)
        result = await steps.analyze(name)
        if answered and not result.get("joined"):
            await steps.finish(name, result, await steps.write(name, opened))
        return result

    return asyncio.run(story())


def stored(context: WorkerContext, name: str) -> StoredInvestigation:
    investigation = context.store.get(name)
    assert investigation is not None
    return investigation


def case_of(context: WorkerContext, name: str) -> Case:
    with context.cases.checkout(name) as folder:
        return read_case(folder)


@pytest.mark.parametrize("services", [("payments", "web"), ("web", "payments"), ("api", "web")])
def test_alerts_whose_calls_only_the_evidence_knows_become_one_investigation(
    context: WorkerContext, services: tuple[str, str]
) -> None:
    first, second = (accepted(context, name, minutes=n) for n, name in enumerate(services))
    assert first != second, "nobody knows yet who calls whom"
    assert "joined" not in analyzed(context, first)
    assert analyzed(context, second).get("joined")
    assert stored(context, second).status == "joined"
    assert context.cases.get(second, "findings.json") is None
    [member] = stored(context, first).related
    assert member.alert.service == services[1]
    third = context.store.accept(
        Alert(source="test", title="slow", started_at=NOW, service=services[1]), now=NOW
    )
    assert (third.outcome, third.investigation_id) == ("grouped", first)


@pytest.mark.parametrize("answered", [True, False])
def test_without_known_calls_who_has_no_reason_joins_the_answer_about_what_fails_more(
    context: WorkerContext, answered: bool
) -> None:
    blind = replace(context, connectors=[NoCalls("metrics", ("metrics",), follows=())])
    first = accepted(blind, "api", namespace="shop")
    second = accepted(blind, "web", minutes=1, namespace="shop")
    analyzed(blind, first, answered=answered)
    assert analyzed(blind, second).get("joined")
    why = "api fails more requests in shop, and nothing else explains web, 60 s apart"
    assert stored(blind, second).headline == f"Part of the incident “api fails”: {why}"
    assert stored(blind, first).culprit == "api"
    # Elsewhere nothing ties the two.
    other = accepted(blind, "web", minutes=1, namespace="shop-2")
    assert "joined" not in analyzed(blind, other)


def test_without_known_calls_what_fails_more_is_answered_by_itself_and_names_the_other(
    context: WorkerContext,
) -> None:
    blind = replace(context, connectors=[NoCalls("metrics", ("metrics",), follows=())])
    first = accepted(blind, "web", namespace="shop")
    second = accepted(blind, "api", minutes=1, namespace="shop")
    blind.store.finish(
        first, "done", verdict="cause_found", confidence=0.8, headline="web", culprit="web"
    )
    assert "joined" not in analyzed(blind, second)
    assert stored(blind, second).culprit == "api"
    [note] = case_of(blind, second).alert.notes
    assert "named web as the cause. It began about then" in note


def test_an_answer_that_is_given_again_says_what_it_named_before(context: WorkerContext) -> None:
    name = accepted(context, "web")
    context.store.finish(
        name, "done", verdict="cause_found", confidence=0.8, headline="web", culprit="web"
    )
    analyzed(context, name)
    case = case_of(context, name)
    [note] = case.alert.notes
    assert "this answer named web as the cause. Alerts that joined since then" in note
    # Whoever shows the answer shows the note.
    nothing = Diagnosis(
        verdict=Verdict.INSUFFICIENT_EVIDENCE,
        confidence=0.0,
        causes=(),
        findings=(),
        impact=Impact(sentence="", findings=()),
    )
    answer = Answer(nothing, Report(headline="", claims=()), (), (), None, case)
    view = answer.view(stored(context, name).alert)
    assert view.section(Section.UNSURE)[0].text == note
    analyzed(context, name)
    assert case_of(context, name).alert.notes == (), "the cause is the same as before"


def test_an_answer_that_cannot_join_says_what_an_open_one_named(context: WorkerContext) -> None:
    first = accepted(context, "api", minutes=-12)
    context.store.finish(
        first, "done", verdict="cause_found", confidence=0.8, headline="api", culprit="api"
    )
    second = accepted(context, "web")
    assert "joined" not in analyzed(context, second)
    [note] = case_of(context, second).alert.notes
    assert note.startswith("The answer to “api fails” of ")
    assert note.endswith(
        "named api as the cause. Its alert is still open, so both may be one incident."
    )


def test_a_bot_that_groups_nothing_joins_nothing(context: WorkerContext) -> None:
    settings = Settings(alerts=AlertSettings(groups="off"))
    store = Store(context.store.engine, policy=Policy.of(settings))
    alone = replace(context, store=store)
    first, second = accepted(alone, "payments"), accepted(alone, "web", minutes=1)
    analyzed(alone, first)
    assert "joined" not in analyzed(alone, second)
