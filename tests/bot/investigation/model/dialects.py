"""What the tests of all dialects share: one conversation of two calls, a stop and a report."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.responses import Response

from faultline.analysis.vocabulary import ModelUse
from faultline.bot.investigation.model.investigating import Investigated, investigate
from faultline.bot.settings import Settings
from tests.bot.investigation.model.cases import keeper
from tests.bot.investigation.model.wire import Asked, WireServer, refusal

SERIES = ("series", '{"service": "cart", "signal": null}')
TOPOLOGY = ("topology", '{"service": "checkout"}')
ENOUGH = "That is enough."
SIGNATURE = "EjQKMgEMOdbHJChLX75QUCJjyYlm"
THOUGHT = "The payments deploy came first. Compare cart."


def run(case: Path, server: WireServer, path: str, **model: Any) -> Investigated:
    base = {"name": "the-model", "base_url": f"{server.origin}{path}", "api_key": "key"}
    settings = Settings.model_validate({"model": {**base, "timeout_s": 20, **model}})
    return asyncio.run(investigate(case, settings, keep=keeper(case)))


def used(done: Investigated) -> ModelUse:
    """What it took; fails where the report is not the model's."""
    assert done.report.model_use is not None
    assert done.report.written_by == "the-model", (done.report.dropped, done.report.model_use)
    return done.report.model_use


def worker_ends_after(requests: int, dialect: Callable[[Asked], Response]) -> Any:
    """The server is gone after that many requests, until `back` is set."""

    def answer(asked: Asked) -> Response:
        answer.count += asked.method == "POST"  # type: ignore[attr-defined]
        if answer.count > requests and not answer.back:  # type: ignore[attr-defined]
            return refusal(401, {"error": {"message": "gone"}})
        return dialect(asked)

    answer.count, answer.back = 0, False  # type: ignore[attr-defined]
    return answer


def take_up(case: Path) -> None:
    """The case as a worker left it that ended during a round."""
    transcript = case / "model" / "transcript.jsonl"
    lines = transcript.read_text().splitlines()
    whole = [line for line in lines if json.loads(line)["kind"] != "ended"]
    told = max(n for n, line in enumerate(whole) if json.loads(line)["kind"] == "result")
    transcript.write_text("\n".join(whole[: told + 1]) + "\n")
