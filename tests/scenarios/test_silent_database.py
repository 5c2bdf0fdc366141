"""A database host that dies without a word, and a web process that is killed meanwhile: each alert
is taken at once, and is one investigation soon after the database's return."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from faultline.bot.store.connections import connect
from faultline.bot.store.store import Store
from faultline.loopback.bot_process import BotProcess, incident_event, signed_webhook
from tests.black_hole import BlackHole

SECRET = "s"
ABOUT_A_SECOND = 2.0
"""One, and what a busy machine adds to it."""
RETURN_S = 20.0


class Sender:
    """PagerDuty, with as many incidents as are asked for."""

    def __init__(self, bot: BotProcess) -> None:
        self.bot = bot
        self.sent: list[tuple[bytes, dict[str, str]]] = []

    def incidents(self, *names: str) -> list[float]:
        """Send them; how long each answer took."""
        took = []
        for name in names:
            event = incident_event(
                incident=name,
                title=f"{name} is down",
                service=name,
                at=datetime.now(UTC),
                base="https://x.pagerduty.com",
            )
            self.sent.append(signed_webhook(SECRET, event, delivery=name))
            took.append(self.send(*self.sent[-1]))
        return took

    def again(self) -> None:
        """All of them once more, as a sender does that saw no answer."""
        for one in self.sent:
            self.send(*one)

    def send(self, body: bytes, headers: dict[str, str]) -> float:
        began = time.monotonic()
        address = f"{self.bot.url}/webhooks/pagerduty"
        answer = httpx.post(address, content=body, headers=headers, timeout=10, trust_env=False)
        assert answer.status_code == 202, answer.text
        return time.monotonic() - began


@pytest.fixture
def black_hole(postgres_url: str) -> Iterator[BlackHole]:
    found = BlackHole(postgres_url)
    yield found
    found.close()


def test_a_silent_database_and_a_killed_process_lose_and_double_nothing(
    black_hole: BlackHole, postgres_url: str, tmp_path: Path
) -> None:
    environ = {
        "FAULTLINE_STORE__DATABASE": black_hole.url,
        "FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS": SECRET,
        "FAULTLINE_ALERTS__GROUPS": "off",
    }
    bot = BotProcess(tmp_path, environ, serve=("--no-worker",), preloaded=True)
    sender = Sender(bot)
    store = Store(connect(postgres_url))
    with bot:
        sender.incidents("before")
        black_hole.fall_silent()
        first, *others = sender.incidents(*(f"i{n}" for n in range(10)))
        assert first < ABOUT_A_SECOND
        assert max(others) < 1
        sender.again()
        deadline = time.monotonic() + 30
        while httpx.get(f"{bot.url}/readyz", timeout=10).status_code == 200:
            assert time.monotonic() < deadline, "nothing is stored, and it says that all is well"
            time.sleep(0.2)
        assert httpx.get(f"{bot.url}/readyz?for=alerts", timeout=10).text == "ready\n"
        bot.kill()
        bot.start()
        assert max(sender.incidents("after")) < ABOUT_A_SECOND
        assert {one.alert.title for one in store.latest()} == {"before is down"}
        black_hole.pass_again()
        deadline = time.monotonic() + RETURN_S
        while store.count() < 12 or list((tmp_path / "state" / "spool").glob("*.spool")):
            assert time.monotonic() < deadline, f"{store.count()} of 12 are stored"
            time.sleep(0.1)
        sender.again()
        assert store.count() == 12
        assert all(one.repeats == 0 for one in store.latest())
        assert httpx.get(f"{bot.url}/readyz", timeout=10).text == "ready\n"
    store.engine.dispose()
