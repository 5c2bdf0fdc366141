"""One incident, asked about through every door: the cause, the evidence and the confidence are the
same, to the last number."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from faultline.loopback.slack import BOT_USER
from tests.bot.web.browser import Page, browser_page
from tests.bot.web.conftest import chromium
from tests.connectors.conftest import open_metrics, running_prometheus
from tests.scenarios.bot_story import CHANNEL, Story, bot_story
from tests.scenarios.test_ask import run
from tests.scenarios.test_first_light import slack_event
from tests.scenarios.test_mcp import agent

__all__ = ["chromium"]

Json = dict[str, Any]
ALL = "/api/investigations"
WITHIN_S = 60.0
HEADING = "document.querySelector('h1')?.innerText.replaceAll('\u00a0', ' ')"
# The window ends a quarter of an hour after the incident began, whenever it is asked about. Each
# answer stands for itself: nothing is remembered from the one before.
SETTINGS = """
[prometheus]
url = "{url}"
[investigation]
incident_hours = 0.25
memory_days = 0
learned_calls_days = 0
"""
TOKEN = "a token that is long enough"
BEARER = {"authorization": f"Bearer {TOKEN}"}
ENVIRON = {
    "FAULTLINE_SERVER__ACCESS_TOKEN": TOKEN,
    "FAULTLINE_PAGERDUTY__API_TOKEN": "",  # it would be one more source
}


@dataclass(frozen=True)
class Doors:
    """A bot and a folder for the command line, with the same settings."""

    story: Story
    home: Path
    question: str

    def api(self, path: str) -> Json:
        """What the bot's API says of an address."""
        address = f"{self.story.bot.url}{ALL}{path}"
        answer = httpx.get(address, headers=BEARER, timeout=WITHIN_S)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    def answer_of(self, investigation: str) -> Json:
        """The whole answer of an investigation of the bot, once it is there."""
        self.story.wait_for(
            lambda: self.api(f"/{investigation}")["status"] in ("done", "failed"),
            what="an answer",
        )
        return self.api(f"/{investigation}/answer")


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """checkout broke half an hour ago, and still is broken."""
    folder = tmp_path_factory.mktemp("doors")
    began = (datetime.now(UTC) - timedelta(minutes=30)).replace(second=0, microsecond=0)
    samples = open_metrics(
        began,
        history=timedelta(hours=3),
        sick=timedelta(0),
        after=timedelta(hours=1),
    )
    for name in ("prometheus", "bot", "home"):
        (folder / name).mkdir()
    with running_prometheus(folder / "prometheus", samples) as server:
        for name in ("bot", "home"):
            (folder / name / "faultline.toml").write_text(SETTINGS.format(url=server.url))
        with bot_story(folder / "bot", None, "sqlite", environ=ENVIRON) as story:
            yield Doors(story, folder / "home", f"checkout is slow since {began:%H:%M}")


@pytest.fixture(scope="module")
def expected(doors: Doors) -> Json:
    """What `faultline ask` answers."""
    told = run(doors.home, doors.question, "--no-kubernetes", "--json")
    assert told.returncode == 0, told.stderr
    answer: Json = json.loads(told.stdout)
    assert answer["verdict"] == "cause_found"
    assert answer["causes"][0]["subject"] == "checkout"
    assert answer["findings"]
    return without(answer, "id", "timings")


def without(answer: Json, *names: str) -> Json:
    """The answer without what differs in each run."""
    return {name: value for name, value in answer.items() if name not in names}


def test_the_api(doors: Doors, expected: Json) -> None:
    asked, address = {"question": doors.question}, f"{doors.story.bot.url}{ALL}"
    begun = httpx.post(address, json=asked, headers=BEARER, timeout=WITHIN_S).json()
    assert without(doors.answer_of(begun["id"]), "id") == expected


def test_a_mention_in_slack(doors: Doors, expected: Json) -> None:
    story, text = doors.story, f"<@{BOT_USER}> investigate {doors.question}"
    ts = story.slack.say(CHANNEL, text)
    event = {
        "type": "app_mention",
        "user": "U0ENGINEER",
        "text": text,
        "ts": ts,
        "channel": CHANNEL,
        "event_ts": ts,
    }
    assert slack_event(story, event, "EvDoor").status_code == 200
    story.wait_for(lambda: bool(slacked(story, ts)), what="the answer in the thread")
    [message] = slacked(story, ts)
    one = message.metadata["event_payload"]["key"].partition(":")[0]
    assert without(doors.answer_of(one), "id") == expected
    shown = json.dumps(message.blocks, ensure_ascii=False) + message.text
    assert expected["headline"].split(";")[0] in shown.replace("*", "").replace("`", "")


def slacked(story: Story, ts: str) -> list[Any]:
    """The finished answer in a thread."""
    return [one for one in story.answers() if one.thread_ts == ts and len(one.versions) > 2]


def test_the_form_on_the_pages(
    doors: Doors, expected: Json, chromium: Path, tmp_path: Path
) -> None:
    async def visit() -> str:
        async with browser_page(chromium, tmp_path / "profile") as page:
            await page.open(f"{doors.story.bot.url}/login?next=/investigate")
            await send(page, token=TOKEN)
            await page.until("location.pathname === '/investigate'")
            await send(page, question=doors.question)
            await page.until("location.pathname.startsWith('/investigations/')")
            async with asyncio.timeout(WITHIN_S):
                while await page.value(HEADING) != expected["headline"]:
                    await asyncio.sleep(0.2)
            assert page.messages == []
            return str(await page.value("location.pathname.split('/').pop()"))

    assert without(doors.answer_of(asyncio.run(visit())), "id") == expected


async def send(page: Page, **fields: str) -> None:
    """Fill in the form of the page and send it."""
    for name, value in fields.items():
        field = f"document.querySelector('main [name={name}]')"
        await page.until(field)
        await page.value(f"{field}.value = {json.dumps(value)}")
    await page.value("document.querySelector('main form button:not([type=button])').click()")


@asynccontextmanager
async def over_http(doors: Doors) -> AsyncIterator[Client]:
    async with httpx2.AsyncClient(headers=BEARER, timeout=WITHIN_S) as http:
        transport = streamable_http_client(f"{doors.story.bot.url}/mcp", http_client=http)
        async with Client(transport, read_timeout_seconds=WITHIN_S) as client:
            yield client


@asynccontextmanager
async def over_stdio(doors: Doors) -> AsyncIterator[Client]:
    async with agent(doors.home) as client:
        yield client


@pytest.mark.parametrize("door", [over_http, over_stdio])
def test_a_coding_agent(doors: Doors, expected: Json, door: Callable[[Doors], Any]) -> None:
    async def ask() -> tuple[Json, Json, Json]:
        async with door(doors) as client:
            asked = {"question": doors.question, "wait_s": WITHIN_S}
            begun = (await client.call_tool("investigate", asked)).structured_content
            one = {"investigation": begun["investigation"]}
            answer = (await client.call_tool("answer", one)).structured_content
            findings = (await client.call_tool("findings", one)).structured_content
            return begun, answer, findings

    begun, answer, findings = asyncio.run(ask())
    same = ("verdict", "confidence", "headline", "causes", "impact", "missing", "gaps")
    assert {name: answer[name] for name in same} == {name: expected[name] for name in same}
    assert begun["headline"] == expected["headline"]
    told = {one["id"]: one["numbers"] for one in findings["findings"]}
    assert told == {one["id"]: one["numbers"] for one in expected["findings"]}
