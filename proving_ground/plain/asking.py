"""Asks the product: through what `faultline ask` calls, or by a webhook to `faultline serve`."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.replay import as_json, replay
from faultline.bot.cli.ask_command import AskOptions, settings_for
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.incident_requests import IncidentRequest, arrival_of
from faultline.bot.intake.sources.alertmanager import read_alertmanager
from faultline.bot.processes.local_bot import local_bot
from faultline.bot.settings import ENV_PREFIX, Settings
from faultline.bot.store.changes import ReportedChange, ReportedChanges
from faultline.bot.store.store import Arrival
from faultline.loopback.bot_process import BotProcess
from faultline.loopback.preloaded import LOADED
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack

WITHIN_S = 300.0
TOKEN = "plain-rig"  # noqa: S105
CHANNEL = "C0INCIDENTS"
DOORS = ("alert", "ask", "serve")


@dataclass(frozen=True)
class Asking:
    """What the product is asked, and through which door."""

    door: str
    prometheus: str
    webhook: Mapping[str, Any]
    question: str
    calls: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """What each service calls, for `depends_on`."""
    changes: Sequence[ReportedChange] = ()
    grafana: str = ""


def ask_product(asking: Asking, folder: Path) -> dict[str, Any]:
    """The answer as JSON, with the seconds that it took. Raises FaultlineError."""
    write_settings(asking, folder)
    if asking.door == "serve":
        return ask_server(asking, folder)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*LOADED, __name__])
    process = context.Process(target=ask_here, args=(asking, folder))
    process.start()
    process.join(WITHIN_S)
    if process.is_alive():
        process.kill()
    answer = folder / "answer.json"
    if not answer.exists():
        reason = folder / "failed.txt"
        raise FaultlineError(reason.read_text() if reason.exists() else "no answer came")
    result: dict[str, Any] = json.loads(answer.read_text())
    return result


def write_settings(asking: Asking, folder: Path) -> None:
    """The file that an operator would write."""
    lines = [f'[prometheus]\nurl = "{asking.prometheus}"']
    if asking.grafana:
        lines.append(f'[grafana]\nurl = "{asking.grafana}"')
    for service, callees in asking.calls.items():
        lines.append(f'[services."{service}"]\ndepends_on = {json.dumps(list(callees))}')
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "faultline.toml").write_text("\n".join(lines) + "\n")


def ask_here(asking: Asking, folder: Path) -> None:
    """In a fork: investigate, and leave the answer in a file."""
    for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
        del os.environ[name]
    os.chdir(folder)
    try:
        settings = settings_for(AskOptions(config=folder / "faultline.toml", kubernetes=False), {})
        now = datetime.now(UTC)
        arrival = arrival_for(asking, settings, now)
        began = time.monotonic()
        with local_bot(settings, folder / "state") as bot:
            ReportedChanges(bot.store.engine).report(asking.changes)
            investigation = bot.investigate(arrival, lambda _: None)
            took_s = time.monotonic() - began
        write_answer(folder / "state" / "cases" / investigation.id, folder, took_s)
    # The parent reads why there is no answer.
    except Exception:  # noqa: BLE001
        (folder / "failed.txt").write_text(traceback.format_exc())


def arrival_for(asking: Asking, settings: Settings, now: datetime) -> Arrival:
    """The alert or the question, as the product's own readers take it."""
    if asking.door == "ask":
        request = IncidentRequest(text=asking.question, key=TOKEN, door="terminal")
        return arrival_of(request, settings, now)
    arrivals = read_alertmanager(json.dumps(asking.webhook).encode(), settings, now=now)
    if isinstance(arrivals, Ignored):
        raise FaultlineError(arrivals.reason)
    return arrivals[0]


def write_answer(case: Path, folder: Path, took_s: float) -> None:
    """Leave the answer beside its case."""
    answer = as_json(replay(case)) | {"took_s": round(took_s, 2)}
    shutil.copytree(case, folder / "case", dirs_exist_ok=True)
    # The reader sees the whole file or none.
    part = folder / "answer.part"
    part.write_text(json.dumps(answer, ensure_ascii=False))
    part.rename(folder / "answer.json")


