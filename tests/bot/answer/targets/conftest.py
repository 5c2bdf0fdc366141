"""The vendors on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from faultline.bot.store.store import Store
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack
from tests.bot.answer.targets.answers import a_store


@dataclass(frozen=True)
class SlackAt:
    """Slack on loopback and its API's URL."""

    slack: LoopbackSlack
    api_url: str


@dataclass(frozen=True)
class PagerDutyAt:
    """PagerDuty on loopback and its URL."""

    pagerduty: LoopbackPagerDuty
    url: str


@pytest.fixture
def slack_at() -> Iterator[SlackAt]:
    slack = LoopbackSlack(token="xoxb-1")
    url, stop = serve_in_thread(slack.app)
    yield SlackAt(slack, f"{url}/api")
    stop()


@pytest.fixture
def pagerduty_at() -> Iterator[PagerDutyAt]:
    pagerduty = LoopbackPagerDuty(token="key")
    url, stop = serve_in_thread(pagerduty.app)
    yield PagerDutyAt(pagerduty, url)
    stop()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return a_store(tmp_path)
