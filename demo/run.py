"""`faultline demo`: one recorded incident through the production path, on this machine, with no
account and no key.

The bot runs as it does in production, as a separate process. Slack and PagerDuty stand on
loopback; the evidence comes from a recording of a real training job. Nothing else differs.
"""

from __future__ import annotations

import json
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.errors import FaultlineError
from faultline.bot.answer.targets.slack.message import SlackMessage
from faultline.bot.answer.targets.slack.preview import to_terminal
from faultline.loopback.bot_process import BotProcess, incident_event, signed_webhook
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack

CASE = "slow-rank"
INCIDENT = "PDEMO1"
CHANNEL = "C0INCIDENTS"
SECRET = "demo-webhook-secret"
ANSWER_WITHIN_S = 120.0


@dataclass(frozen=True)
class Vendors:
    """Slack and PagerDuty on loopback."""

    slack: LoopbackSlack
    pagerduty: LoopbackPagerDuty
    slack_url: str
    pagerduty_url: str


@dataclass(frozen=True)
class Played:
    """The incident has been answered; the bot still runs."""

    vendors: Vendors
    page: str


def run_demo(*, stay: bool, port: int = 0) -> int:
    """Run it; with `stay` the page remains open until Ctrl-C. Returns the exit code."""
    console = Console(highlight=False)
    with played(console, port=port) as incident:
        if stay:
            page = (incident.page, "bold cyan")
            console.print(
                Text.assemble("The investigation's page: ", page, "   Ctrl-C ends the demo")
            )
            stop = threading.Event()
            for sign in (signal.SIGINT, signal.SIGTERM):
                signal.signal(sign, lambda *_: stop.set())
            while not stop.wait(0.5):
                pass
    return 0


@contextmanager
def played(console: Console, *, port: int = 0) -> Iterator[Played]:
    """Start everything, fire the alert, show what happens; yields once the answer is there."""
    case = read_case(recorded_cases() / CASE)
    with (
        tempfile.TemporaryDirectory(prefix="faultline-demo-") as scratch,
        _vendors(case) as vendors,
    ):
        console.print(Text("Starting the bot on loopback ...", style="dim"))
        with BotProcess(Path(scratch), _settings(case, vendors), port=port) as bot:
            yield Played(vendors, _investigate(console, bot, vendors, case))


def recorded_cases() -> Path:
    """The folder of recorded incidents."""
    return Path(__file__).parent / "cases"


def _investigate(console: Console, bot: BotProcess, vendors: Vendors, case: Case) -> str:
    alert = case.alert
    console.print(Text.assemble("PagerDuty fires: ", (alert.title, "bold")))
    event = incident_event(
        incident=INCIDENT,
        title=alert.title,
        service=alert.service or "",
        at=alert.started_at,
        base="https://acme.pagerduty.com",
    )
    body, headers = signed_webhook(SECRET, event)
    began = time.monotonic()
    answer = httpx.post(f"{bot.url}/webhooks/pagerduty", content=body, headers=headers, timeout=10)
    acknowledged = time.monotonic() - began
    # 202 is what the production route answers: anything else is not the demo's incident.
    if answer.status_code != 202:
        raise FaultlineError(f"the bot refused its own webhook ({answer.status_code})")
    investigation = answer.json()["investigation_id"]
    console.print(
        Text(
            f"  signed webhook acknowledged in {acknowledged * 1000:.0f} ms as {investigation}",
            style="dim",
        )
    )
    _show_progress(console, bot, investigation)
    _wait_for_replies(vendors)
    took = time.monotonic() - began
    post = vendors.slack.posts[0]
    message = SlackMessage(post.text, tuple(post.blocks))
    console.print(
        Panel(
            to_terminal(message), title="Slack #incidents", title_align="left", border_style="cyan"
        )
    )
    note = Text(vendors.pagerduty.notes[0].content)
    console.print(
        Panel(note, title=f"PagerDuty note on {INCIDENT}", title_align="left", border_style="green")
    )
    console.print(Text(f"From alert to answer: {took:.1f} s", style="dim"))
    return f"{bot.url}/investigations/{investigation}"


def _show_progress(console: Console, bot: BotProcess, investigation: str) -> None:
    url = f"{bot.url}/investigations/{investigation}/events"
    with httpx.stream("GET", url, timeout=httpx.Timeout(10, read=ANSWER_WITHIN_S)) as stream:
        for name, data in _server_sent_events(stream.iter_lines()):
            if name == "progress":
                console.print(Text(f"  {data['at'][11:19]}  {data['text']}", style="dim"))
            elif name == "done":
                return


def _server_sent_events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    name, data = "message", ""
    for line in lines:
        field, _, value = line.partition(":")
        if field == "event":
            name = value.strip()
        elif field == "data":
            data += value.strip()
        # A blank line ends an event.
        elif not line and data:
            yield name, json.loads(data)
            name, data = "message", ""


def _wait_for_replies(vendors: Vendors) -> None:
    deadline = time.monotonic() + ANSWER_WITHIN_S
    # The chart follows the first message, and the note may come before it.
    while time.monotonic() < deadline:
        chart_shown = any(
            block.get("type") == "image" for post in vendors.slack.posts for block in post.blocks
        )
        if chart_shown and vendors.pagerduty.notes:
            return
        time.sleep(0.05)
    raise FaultlineError(f"no answer was posted within {ANSWER_WITHIN_S:g} s")


@contextmanager
def _vendors(case: Case) -> Iterator[Vendors]:
    slack = LoopbackSlack(channels={CHANNEL: "incidents"})
    pagerduty = LoopbackPagerDuty()
    alert = {
        "id": "A1",
        "type": "alert",
        "summary": case.alert.title,
        "body": {"details": dict(_details(case))},
    }
    pagerduty.open_incident(INCIDENT, case.alert.title, case.alert.service or "", alerts=[alert])
    slack_url, stop_slack = serve_in_thread(slack.app)
    pagerduty_url, stop_pagerduty = serve_in_thread(pagerduty.app)
    try:
        yield Vendors(slack, pagerduty, slack_url, pagerduty_url)
    finally:
        stop_slack()
        stop_pagerduty()


def _details(case: Case) -> Mapping[str, str]:
    alert = case.alert
    details = {"signal": alert.signal, "system": alert.system, "severity": alert.severity}
    return {**alert.labels, **{k: v for k, v in details.items() if v}}


def _settings(case: Case, vendors: Vendors) -> dict[str, str]:
    return {
        "FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS": SECRET,
        "FAULTLINE_PAGERDUTY__API_TOKEN": "demo",
        "FAULTLINE_PAGERDUTY__FROM_EMAIL": "faultline@example.com",
        "FAULTLINE_PAGERDUTY__API_URL": vendors.pagerduty_url,
        "FAULTLINE_SLACK__BOT_TOKEN": "xoxb-demo",
        "FAULTLINE_SLACK__SIGNING_SECRETS": SECRET,
        "FAULTLINE_SLACK__CHANNEL": CHANNEL,
        "FAULTLINE_SLACK__API_URL": f"{vendors.slack_url}/api",
        "FAULTLINE_RECORDED__CASE": str(case.path.absolute()),
        # The recorded incident grows older, and an old alert starts nothing.
        "FAULTLINE_ALERTS__OLDEST_DAYS": "36500",
    }