def ask_server(asking: Asking, folder: Path) -> dict[str, Any]:
    """Post the webhook to `faultline serve`, and wait for its answer in Slack."""
    with running_server(asking, folder) as server:
        began = time.monotonic()
        server.post(asking.webhook)
        (case,) = await_case(folder / "state" / "cases", began + WITHIN_S)
        write_answer(case, folder, time.monotonic() - began)
    messages = [message.text for message in server.slack.posts]
    (folder / "slack.txt").write_text("\n\n".join(messages))
    answer: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    return answer | {"slack": messages}


@dataclass(frozen=True)
class RunningServer:
    """`faultline serve` with Slack on loopback."""

    bot: BotProcess
    slack: LoopbackSlack

    def post(self, webhook: Mapping[str, Any]) -> None:
        """Send one notification, as Alertmanager does."""
        self._post("/webhooks/alertmanager", webhook)

    def report(self, change: ReportedChange) -> None:
        """Report a change, as whoever made it does."""
        report = {
            "id": change.id,
            "time": change.at.isoformat(),
            "service": change.service,
            "kind": change.kind,
            "title": change.title,
        }
        self._post("/changes", report)

    def _post(self, path: str, body: Mapping[str, Any]) -> None:
        headers = {"authorization": f"Bearer {TOKEN}"}
        httpx.post(f"{self.bot.url}{path}", json=body, headers=headers).raise_for_status()


@contextmanager
def running_server(asking: Asking, folder: Path) -> Iterator[RunningServer]:
    """The bot on the settings in `folder`, with the changes reported to it."""
    slack = LoopbackSlack(channels={CHANNEL: "incidents"})
    slack_url, stop_slack = serve_in_thread(slack.app)
    environ = {
        f"{ENV_PREFIX}ALERTMANAGER__WEBHOOK_TOKENS": TOKEN,
        f"{ENV_PREFIX}CHANGES__TOKENS": TOKEN,
        f"{ENV_PREFIX}SLACK__BOT_TOKEN": "xoxb-plain",
        f"{ENV_PREFIX}SLACK__SIGNING_SECRETS": TOKEN,
        f"{ENV_PREFIX}SLACK__CHANNEL": CHANNEL,
        f"{ENV_PREFIX}SLACK__API_URL": f"{slack_url}/api",
        f"{ENV_PREFIX}WORKER__NICENESS": "0",
    }
    try:
        with BotProcess(folder, environ, preloaded=True, log=folder / "bot.log") as bot:
            server = RunningServer(bot, slack)
            for change in asking.changes:
                server.report(change)
            yield server
    finally:
        stop_slack()


def await_case(cases: Path, deadline: float) -> list[Path]:
    """The case folder of the answer. Raises FaultlineError."""
    while time.monotonic() < deadline:
        answered = list(cases.glob("*/answered.json"))
        if answered:
            # The answer stands a moment before the last files of its case do.
            time.sleep(1)
            return [answered[0].parent]
        time.sleep(0.2)
    raise FaultlineError(f"no answer within {WITHIN_S:g} s")


@contextmanager
def running_grafana(changes: Sequence[ReportedChange]) -> Iterator[str]:
    """A Grafana on loopback that holds annotations; gives its address."""
    entries = []
    for number, change in enumerate(changes, 1):
        tags = [change.kind, f"service:{change.service}"]
        at = round(change.at.timestamp() * 1000)
        entries.append(
            {"id": number, "time": at, "text": change.title, "tags": tags, "login": "ci"}
        )

    async def annotations(request: Request) -> JSONResponse:
        wants_alerts = request.query_params.get("type") == "alert"
        return JSONResponse([] if wants_alerts else entries)

    async def rules(request: Request) -> JSONResponse:
        return JSONResponse({"status": "success", "data": {"groups": []}})

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"database": "ok", "version": "11.6.0"})

    routes = [
        Route("/api/annotations", annotations),
        Route("/api/prometheus/grafana/api/v1/rules", rules),
        Route("/api/health", health),
    ]
    url, stop = serve_in_thread(Starlette(routes=routes))
    try:
        yield url
    finally:
        stop()
