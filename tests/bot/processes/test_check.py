"""`faultline check`: one line per part, and what to do about those that do not work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultline.bot.processes.check import all_checks, run_checks
from faultline.bot.settings import Settings, load_settings
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.loopback.bot_process import free_port
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack

TOKEN = "xoxb-good"


@pytest.fixture
def environ(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Settings for everything, against vendors on loopback."""
    slack_url, stop_slack = serve_in_thread(LoopbackSlack(token=TOKEN).app)
    pagerduty_url, stop_pagerduty = serve_in_thread(LoopbackPagerDuty(token="good").app)
    yield {
        "FAULTLINE_STORE__DIRECTORY": str(tmp_path / "state"),
        "FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS": "s",
        "FAULTLINE_PAGERDUTY__API_TOKEN": "good",
        "FAULTLINE_PAGERDUTY__FROM_EMAIL": "faultline@example.com",
        "FAULTLINE_PAGERDUTY__API_URL": pagerduty_url,
        "FAULTLINE_SLACK__BOT_TOKEN": TOKEN,
        "FAULTLINE_SLACK__CHANNEL": "C0INCIDENTS",
        "FAULTLINE_SLACK__API_URL": f"{slack_url}/api",
    }
    stop_slack()
    stop_pagerduty()


def said(environ: dict[str, str], **changes: str) -> dict[str, tuple[bool, str]]:
    checks = asyncio.run(all_checks(settings_of(environ, **changes)))
    return {check.name: (check.ok, check.line) for check in checks}


def settings_of(environ: dict[str, str], **changes: str) -> Settings:
    return load_settings(environ={**environ, **changes})


def test_all_parts_that_work_are_said_to_work(
    environ: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = said(environ)
    assert {name: ok for name, (ok, _) in lines.items() if name != "pagerduty"} == dict.fromkeys(
        ("store", "cases", "inbound", "slack", "replies", "model"), True
    )
    assert "bot" in lines["replies"][1]
    assert lines["model"][1].startswith("none")
    run_checks(settings_of(environ))
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == len(lines) + 1
    assert [line.split()[1] for line in printed[:5]] == [
        "store",
        "cases",
        "inbound",
        "replies",
        "model",
    ]
    connectors = [line.split()[1] for line in printed[5:-1]]
    assert connectors == sorted(connectors)


def test_what_is_watched_is_listed_and_needs_a_source(
    environ: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "faultline.toml"
    file.write_text('[[watch]]\nservice = "checkout"\nevery_minutes = 30\n')
    ok, line = said(environ, FAULTLINE_CONFIG=str(file))["watches"]
    assert not ok
    assert "1 watched: checkout every 30 min; no source of metrics is configured" in line
    here = {"FAULTLINE_CONFIG": str(file), "FAULTLINE_PROMETHEUS__URL": "http://127.0.0.1:9"}
    ok, line = said(environ, **here)["watches"]
    assert (ok, line) == (True, "1 watched: checkout every 30 min")


@pytest.mark.parametrize(
    ("others", "status", "last"),
    [
        ([], 0, "some evidence cannot be read from pagerduty"),
        (
            [Check("store", False, "the database does not answer")],
            1,
            "1 of 2 parts FAIL: store; some evidence cannot be read from pagerduty",
        ),
    ],
)
def test_a_part_of_which_something_is_refused_is_not_simply_ok(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    others: list[Check],
    status: int,
    last: str,
) -> None:
    parts = ReadableParts({"incidents": None, "on-call": "HTTP 404"}, {"on-call": "oncalls.read"})
    unread = Check("pagerduty", True, f"PagerDuty: {parts.words}", parts.unread)

    async def checks(settings: Settings, *, vendors: bool = True) -> list[Check]:
        return [unread, *others]

    monkeypatch.setattr("faultline.bot.processes.check.all_checks", checks)
    assert run_checks(settings_of({})) == status
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == (
        "PART  pagerduty  PagerDuty: incidents can be read; "
        "on-call cannot be read (HTTP 404; needs oncalls.read)"
    )
    assert printed[-1] == last


def test_a_wrong_token_is_named(environ: dict[str, str]) -> None:
    ok, line = said(environ, FAULTLINE_SLACK__BOT_TOKEN="xoxb-wrong")["replies"]
    assert not ok
    assert "the bot token is not valid" in line
    assert "xoxb-wrong" not in line


def test_a_bot_without_an_alert_source_or_a_place_to_answer_is_told_what_to_set(
    tmp_path: Path,
) -> None:
    lines = said({"FAULTLINE_STORE__DIRECTORY": str(tmp_path)})
    assert lines["inbound"][1].startswith("no alert source configured: set FAULTLINE_PAGERDUTY__")
    assert "FAULTLINE_SLACK__BOT_TOKEN" in lines["replies"][1]
    assert run_checks(settings_of({"FAULTLINE_STORE__DIRECTORY": str(tmp_path)})) == 1


def test_notes_without_an_author_are_refused_before_the_first_incident(
    environ: dict[str, str],
) -> None:
    ok, line = said(environ, FAULTLINE_PAGERDUTY__FROM_EMAIL="")["replies"]
    assert not ok
    assert "pagerduty.from_email" in line


def test_a_database_or_a_model_that_is_away_is_one_line(environ: dict[str, str]) -> None:
    away = f"http://127.0.0.1:{free_port()}/v1"
    lines = said(
        environ,
        FAULTLINE_STORE__DATABASE=f"postgresql://x@127.0.0.1:{free_port()}/x",
        FAULTLINE_MODEL__NAME="m",
        FAULTLINE_MODEL__BASE_URL=away,
    )
    ok, line = lines["store"]
    assert not ok
    assert line.startswith("the database does not answer (connection failed")
    assert "\n" not in line
    assert not lines["model"][0]
    assert "\n" not in lines["model"][1]


def test_a_wrong_runbook_is_a_line_of_its_own_and_fails_the_check(
    environ: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.md").write_text("---\nnam: x\n---\n")
    settings = settings_of(environ, FAULTLINE_RUNBOOKS__DIRECTORIES=str(tmp_path))
    assert run_checks(settings) == 1
    *_, one, two, last = capsys.readouterr().out.splitlines()
    assert one.startswith(f"FAIL  runbooks   {tmp_path}/a.md:1: match: is missing")
    assert two.endswith("/a.md:2: nam: no such key; did you mean name?")
    assert last.endswith(" parts FAIL: runbooks")


def test_scopes_that_are_missing_to_know_people_are_named(tmp_path: Path) -> None:
    slack = LoopbackSlack(token=TOKEN)
    slack.scopes = "chat:write,files:write,users:read"
    url, stop = serve_in_thread(slack.app)
    settings = load_settings(
        environ={
            "FAULTLINE_STORE__DIRECTORY": str(tmp_path),
            "FAULTLINE_SLACK__BOT_TOKEN": TOKEN,
            "FAULTLINE_SLACK__SIGNING_SECRETS": "s",
            "FAULTLINE_SLACK__API_URL": f"{url}/api",
        }
    )
    (people,) = [one for one in asyncio.run(all_checks(settings)) if one.name == "people"]
    assert people.ok
    assert [one.split()[2] for one in people.unread] == [
        "im:read",
        "usergroups:read",
        "users:read.email",
    ]
    slack.scopes += ",usergroups:read,users:read.email,im:read"
    (people,) = [one for one in asyncio.run(all_checks(settings)) if one.name == "people"]
    assert people.unread == ()
    stop()
