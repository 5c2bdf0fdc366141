"""An alert with a model at hand: the answer by code first, then the model asks for more, then the
final edit."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from faultline.loopback.server import serve_in_thread
from tests.bot.answer.writer.openai_server import (
    Answer,
    calls,
    fails,
    says,
    says_text,
    serving,
)
from tests.bot.investigation.model.cases import claim
from tests.scenarios.bot_story import Story, bot_story
from tests.scenarios.small_case import STARTED, write_small_case

pytestmark = pytest.mark.timeout(600)
QUEUE = "queue_depth"


@contextmanager
def prometheus() -> Iterator[tuple[str, list[str]]]:
    """Knows the queue of cart, and is asked about it by nobody but the model."""
    asked: list[str] = []

    async def ranged(request: Request) -> Response:
        given = {
            **request.query_params,
            **(dict(await request.form()) if request.method == "POST" else {}),
        }
        query = str(given.get("query", ""))
        asked.append(query)
        series: list[dict[str, Any]] = []
        if QUEUE in query and "cart" in query:
            rows = [
                [
                    (STARTED + timedelta(seconds=s)).timestamp(),
                    str(405 + s % 3 if s >= -240 else 5 + s % 3),
                ]
                for s in range(-3600, 360, 15)
            ]
            first, last = float(str(given["start"])), float(str(given["end"]))
            inside = [row for row in rows if first <= float(str(row[0])) <= last]
            series = [{"metric": {"service": "cart"}, "values": inside}] if inside else []
        return JSONResponse(
            {"status": "success", "data": {"resultType": "matrix", "result": series}}
        )

    async def listed(request: Request) -> Response:
        names = [QUEUE] if request.url.path.endswith("values") else ["service"]
        return JSONResponse({"status": "success", "data": names})

    async def instant(_: Request) -> Response:
        return JSONResponse({"status": "success", "data": {"resultType": "vector", "result": []}})

    both = ["GET", "POST"]
    routes = [
        Route("/api/v1/query_range", ranged, methods=both),
        Route("/api/v1/query", instant, methods=both),
        Route("/api/v1/labels", listed, methods=both),
        Route("/api/v1/label/{name}/values", listed),
    ]
    url, stop = serve_in_thread(Starlette(routes=routes))
    try:
        yield url, asked
    finally:
        stop()


@dataclass
class Modelled:
    """A bot with a model, which answers as the test says."""

    story: Story
    asked: list[str]
    state: Path
    answering: list[Answer]
    """The one with which it answers now."""


@pytest.fixture(scope="module")
def modelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Modelled]:
    """One bot for the stories of this file; its model says little before a test tells it more."""
    directory = tmp_path_factory.mktemp("model")
    case = write_small_case(directory / "case")
    with ExitStack() as stack:
        metrics, asked = stack.enter_context(prometheus())
        (directory / "queries.toml").write_text(
            f'[prometheus]\nurl = "{metrics}"\n[prometheus.queries]\n{QUEUE} = '
            f"'{QUEUE}{{service=~\"{{service}}\"}}'\n"
        )
        answering = [says_text("later")]

        def answer_now(body: dict[str, Any]) -> Response:
            return answering[0](body)

        server = stack.enter_context(serving(answer_now))
        environ = {
            "FAULTLINE_CONFIG": str(directory / "queries.toml"),
            "FAULTLINE_MODEL__NAME": "local-model",
            "FAULTLINE_MODEL__BASE_URL": server.url,
            "FAULTLINE_MODEL__API_KEY": "model-key",
            "FAULTLINE_MODEL__INVESTIGATE_S": "300",
            "FAULTLINE_MODEL__PRICE_PER_MILLION_INPUT": "100",
            "FAULTLINE_MODEL__MAX_COST_USD": "3",
        }
        story = stack.enter_context(bot_story(directory, case, "sqlite", **environ))
        yield Modelled(story, asked, directory / "state", answering)


def is_probe(body: dict[str, Any]) -> bool:
    return any(t["function"]["name"] == "echo" for t in body.get("tools", ()))


def finding_of(body: dict[str, Any], words: str) -> str:
    """The id of the finding in the data that the model starts from, by words of its line."""
    lines = str(body["messages"][1]["content"]).splitlines()
    return next(line.split()[0] for line in lines if line[:1] == "F" and words in line)


def test_code_answers_first_then_the_model_asks_for_more_and_the_message_is_edited(
    modelled: Modelled,
) -> None:
    story, asked = modelled.story, modelled.asked
    shown = threading.Event()

    def model(body: dict[str, Any]) -> Response:
        if is_probe(body):
            return says_text("later")(body)
        results = [m["content"] for m in body["messages"] if m["role"] == "tool"]
        if not results:
            shown.wait(60)
            return calls(("collect", {"connector": "prometheus", "services": ["cart"]}))(body)
        if not body.get("response_format"):
            return says_text("Enough.")(body)
        queue = re.findall(r"(?m)^\[(F\d+)\] .*Queue length", results[0])[0]
        slow, deploy = finding_of(body, "p99 latency of"), finding_of(body, "Deploy 4f2a9c1")
        guess = {"text": "Orders may wait in the cart while checkout is slow.", "because": [queue]}
        return says(
            {
                "claims": [claim("explained_by", slow, deploy), claim("rose", queue)],
                "inferences": [guess],
                "next_steps": ["N1"],
            }
        )(body)

    modelled.answering[:] = [model]
    asked.clear()
    investigation = story.page_out("P1").json()["investigation_id"]

    def texts() -> list[str]:
        key = f"{investigation}:slack"
        found = [
            m
            for m in story.slack.posts
            if (m.metadata or {}).get("event_payload", {}).get("key") == key
        ]
        return [json.dumps(version) for m in found for version in m.versions]

    story.wait_for(
        lambda: any("still investigating" in t for t in texts()), what="the answer by code"
    )
    assert story.pagerduty.incidents["P1"].notes == [], "the note waits for the final answer"
    assert not any(QUEUE in query and "cart" in query for query in asked)
    shown.set()
    story.wait_for(lambda: bool(story.pagerduty.incidents["P1"].notes), what="a note")
    story.wait_for(lambda: "cart's queue length rose" in texts()[-1], what="the final edit")
    assert "Inferred by the model, not shown by evidence" in texts()[-1]
    assert "local-model: 3 rounds, 1 tool call" in texts()[-1]
    assert "$0.29" in texts()[-1], "3 rounds of 900 tokens, and their answers at the same price"
    assert "still investigating" not in texts()[-1]
    assert (
        sum(1 for m in story.slack.posts if f"{investigation}:slack" in json.dumps(m.metadata)) == 1
    )
    notes = story.pagerduty.incidents["P1"].notes
    assert len(notes) == 1
    assert "Model: local-model: 3 rounds" in notes[0].content
    assert any(QUEUE in query and "cart" in query for query in asked), "through the connector"
    folder = next(modelled.state.rglob(f"{investigation}/report.json")).parent
    assert (folder / "model/transcript.jsonl").exists()
    evidence = json.loads((folder / "evidence.json").read_bytes())
    assert any(
        QUEUE in e["query"] and e["source"] == "prometheus" for e in evidence if "reason" not in e
    )


def test_a_model_that_is_away_costs_nothing_but_its_words(modelled: Modelled) -> None:
    story = modelled.story
    modelled.answering[:] = [fails(503)]
    story.page_out("P2")
    story.wait_for(lambda: bool(story.pagerduty.incidents["P2"].notes), what="a note")
    note = story.pagerduty.incidents["P2"].notes[0].content
    assert "4f2a9c1" in note
    assert "HTTP 503" in note
