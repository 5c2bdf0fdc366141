"""A server whose context is small: what is sent fits, nothing that may be cited is lost, and the
conversation goes on. And the estimate of tokens that this rests on.

The refusals are those of vLLM (https://github.com/vllm-project/vllm/issues/20409), llama.cpp
(https://github.com/ggml-org/llama.cpp/pull/15780) and Bedrock.
"""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import Response

from faultline.analysis.case.folder import json_bytes, read_case
from faultline.analysis.diagnosis import diagnose
from faultline.bot.investigation.model.budget import Budget, ModelLimits
from faultline.bot.investigation.model.toolbox import SHORTENED, in_short
from faultline.bot.investigation.model.transcript import entries, read_transcript
from faultline.bot.investigation.model.turns import (
    AssistantMessage,
    ModelAnswer,
    ToolResult,
    Turn,
    Usage,
    UserMessage,
)
from faultline.bot.settings.investigation import ModelSettings
from tests.bot.answer.writer.openai_server import Answer, calls, fails, says, serving
from tests.bot.investigation.model.cases import LOG_LINES, added, claim, good_report, investigated
from tests.bot.investigation.model.test_investigating import results
from tests.scenarios.small_case import STARTED

ROUNDS = 12
CHARACTERS = 3.1
"""A token of the server below, as real ones were measured."""
NOISE = ("alpha", "bravo", "carol", "delta", "echoo", "foxtr", "golfs", "hotel", "india", "julie")


@pytest.fixture
def wordy(case: Path) -> Path:
    """The case with log lines whose templates fill every result."""
    lines = [LOG_LINES]
    for word in NOISE:
        for kind in range(16):
            tail = " ".join(f"{word}{letter}{chr(97 + kind)}" for letter in "abcdefghijkl")
            at = (STARTED + timedelta(seconds=kind)).isoformat()
            lines.append(f"{at},checkout,{word}{chr(97 + kind)} {'very ' * kind}{tail},INFO\n")
    (case / "logs.csv").write_text("".join(lines))
    (case / "logs.parquet").unlink(missing_ok=True)
    (case / "findings.json").write_bytes(json_bytes(diagnose(read_case(case))))
    return case


def tokens_of(body: dict[str, Any]) -> int:
    return int(len(json.dumps(body, ensure_ascii=False)) / CHARACTERS)


class Small:
    """Counts what it gets, and refuses what does not fit, in the words of a real server."""

    def __init__(self, case: Path, context: int, words: str) -> None:
        self.case, self.context, self.words = case, context, words
        self.refusals = 0
        self.first: str | None = None
        self.sent: list[int] = []

    def __call__(self, body: dict[str, Any]) -> Response:
        size, limit = tokens_of(body), int(body["max_tokens"])
        if size + limit > self.context:
            self.refusals += 1
            said = self.words.format(context=self.context, asked=size + limit, prompt=size)
            return fails(400, said)(body)
        self.sent.append(size)
        return self.counted(self.answer(body)(body), size)

    def answer(self, body: dict[str, Any]) -> Answer:
        if body.get("response_format"):
            cart = next(line for line in self.lines(body) if line.startswith("[L1] cart "))
            assert "was steady" in cart
            return says(good_report(self.case, claim("unaffected", "L1")))
        asked = len([m for m in body["messages"] if m["role"] == "assistant"])
        if asked == 0:
            return calls(("series", {"service": "cart"}), ("finding", {"ids": ["F1", "F2"]}))
        word = NOISE[(asked - 1) % len(NOISE)]
        return calls(("logs", {"contains": word}), ("logs", {"contains": f"{word}b"}))

    def lines(self, body: dict[str, Any]) -> list[str]:
        told = [m["content"] for m in body["messages"] if m["role"] == "tool"]
        return [line for text in told for line in text.split("\n")[1:-1]]

    def counted(self, response: Response, size: int) -> Response:
        counts = b'"prompt_tokens": %d' % size
        body = bytes(response.body).replace(b'"prompt_tokens": 900', counts)
        return Response(body, media_type=response.media_type)


VLLM = (
    "This model's maximum context length is {context} tokens. However, you requested {asked} "
    "tokens ({prompt} in the messages). Please reduce the length of the messages or completion."
)
LLAMA_CPP = (
    "request ({prompt} tokens) exceeds the available context size ({context} tokens), try "
    "increasing it"
)
BEDROCK = "Input is too long for requested model."


@pytest.mark.parametrize(
    ("words", "settings", "most_refusals"),
    [
        (VLLM, {"context_tokens": 32_768}, 0),
        (VLLM, {}, 2),
        (LLAMA_CPP, {}, 2),
        (BEDROCK, {}, 2 * ROUNDS),
    ],
)
def test_a_server_of_32k_gets_through_twelve_rounds(
    wordy: Path, words: str, settings: dict[str, Any], most_refusals: int
) -> None:
    server_side = Small(wordy, 32_768, words)
    with serving(server_side) as server:
        done = investigated(wordy, server, max_rounds=ROUNDS, max_tokens=3_000_000, **settings)
    use = done.report.model_use
    assert use is not None
    assert (use.rounds, use.tool_calls, use.ended) == (ROUNDS, 22, "limit of 12 rounds")
    assert server_side.refusals <= most_refusals
    assert sum(server_side.sent[:2]) / 2 * ROUNDS < sum(server_side.sent), "it grew meanwhile"
    assert done.report.written_by == "local-model", (done.report.dropped, use)
    assert added(done.report)[1].findings == ("L1",), "from the first round, and still citable"
    assert any(SHORTENED in result for result in results(server))


