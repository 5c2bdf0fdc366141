"""A bot that looks at services by the clock, and at deploys that a pipeline asks about, with a real
Prometheus: what lasts is investigated and posted without any alert from outside."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.connectors.conftest import OpenMetrics, running_prometheus
from tests.scenarios.bot_story import CHANNEL, Story, bot_story
from tests.scenarios.test_ask import environment
from tests.scenarios.test_verify_deploy import PROGRAM, WITHIN_S, add_service, worse

WATCHES = """
[[watch]]
service = "orders"
times = 1

[[watch]]
service = "search"
times = 1
"""
BEGAN = timedelta(minutes=16)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    directory, now = tmp_path_factory.mktemp("watching"), datetime.now(UTC)
    began, series = now - BEGAN, OpenMetrics()
    add_service(series, "orders", 20, worse, at=began, until=now + timedelta(minutes=6))
    add_service(series, "search", 20, at=began, until=now + timedelta(minutes=6))
    file = directory / "faultline.toml"
    file.write_text(WATCHES)
    monitored = directory / "prometheus"
    monitored.mkdir()
    with (
        running_prometheus(monitored, series.finished()) as server,
        bot_story(
            directory,
            None,
            "sqlite",
            FAULTLINE_PROMETHEUS__URL=server.url,
            FAULTLINE_CONFIG=str(file),
        ) as running,
    ):
        yield running


def test_what_a_watch_finds_is_investigated_and_posted_once(story: Story) -> None:
    story.wait_for(lambda: bool(story.answers()), what="an answer that nobody asked for")
    (message,) = story.answers()
    assert message.channel == CHANNEL
    story.wait_for(lambda: len(message.versions) > 2, what="the whole answer")
    assert "orders" in message.text
    assert "search" not in message.text
    assert story.store.count() == 1


def verify(story: Story, folder: Path, service: str) -> tuple[int, dict[str, object]]:
    """Ask the bot, as a pipeline does."""
    since = (datetime.now(UTC) - BEGAN).isoformat()
    done = subprocess.run(
        [*PROGRAM, service, "--since", since, "--bot", story.bot.url, "--json"],
        cwd=folder,
        env={**environment(folder), "NO_PROXY": os.environ.get("NO_PROXY", "127.0.0.1")},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode in (0, 4), done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_pipeline_that_reaches_only_the_bot_gets_the_same_verdicts(
    story: Story, tmp_path: Path
) -> None:
    code, verdict = verify(story, tmp_path, "orders")
    assert (code, verdict["decision"]) == (4, "roll_back")
    code, verdict = verify(story, tmp_path, "search")
    assert (code, verdict["decision"]) == (0, "go"), verdict["headline"]


def test_a_bot_that_is_not_there_is_no_verdict(tmp_path: Path) -> None:
    """A pipeline must not take a failure for a roll-back."""
    done = subprocess.run(
        [*PROGRAM, "orders", "--since", "1h", "--bot", "http://127.0.0.1:9"],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
