"""The parts that need no server: loop guard, budget, ids, transcript, drafts, schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from faultline.analysis.errors import ConnectorError, EvidenceError
from faultline.bot.answer.finding_ids import with_stable_ids
from faultline.bot.investigation.model.budget import Budget, LoopGuard, ModelLimits
from faultline.bot.investigation.model.client import ModelClient
from faultline.bot.investigation.model.drafts import read_draft
from faultline.bot.investigation.model.model_api import ServerFailure
from faultline.bot.investigation.model.openai_dialects import ChatReading
from faultline.bot.investigation.model.schemas import strict_schema
from faultline.bot.investigation.model.tools.queries import CollectArguments
from faultline.bot.investigation.model.transcript import (
    Transcript,
    TranscriptLine,
    entries,
    read_transcript,
)
from faultline.bot.investigation.model.turns import (
    AssistantMessage,
    ModelAnswer,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    UserMessage,
)
from faultline.bot.settings.investigation import ModelSettings
from tests.bot.answer.writer.diagnoses import DIAGNOSIS, finding


def call(name: str, **arguments: Any) -> ToolCall:
    return ToolCall("c1", name, json.dumps(arguments))


def test_the_same_call_in_other_words_is_the_same() -> None:
    guard = LoopGuard()
    assert guard.repeated(call("logs", service="a", contains="b")) is None
    assert guard.repeated(ToolCall("c2", "logs", '{ "contains":"b", "service": "a"}')) == 1
    assert guard.nudge()
    assert guard.nudge() is None


def test_two_calls_in_turns_are_named_and_cost_the_tools() -> None:
    guard = LoopGuard()
    for name in ("a", "b", "a", "b"):
        guard.repeated(call(name))
    assert "in turns" in (guard.nudge() or "")
    guard.repeated(call("a"))
    guard.nudge()
    assert guard.withdrawn


def ended(guard: LoopGuard, *errors: bool) -> str | None:
    """A round of calls that ended so, and what the model is warned after it."""
    guard.ended(error=all(errors))
    return guard.nudge()


def test_failing_rounds_in_a_row_are_noticed_and_a_good_one_ends_them() -> None:
    guard = LoopGuard()
    for error in (True, True, False, True, True):
        assert ended(guard, error) is None
    assert "3 rounds of calls in a row" in (ended(guard, True) or "")


def test_failing_calls_of_one_batch_are_one_strike() -> None:
    guard = LoopGuard()
    assert ended(guard, True, True, True) is None
    assert ended(guard, True, False, True) is None, "one of them brought something"
    assert ended(guard, True, True, True) is None
    assert ended(guard, True, True) is None
    assert "3 rounds of calls in a row" in (ended(guard, True) or "")


def test_the_report_is_always_left_room_for() -> None:
    settings = ModelSettings(name="m", price_per_million_input=1.0, max_cost_usd=0.01)
    budget = Budget(settings, ModelLimits(rounds=100, tokens=10**9, cost_usd=0.01, seconds=1000))
    turn = Turn("s" * 3500, [UserMessage("x")], 1000)
    assert budget.reached(turn) is None
    budget.count_usage(Usage(input=5000, output=100))
    assert budget.reached(turn) == "limit of $0.01", (
        "another round and the report would cost more than is left"
    )
    assert (budget.cost or 0) < 0.01


def test_what_was_spent_counts_toward_the_limit_of_cost() -> None:
    settings = ModelSettings(name="m", price_per_million_input=1.0, max_cost_usd=0.01)
    budget = Budget(settings, ModelLimits(rounds=100, tokens=10**9, cost_usd=0.01, seconds=1000))
    turn = Turn("short", [UserMessage("x")], 10)
    for _ in range(10):
        budget.count_usage(Usage(input=900, output=10))
    assert budget.reached(turn) == "limit of $0.01", "no single round costs that much"


@pytest.mark.parametrize(("status", "again"), [(400, False), (429, True), (503, True)])
def test_a_refusal_by_the_server_says_whether_to_try_again(status: int, again: bool) -> None:
    client = ModelClient(ModelSettings(name="m", base_url="http://127.0.0.1:9/v1"))
    explained = client._explained(ServerFailure(status, "no"))
    assert isinstance(explained, ConnectorError)
    assert (explained.status, explained.retryable) == (status, again)


def test_cached_tokens_cost_what_the_settings_say() -> None:
    settings = ModelSettings(
        name="m",
        price_per_million_input=2.0,
        price_per_million_cached=0.5,
        price_per_million_output=8.0,
    )
    budget = Budget(settings, ModelLimits.of(settings))
    budget.count_usage(Usage(input=1_000_000, output=100_000, cached=400_000))
    assert budget.use("answered").cost_usd == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.1 * 8)


def test_findings_keep_their_ids_when_others_come_before_them() -> None:
    louder = finding("F1", "payments", "payments is gone.")
    moved = [
        f.model_copy(update={"id": f"F{n}"}) for n, f in enumerate(DIAGNOSIS.findings, start=2)
    ]
    causes = tuple(c.model_copy(update={"findings": ("F1", "F2")}) for c in DIAGNOSIS.causes)
    after = DIAGNOSIS.model_copy(update={"findings": (louder, *moved), "causes": causes})
    kept, own = with_stable_ids(DIAGNOSIS, after, ())
    assert [f.id for f in kept.findings] == ["F7", *(f.id for f in DIAGNOSIS.findings)]
    assert kept.causes[0].findings == ("F7", "F1")
    assert own["F1"] == "F2"
    assert own["F7"] == "F1"


def test_an_id_that_was_given_out_is_never_given_to_another() -> None:
    gone = DIAGNOSIS.model_copy(update={"findings": DIAGNOSIS.findings[:2], "causes": ()})
    fresh = gone.model_copy(
        update={"findings": (*gone.findings, finding("F3", "new", "new is here."))}
    )
    kept, _ = with_stable_ids(gone, fresh, {f.id for f in DIAGNOSIS.findings})
    assert kept.findings[-1].id == "F7"


def test_a_transcript_is_read_back_as_the_history_it_was() -> None:
    transcript = Transcript()
    transcript.add(TranscriptLine(kind="start", text="system", prompt="investigate 1"))
    transcript.add(TranscriptLine(kind="told", text="data \ud800"))
    transcript.add(
        TranscriptLine(
            kind="said", text="", calls=[{"id": "c1", "name": "logs", "arguments": "{}"}]
        )
    )
    transcript.add(TranscriptLine(kind="result", text="<data>", call="c1", tool="logs"))
    again = read_transcript(transcript.as_bytes())
    assert entries(again.lines) == [
        UserMessage("data ?"),
        AssistantMessage("", (ToolCall("c1", "logs", "{}"),)),
        ToolResult("c1", "<data>"),
    ]


@pytest.mark.parametrize("content", [b"[]\n", b'{"kind": 3}\n', b'{"kind": "said"', b"[" * 100_000])
def test_a_transcript_that_cannot_be_read_is_named(content: bytes) -> None:
    with pytest.raises(EvidenceError):
        read_transcript(content)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 50_000,
        '{"headline": 3, "claims": []}',
        '{"headline": "x", "claims": "y"}',
        "null",
        "}{",
    ],
)
def test_an_answer_that_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"claim|JSON"):
        read_draft(text)


def test_schemas_hold_nothing_that_strict_servers_refuse() -> None:
    text = json.dumps(strict_schema(CollectArguments))
    assert not [word for word in ('"title"', '"default"', "maxLength") if word in text]
    assert strict_schema(CollectArguments)["required"] == ["connector", "services", "start", "end"]


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": 3},
        {"choices": [None]},
        {"choices": [{"delta": {"content": 5, "tool_calls": [{"index": "x", "function": 3}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": {"name": ["a"], "arguments": 1}}]}}]},
        {"usage": {"prompt_tokens": -1, "completion_tokens": "many"}},
    ],
)
def test_a_chunk_that_is_nonsense_changes_nothing(chunk: dict[str, Any]) -> None:
    answer = ModelAnswer()
    reading = ChatReading(answer, 0)
    reading.read(chunk)
    reading.finish(streamed=True)
    assert answer.empty
    assert answer.usage is None


def test_calls_that_all_have_the_index_0_are_told_apart_by_their_ids() -> None:
    answer = ModelAnswer()
    reading = ChatReading(answer, 0)
    for n in range(3):
        function = {"name": "logs", "arguments": {"service": str(n)}}
        reading.read(
            {
                "choices": [
                    {
                        "delta": {
                            "tool_calls": [{"index": 0, "id": f"call_{n}", "function": function}]
                        }
                    }
                ]
            }
        )
    reading.read({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    reading.finish(streamed=True)
    assert [json.loads(c.arguments)["service"] for c in answer.calls] == ["0", "1", "2"]
    assert len({c.id for c in answer.calls}) == 3


def test_a_piece_without_an_index_goes_on_with_the_last_call() -> None:
    answer = ModelAnswer()
    reading = ChatReading(answer, 0)
    for part in (
        {"id": "a", "function": {"name": "logs", "arguments": '{"n": '}},
        {"id": "b", "function": {"name": "series", "arguments": '{"n": '}},
        {"function": {"arguments": "2}"}},
        # Of a call that is not the last one nothing can follow.
        {"id": "a", "function": {"arguments": "1}"}},
    ):
        reading.read({"choices": [{"delta": {"tool_calls": [part]}}]})
    reading.finish(streamed=True)
    assert [(call.name, call.arguments) for call in answer.calls] == [
        ("logs", '{"n": '),
        ("series", '{"n": 2}'),
    ]