def test_a_prompt_only_changes_where_it_is_compacted(wordy: Path) -> None:
    with serving(Small(wordy, 32_768, VLLM)) as server:
        investigated(wordy, server, max_rounds=ROUNDS, max_tokens=3_000_000, context_tokens=32_768)
    sent = [body["messages"] for body in server.requests]
    changed = sum(after[: len(before)] != before for before, after in pairwise(sent))
    assert 1 <= changed <= 3


def test_a_worker_that_takes_over_sends_what_was_compacted(wordy: Path) -> None:
    with serving(Small(wordy, 32_768, VLLM)) as server:
        investigated(wordy, server, max_rounds=ROUNDS, max_tokens=3_000_000, context_tokens=32_768)
    stored = read_transcript((wordy / "model" / "transcript.jsonl").read_bytes())
    history = entries([line for line in stored.lines if not line.reports])
    told = [e.text for e in history if isinstance(e, ToolResult)]
    assert told == results(server)
    whole = [line.text for line in stored.lines if line.kind == "result"]
    assert whole != told[: len(whole)], "the stored transcript keeps the whole results"


def test_observations_reach_a_report_that_nothing_else_fits_beside(wordy: Path) -> None:
    """The context shrinks before the report, as where a server is started again with less."""

    class Shrinks(Small):
        def __call__(self, body: dict[str, Any]) -> Response:
            if body.get("response_format"):
                self.context = 8_000
            return super().__call__(body)

        def lines(self, body: dict[str, Any]) -> list[str]:
            told = [m["content"] for m in body["messages"] if m["role"] == "user"]
            assert not any(m["role"] == "tool" for m in body["messages"])
            return str(told[1]).split("\n")[1:-1]

    server_side = Shrinks(wordy, 100_000, VLLM)
    with serving(server_side) as server:
        done = investigated(wordy, server, max_rounds=ROUNDS, max_tokens=3_000_000)
    assert done.report.written_by == "local-model", done.report.model_use
    assert added(done.report)[1].findings == ("L1",)


def test_a_context_that_not_even_the_document_fits_into_ends_in_the_built_in_report(
    wordy: Path,
) -> None:
    with serving(Small(wordy, 2_000, VLLM)) as server:
        done = investigated(wordy, server)
    assert done.report.written_by == "built-in"
    assert done.report.model_use is not None
    assert done.report.model_use.ended == "model context limit of 2,000 tokens reached"


def test_the_result_in_short_keeps_what_may_be_cited() -> None:
    whole = "\n".join(
        [
            "<data>",
            "provenance: metrics from recorded",
            "[L3] cart was steady: 45 ms before, 46 ms in the incident; " + "▁" * 300,
            "not citable " + "▁" * 300,
            "[F2] checkout is slow.",
            '[L4] cart error lines: 30 in the incident "' + "y" * 900 + '"',
            "cut: 9 of 40 lines left out; all are kept as r1, which `read` searches",
            "</data>",
        ]
    )
    short = in_short(whole)
    assert len(short) < len(whole) / 2
    lines = short.split("\n")[1:-1]
    assert lines[1] == "provenance: metrics from recorded"
    assert lines[2].endswith("all are kept as r1, which `read` searches")
    assert [line[:5] for line in lines[3:]] == ["[L3] ", "[F2] ", "[L4] "]
    assert "not citable" not in short
    assert short.count("</data>") == 1, "nothing in it can close the element"
    assert in_short(short) == short


@pytest.mark.parametrize("result", ["", "plain words", "<data>\n[1]\n</data>", "[" * 5000])
def test_a_result_that_cannot_be_shortened_stays(result: str) -> None:
    assert in_short(result) == result


def budget() -> Budget:
    settings = ModelSettings(name="m")
    return Budget(settings, ModelLimits.of(settings))


def test_tokens_are_the_servers_counts_and_an_estimate_of_what_was_added() -> None:
    counting = budget()
    first = Turn("s" * 3000, [UserMessage("u" * 3000)], 100)
    assert counting.estimated(first) == int(6000 / 2.9)
    counting.count(first, ModelAnswer("a" * 30, usage=Usage(2000, 500)))
    added = ToolResult("c1", "r" * 300)
    history = [*first.history, AssistantMessage("a" * 30), added]
    # 3 characters a token, as the server counted; its answer took 500 with what it thought.
    assert counting.estimated(Turn("s" * 3000, history, 100)) == 2000 + 500 + 100
    compacted = Turn("s" * 3000, [UserMessage("u" * 300), *history[1:]], 100)
    assert counting.estimated(compacted) == int((3000 + 300 + 30 + 300) / 3)


def test_a_count_that_cannot_be_one_is_not_believed() -> None:
    counting = budget()
    turn = Turn("s" * 3000, [UserMessage("u" * 3000)], 100)
    # Servers that count only what their cache did not hold.
    counting.count(turn, ModelAnswer("a", usage=Usage(7, 1)))
    assert counting.estimated(Turn("s" * 3000, [UserMessage("v" * 3000)], 100)) == int(6000 / 2.9)
