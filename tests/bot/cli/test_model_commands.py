"""`faultline model check`, run as a person runs it, against servers on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response
from typer.testing import CliRunner

from faultline.bot.cli.main import app
from faultline.bot.investigation.model.abilities import forget_all
from tests.bot.answer.writer.openai_server import calls, lacks, says_text
from tests.bot.investigation.model.test_anthropic_dialect import block_events
from tests.bot.investigation.model.wire import Asked, named, refusal, wire_server

THINKING = {"type": "thinking", "thinking": "", "signature": "EjQKMgEMOdbH"}


@pytest.fixture(autouse=True)
def _fresh_process() -> Iterator[None]:
    forget_all()
    yield
    forget_all()


def able(asked: Asked) -> Response:
    """A vLLM that can do all."""
    if asked.method == "GET":
        if not asked.path.endswith("/models"):
            return refusal(404, {"detail": "Not Found"})
        return JSONResponse({"data": [{"id": "the-model", "max_model_len": 40_960}]})
    return chat(asked.body)


def chat(body: dict[str, Any]) -> Response:
    if body.get("response_format"):
        return says_text('{"word": "lantern"}')(body)
    if body.get("tools"):
        return calls(("echo", {"word": "lantern"}), ("echo", {"word": "harbor"}))(body)
    return says_text("lantern")(body)


def anthropic(asked: Asked) -> Response:
    if asked.method == "GET":
        return JSONResponse({"type": "model", "id": "the-model", "max_input_tokens": 200_000})
    usage = {"input_tokens": 40, "cache_read_input_tokens": 1200, "output_tokens": 9}
    blocks: list[dict[str, Any]] = [dict(THINKING)]
    if "format" in asked.body.get("output_config", {}):
        assert asked.body["messages"][1]["content"][0] == THINKING
        blocks = [{"type": "text", "text": '{"word": "lantern"}'}]
    else:
        blocks += [
            {"type": "tool_use", "id": f"t{n}", "name": "echo", "input": {"word": word}}
            for n, word in enumerate(("lantern", "harbor"))
        ]
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"usage": usage}}]
    for n, block in enumerate(blocks):
        events += block_events(n, block)
    ended = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}}
    return named(*events, ended, {"type": "message_stop"})


def run(
    tmp_path: Path, answer: Callable[[Asked], Response] | None, **model: Any
) -> tuple[int, dict[str, str], str]:
    """Exit code, what stands after each label, and what was said of an error."""
    config = tmp_path / "faultline.toml"

    def checked() -> tuple[int, dict[str, str], str]:
        lines = [f"{key} = {json.dumps(value)}" for key, value in model.items()]
        config.write_text("[model]\n" + "\n".join(lines) + "\n")
        done = CliRunner().invoke(app, ["model", "check", "--config", str(config)])
        assert all(len(line) <= 150 for line in done.stdout.splitlines())
        found = {line[:16].strip(): line[16:] for line in done.stdout.splitlines()}
        said = done.stderr or (str(done.exception) if done.exception else "")
        return done.exit_code, found, said

    if answer is None:
        return checked()
    with wire_server(answer) as server:
        model.setdefault("base_url", f"{server.origin}/v1")
        model.setdefault("name", "the-model")
        return checked()


def test_a_server_that_can_do_all_on_one_screen(tmp_path: Path) -> None:
    prices = {"price_per_million_input": 2, "price_per_million_output": 10}
    code, found, _ = run(tmp_path, able, max_cost_usd_per_day=20, **prices)
    assert code == 0
    assert found.pop("server").startswith("http://127.0.0.1")
    assert found == {
        "model": "the-model (listed by the server)",
        "API": "OpenAI chat completions",
        "tools": "yes: it can investigate",
        "parallel calls": "yes: calls of one round run side by side",
        "schema": "kept: the report has its form",
        "streaming": "yes: a response that breaks off is used as far as it came",
        "token counts": "the server's own",
        "cache": "yes: 600 of 900 tokens came from it",
        "thinking": "nothing has to be carried back",
        "context": "40,960 tokens by the server: longer conversations are compacted",
        "price": "about $0.25 for an investigation of 102,000 tokens, at most $1.00",
        "limits": "12 rounds, 300,000 tokens an investigation, $20.00 a day",
    }


def test_anthropics_server_takes_back_what_it_thought(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("FAULTLINE_MODEL__API_KEY", "key")
    code, found, _ = run(tmp_path, anthropic, api="anthropic", reasoning_effort="low")
    assert code == 0
    assert found["API"] == "Anthropic Messages"
    assert found["thinking"] == "effort low; sends thinking, which is kept and carried back"
    assert found["cache"].startswith("yes: 1,200 of 1,240 tokens came from it; the prompt's")
    assert found["context"].startswith("200,000 tokens by the server")
    assert found["price"].startswith("unknown: set model.price_per_million_input")


@pytest.mark.parametrize(
    ("word", "label", "said"),
    [
        ("tools", "tools", "no: the model only words the report"),
        ("response_format", "schema", "in words only"),
        ("stream", "streaming", "no: a response that breaks off is lost"),
        ("reasoning_effort", "thinking", "the server does not take reasoning_effort = high"),
    ],
)
def test_what_a_server_lacks_and_what_follows(
    tmp_path: Path, word: str, label: str, said: str
) -> None:
    def in_words(body: dict[str, Any]) -> Response:
        if "JSON schema" in str(body["messages"][-1]["content"]):
            return says_text('{"word": "lantern"}')(body)
        return chat(body)

    def answer(asked: Asked) -> Response:
        return able(asked) if asked.method == "GET" else lacks(word, in_words)(asked.body)

    code, found, _ = run(tmp_path, answer, reasoning_effort="high")
    assert code == 0
    assert found[label].startswith(said)


def test_a_small_context_and_a_model_that_is_not_there(tmp_path: Path) -> None:
    _, found, _ = run(tmp_path, able, context_tokens=8000, name="another")
    assert found["model"] == "another (NOT listed by the server: check model.name)"
    assert found["context"] == (
        "8,000 tokens by the settings: longer conversations are compacted. That is little; give it "
        "at least 32,000"
    )


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "check FAULTLINE_MODEL__API_KEY"), (404, "Check model.name, model.base_url")],
)
def test_a_refusal_is_one_line_with_what_to_do(tmp_path: Path, status: int, said: str) -> None:
    answer = lambda _: refusal(status, {"error": {"message": "no"}})  # noqa: E731
    code, found, error = run(tmp_path, answer)
    assert (code, found) == (1, {})
    assert f"HTTP {status}" in error
    assert said in error
    assert error.count("\n") == 1


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    code, _, error = run(tmp_path, None, name="m", base_url="http://127.0.0.1:9/v1")
    assert code == 1
    assert "Nothing answers at model.base_url" in error


def test_without_a_model_the_setting_is_named(tmp_path: Path) -> None:
    code, _, error = run(tmp_path, None)
    assert code != 0
    assert "model.name: is not set" in error
