"""Tool calls of one answer run side by side; what they bring stands in the order of the calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import read_case, read_diagnosis
from faultline.bot.answer.writer.payload import Redactor
from faultline.bot.investigation.model.budget import Budget, ModelLimits
from faultline.bot.investigation.model.client import ModelClient
from faultline.bot.investigation.model.conversation import Conversation
from faultline.bot.investigation.model.drafts import CheckedDraft, Draft, read_draft
from faultline.bot.investigation.model.model_session import ModelSession, in_a_thread
from faultline.bot.investigation.model.toolbox import Toolbox
from faultline.bot.investigation.model.tools.contract import (
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
)
from faultline.bot.investigation.model.transcript import Transcript
from faultline.bot.settings.investigation import ModelSettings
from faultline.prompts import load_prompt
from tests.bot.answer.writer.openai_server import OpenAIServer, calls, says, serving
from tests.bot.investigation.model.cases import Payments, good_report, investigated
from tests.bot.investigation.model.test_investigating import DONE, results


class Named(Arguments):
    name: str


async def nothing() -> None:
    pass


def converse(
    server: OpenAIServer, case: Path, tmp_path: Path, run: Callable[[str], Awaitable[CallResult]]
) -> Conversation[Draft]:
    """A conversation with one tool, to its end."""

    async def call(_: ModelSession, asked: Named) -> CallResult:
        return await run(asked.name)

    settings = ModelSettings(name="local-model", base_url=server.url, timeout_s=20)
    bench = ModelSession(
        folder=case,
        work=tmp_path / "work",
        diagnosis=read_diagnosis(case),
        run=in_a_thread,
        store="model",
        keep=lambda name, content: None,
    )

    async def held() -> Conversation[Draft]:
        async with ModelClient(settings) as client:
            conversation = Conversation(
                client=client,
                prompt=load_prompt("investigate"),
                first="<data>\n{}\n</data>",
                last="Write the report now.",
                schema=Draft,
                read=read_draft,
                review=lambda _: CheckedDraft(),
                toolbox=Toolbox(bench, Redactor(), [Tool("look", "Looks.", Named, call)]),
                budget=Budget(settings, ModelLimits.of(settings)),
                transcript=Transcript(),
                save=nothing,
            )
            await conversation.final_draft()
            return conversation

    return asyncio.run(held())


def looks(*names: str) -> Any:
    return calls(*(("look", {"name": name}) for name in names))


def test_calls_of_one_answer_run_side_by_side_and_keep_their_order(
    case: Path, tmp_path: Path
) -> None:
    begun: list[str] = []
    ended: list[str] = []

    async def run(name: str) -> CallResult:
        begun.append(name)
        # Each waits until all have begun, and the first the longest.
        while len(begun) < 3:
            await asyncio.sleep(0.001)
        await asyncio.sleep({"a": 0.2, "b": 0.1, "c": 0.0}[name])
        ended.append(name)
        return CallResult([Row(f"{name} jo.{name}@example.com")], "test")

    with serving(looks("a", "b", "c"), DONE, says(good_report(case))) as server:
        held = converse(server, case, tmp_path, run)
        told = results(server)
    assert ended == ["c", "b", "a"]
    assert [text.count(f"\n{name} [EMAIL_") for name, text in zip("abc", told, strict=True)] == [
        1
    ] * 3
    assert len({text.split("[EMAIL_")[1][0] for text in told}) == 3, "each its own placeholder"
    assert held.budget.tool_calls == 3


def test_the_same_call_twice_in_one_answer_is_made_once(case: Path, tmp_path: Path) -> None:
    made: list[str] = []

    async def run(name: str) -> CallResult:
        made.append(name)
        return CallResult([], "test")

    with serving(looks("a", "a"), DONE, says(good_report(case))) as server:
        converse(server, case, tmp_path, run)
        assert "this call was made before" in results(server)[1]
    assert made == ["a"]


@pytest.mark.parametrize(("failing", "warned"), [(1, False), (2, False), (3, True)])
def test_rounds_in_which_every_call_fails_are_one_strike_each(
    case: Path, tmp_path: Path, failing: int, warned: bool
) -> None:
    async def run(name: str) -> CallResult:
        raise InvalidCall(f"no {name}")

    rounds = [looks(*(f"{n}{letter}" for letter in "abc")) for n in range(failing)]
    with serving(*rounds, DONE, says(good_report(case))) as server:
        converse(server, case, tmp_path, run)
        assert ("rounds of calls in a row that failed" in server.sent) is warned


def test_a_round_with_one_good_call_is_no_strike(case: Path, tmp_path: Path) -> None:
    async def run(name: str) -> CallResult:
        if name.startswith("good"):
            return CallResult([], "test")
        raise InvalidCall("no such thing")

    rounds = [looks(f"bad{n}", f"worse{n}", f"good{n}") for n in range(5)]
    with serving(*rounds, DONE, says(good_report(case))) as server:
        converse(server, case, tmp_path, run)
        assert "Note from the program" not in server.sent


def test_queries_of_one_answer_are_merged_one_after_the_other(case: Path) -> None:
    def collect(*services: str) -> tuple[str, Any]:
        wanted = {"connector": "queues", "services": list(services), "start": None, "end": None}
        return "collect", wanted

    report = says(good_report(case))
    script = (
        calls(collect("cart"), collect("cart", "checkout"), collect("checkout")),
        DONE,
        report,
    )
    connector = Payments()
    with serving(*script) as server:
        done = investigated(case, server, connector)
        told = results(server)
    assert len(connector.requests) == 3
    assert "Queue length" in told[0]
    assert '"error"' not in "".join(told)
    stored = sorted(p.name for p in (case / "model" / "asks").iterdir())
    assert stored == ["ask-1", "ask-2", "ask-3"]
    for name, content in done.changed.items():
        (case / name).write_bytes(content)
    added = [e.query for e in read_case(case).evidence if e.source == "queues"]
    assert added == ['queue_depth{service="cart"}']
