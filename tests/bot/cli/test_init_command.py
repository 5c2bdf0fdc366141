"""`faultline init`: what it asks, what it writes, and that it overwrites nothing."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from faultline.bot.settings import load_settings
from tests.bot.cli.terminal import in_terminal
from tests.bot.cli.test_ask_command import kubeconfig

PROGRAM = [sys.executable, "-m", "faultline.bot.cli.main", "init"]
ROOT = Path(__file__).parents[3]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """Of a person whose kubeconfig has one context, `prod`."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("FAULTLINE")}
    return {**kept, "KUBECONFIG": str(kubeconfig(tmp_path)), "PYTHONPATH": str(ROOT)}


def init(folder: Path, environ: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    return subprocess.run(
        [*PROGRAM, *options],
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def secrets_of(folder: Path) -> dict[str, str]:
    lines = (folder / "secrets.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))


def test_a_person_is_asked_five_questions_and_asked_again_where_an_answer_is_wrong(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    with in_terminal(PROGRAM, cwd=folder, env=environ) as (terminal, process):
        terminal.wait_for("1. Prometheus")
        terminal.type("prometheus:9090")
        terminal.wait_for("'prometheus:9090' is no address")
        terminal.type("http://prometheus:9090")
        terminal.wait_for("2. Kubernetes")
        assert "[prod]" in terminal.seen
        terminal.type("")
        terminal.wait_for("3. Alerts from")
        terminal.type("alertmanager, slack")
        terminal.wait_for("4. Slack channel")
        terminal.type("#alerts")
        terminal.wait_for("is no channel's id")
        terminal.type("C0123456789")
        terminal.wait_for("5. Address")
        terminal.type("")
        said = terminal.rest()
        assert process.wait(30) == 0
    assert "Fill in there: FAULTLINE_SLACK__BOT_TOKEN, FAULTLINE_SLACK__APP_TOKEN" in said
    assert said.endswith(
        "Next:\n    set -a; . ./secrets.env; set +a\n    faultline check\n    faultline serve\n"
    )
    settings = load_settings(folder / "faultline.toml", secrets_of(folder))
    assert settings.prometheus.url == "http://prometheus:9090"
    assert settings.kubernetes.context == "prod"
    assert settings.kubernetes.namespaces == ("shop",)
    assert settings.slack.channel == "C0123456789"
    assert len(settings.alertmanager.webhook_tokens[0].get_secret_value()) == 64


def test_no_is_an_answer(tmp_path: Path, environ: dict[str, str]) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    with in_terminal(PROGRAM, cwd=folder, env=environ) as (terminal, process):
        for question, answer in (
            ("1. Prometheus", "n"),
            ("2. Kubernetes", "no"),
            ("3. Alerts from", "No"),
            ("4. Slack channel", "none"),
            ("5. Address", ""),
        ):
            terminal.wait_for(question)
            terminal.type(answer)
        terminal.rest()
        assert process.wait(30) == 0
    settings = load_settings(folder / "faultline.toml", secrets_of(folder))
    assert settings.prometheus.url is None
    assert settings.kubernetes.context is None
    assert settings.slack.channel is None


def test_without_a_terminal_it_takes_options_and_defaults(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    folder = tmp_path / "here"
    options = ["--prometheus", "https://prometheus.example", "--kubernetes", "none"]
    options += ["--alerts", "pagerduty", "--public-url", "https://faultline.example"]
    said = init(folder, environ, *options)
    assert said.returncode == 0, said.stderr
    assert "Fill in there: FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS" in said.stdout
    written = tomllib.loads((folder / "faultline.toml").read_text())
    assert written == {
        "server": {"public_url": "https://faultline.example"},
        "prometheus": {"url": "https://prometheus.example"},
    }
    # Others come to the pages, so they ask for a token.
    assert len(secrets_of(folder)["FAULTLINE_SERVER__ACCESS_TOKEN"]) == 64
    assert secrets_of(folder)["FAULTLINE_CONFIG"] == str(folder / "faultline.toml")


def test_only_its_owner_reads_the_file_of_secrets(tmp_path: Path, environ: dict[str, str]) -> None:
    folder = tmp_path / "here"
    assert init(folder, environ).returncode == 0
    assert stat.S_IMODE((folder / "secrets.env").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["faultline.toml", "secrets.env"])
def test_nothing_is_overwritten_and_nothing_half_done(
    tmp_path: Path, environ: dict[str, str], name: str
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / name).write_text("mine")
    said = init(folder, environ)
    assert said.returncode == 2
    assert said.stderr == f"faultline: {name}: exists, and init overwrites nothing\n"
    assert {one.name: one.read_text() for one in folder.iterdir()} == {name: "mine"}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--prometheus", "nine"], "--prometheus: 'nine' is no address"),
        (["--alerts", "pagerdutty"], "--alerts: 'pagerdutty' is none of pagerduty, "),
        (["--slack-channel", "#alerts"], "--slack-channel: '#alerts' is no channel's id"),
        (["--kubernetes", "staging"], "kubernetes."),
    ],
)
def test_a_wrong_option_writes_nothing(
    tmp_path: Path, environ: dict[str, str], options: list[str], problem: str
) -> None:
    folder = tmp_path / "here"
    said = init(folder, environ, *options)
    assert said.returncode == 2
    assert said.stderr.startswith(f"faultline: {problem}")
    assert list(folder.iterdir()) == []
