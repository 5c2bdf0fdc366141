"""A reply target of another package, the only one that is configured: the whole way through the
real bot.

The target is the page's own example, installed as a wheel beside Faultline.
"""

from __future__ import annotations

import hashlib
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from faultline.bot.store.connections import connect
from faultline.bot.store.store import Store
from faultline.loopback.bot_process import BotProcess
from faultline.loopback.preloaded import run_preloaded
from faultline.loopback.server import serve_in_thread
from tests.docs.test_extending import example
from tests.scenarios.small_case import write_small_case

ROOT = Path(__file__).resolve().parents[2]
TOKEN, CHANNEL, ALERTS_TOKEN = "rocketchat-token", "town-square", "am-token"


@dataclass
class FakePost:
    """One message, with every text that it has had."""

    id: str
    channel: str
    versions: list[str]


@dataclass
class FakeRocketChat:
    """Takes messages as Rocket.Chat does (developer.rocket.chat/apidocs)."""

    posts: list[FakePost] = field(default_factory=list)

    @property
    def app(self) -> Starlette:
        """The server."""
        return Starlette(
            routes=[
                Route("/api/v1/me", self._me),
                Route("/api/v1/chat.sendMessage", self._send, methods=["POST"]),
                Route("/api/v1/chat.update", self._update, methods=["POST"]),
                Route("/api/v1/channels.history", self._history),
            ]
        )

    def named(self, name: str) -> list[FakePost]:
        """The messages with that id."""
        return [one for one in self.posts if one.id == name]

    async def _me(self, request: Request) -> Response:
        if request.headers.get("x-auth-token") != TOKEN:
            return JSONResponse({"status": "error"}, 401)
        return JSONResponse({"username": "faultline"})

    async def _send(self, request: Request) -> Response:
        message = (await request.json())["message"]
        self.posts.append(FakePost(message["_id"], message["rid"], [message["msg"]]))
        return JSONResponse({"success": True, "message": message})

    async def _update(self, request: Request) -> Response:
        body = await request.json()
        [post] = self.named(body["msgId"])
        post.versions.append(body["text"])
        return JSONResponse({"success": True})

    async def _history(self, request: Request) -> Response:
        there = [one for one in self.posts if one.channel == request.query_params["roomId"]]
        return JSONResponse({"messages": [{"_id": one.id} for one in there]})


@dataclass
class Town:
    """The bot with that target alone."""

    bot: BotProcess
    rocketchat: FakeRocketChat
    store: Store
    settings: Path

    def alert(self, service: str, title: str) -> str:
        """Alertmanager fires; the id of the investigation that takes it."""
        labels = {"alertname": title, "service": service, "severity": "warning"}
        fired = {
            "status": "firing",
            "labels": labels,
            "annotations": {},
            "startsAt": datetime.now(UTC).isoformat(),
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "",
            "fingerprint": f"{service}-{title}",
        }
        body = {"version": "4", "status": "firing", "receiver": "f", "groupKey": title}
        body |= {"groupLabels": {}, "commonLabels": labels, "commonAnnotations": {}}
        body |= {"externalURL": "http://am.example", "alerts": [fired]}  # type: ignore[dict-item]
        answer = httpx.post(
            f"{self.bot.url}/webhooks/alertmanager",
            json=body,
            headers={"authorization": f"Bearer {ALERTS_TOKEN}"},
            timeout=10,
        )
        assert answer.status_code == 202, answer.text
        return self.store.latest(1)[0].id

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of the same bot."""
        return run_preloaded(arguments, env=self.bot.environ, cwd=self.settings.parent)


def installed(folder: Path) -> Path:
    """Build a wheel of the page's example and unpack it, which is all that installing is."""
    info = "faultline_rocketchat-1.2.dist-info"
    files = {
        "faultline_rocketchat.py": example("A reply target"),
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: faultline-rocketchat\nVersion: 1.2\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
        f"{info}/entry_points.txt": (
            "[faultline.reply_targets]\nrocketchat = faultline_rocketchat:TARGET\n"
        ),
    }
    wheel = folder / "faultline_rocketchat-1.2-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    packages = folder / "packages"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    return packages


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """One bot for the stories of this file."""
    folder = tmp_path_factory.mktemp("town")
    rocketchat = FakeRocketChat()
    url, stop = serve_in_thread(rocketchat.app)
    settings = folder / "faultline.toml"
    settings.write_text(
        f'[rocketchat]\nurl = "{url}"\nchannel = "{CHANNEL}"\n'
        '[services.checkout]\ndepends_on = ["payments"]\n[services.payments]\n'
    )
    environ = {
        "PYTHONPATH": f"{installed(folder)}:{ROOT}",
        "FAULTLINE_CONFIG": str(settings),
        "FAULTLINE_ROCKETCHAT__TOKEN": TOKEN,
        "FAULTLINE_ALERTMANAGER__WEBHOOK_TOKENS": ALERTS_TOKEN,
        "FAULTLINE_RECORDED__CASE": str(write_small_case(folder / "case")),
        "FAULTLINE_WORKER__POLLING_INTERVAL_S": "0.5",
        "FAULTLINE_WORKER__GRACE_S": "2",
        "FAULTLINE_WORKER__NICENESS": "0",
    }
    bot = BotProcess(folder, environ, preloaded=True)
    bot.start()
    engine = connect(f"sqlite:///{folder}/state/faultline.sqlite")
    try:
        yield Town(bot, rocketchat, Store(engine), settings)
    finally:
        bot.stop()
        engine.dispose()
        stop()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_it_is_announced_answered_edited_checked_and_never_posted_twice(town: Town) -> None:
    name = town.alert("checkout", "p99 above 800 ms")
    own = hashlib.sha256(f"{name}:rocketchat".encode()).hexdigest()[:17]
    wait_for(lambda: bool(town.rocketchat.named(own)), "a first message")
    [post] = town.rocketchat.named(own)
    assert post.channel == CHANNEL
    assert post.versions[0].startswith("Investigating: p99 above 800 ms")
    wait_for(lambda: any("Confidence:" in text for text in post.versions), "an answer")
    assert f"{town.bot.url}/investigations/{name}" in post.versions[-1]

    assert town.alert("payments", "errors") == name, "the later alert joined it"
    wait_for(lambda: "Also part of it" in post.versions[-1], "the message with the later alert")
    assert "errors" in post.versions[-1]

    before = len(post.versions)
    # As after a restore: the store has forgotten that it posted.
    with town.store.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM posts")
    # A worker may still be at the message: it says so, and does not take it twice.
    wait_for(lambda: town.command("requeue", name).returncode == 0, "requeued")
    wait_for(lambda: len(post.versions) > before, "the message found and edited")
    assert town.rocketchat.named(own) == [post]

    checked = town.command("check")
    [line] = [one for one in checked.stdout.splitlines() if " replies " in one]
    assert line.startswith("ok"), checked.stdout
    assert line.endswith("Rocket.Chat; Rocket.Chat: bot faultline")
    story = town.command("doctor", name).stdout
    assert f"rocketchat: {post.id}" in story
