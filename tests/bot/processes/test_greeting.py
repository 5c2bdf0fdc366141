"""What `faultline serve` says when it begins: on a terminal, and in the log."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from faultline.bot.intake.alert_sources import built_in_sources
from faultline.bot.processes.greeting import Greeting, greeting_of
from faultline.bot.settings import load_settings
from tests.bot.cli.terminal import in_terminal

ROOT = Path(__file__).parents[3]
ADDRESS = "http://127.0.0.1:8080"


def greeting(*, worker: bool = True, config: Path | None = None, **environ: str) -> Greeting:
    settings = load_settings(environ=environ)
    return greeting_of(settings, [ADDRESS], built_in_sources(), worker=worker, config=config)


@pytest.fixture(autouse=True)
def _without_a_settings_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_with_nothing_configured_each_part_says_how_to_get_it() -> None:
    said = greeting().block()
    assert f"Listening  {ADDRESS}" in said
    assert "Sources    none: set prometheus.url" in said
    assert "Replies    none: set FAULTLINE_SLACK__BOT_TOKEN" in said
    assert "Try it     faultline init" in said
    assert "Worker" not in said


def test_what_is_configured_is_named_and_can_be_tried_there() -> None:
    said = greeting(
        FAULTLINE_PROMETHEUS__URL="http://p:9090",
        FAULTLINE_SLACK__BOT_TOKEN="xoxb-1",
        FAULTLINE_SLACK__SIGNING_SECRETS="s",
        FAULTLINE_SLACK__CHANNEL="C0123456789",
        FAULTLINE_MODEL__NAME="m",
    ).block()
    assert "Alerts     Slack events" in said
    assert "Sources    prometheus, slack" in said
    assert "Replies    Slack" in said
    assert "Model      m" in said
    assert "Try it     @faultline investigate" in said


def test_commands_name_the_settings_file_that_was_named(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    said = greeting(worker=False, config=file, FAULTLINE_PROMETHEUS__URL="http://p:9090").block()
    assert f"run faultline worker --config {file}" in said
    assert f'faultline ask "checkout is slow since 14:19" --config {file}' in said


def test_the_log_gets_it_in_one_line_and_no_secret() -> None:
    line = greeting(FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS="very-secret").line()
    assert line == (
        f"listening on {ADDRESS}; alerts: PagerDuty webhooks; sources: pagerduty; replies: none; "
        "model: none"
    )


def test_serve_says_it_on_a_terminal(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "FAULTLINE_SERVER__PORT": "0",
        "FAULTLINE_STORE__DIRECTORY": str(tmp_path / "state"),
    }
    command = [sys.executable, "-m", "faultline.bot.cli.main", "serve", "--no-worker"]
    with in_terminal(command, cwd=tmp_path, env=environ) as (terminal, process):
        terminal.wait_for("Press Ctrl+C to stop.")
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 0
    assert "Listening  http://127.0.0.1:" in terminal.seen
    assert "Listening  http://127.0.0.1:0\n" not in terminal.seen
