"""A bot's door for Slack on loopback: real Bolt over real HTTP, a store, case folders, and people
who click."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from pydantic import SecretStr
from starlette.applications import Starlette

from faultline.analysis.case.folder import read_diagnosis, write_evidence, write_json
from faultline.analysis.vocabulary import Diagnosis, Gap, Report, Scope, Window
from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.targets.pagerduty.replies import PagerDutyReplies
from faultline.bot.answer.targets.slack.replies import SlackReplies
from faultline.bot.conversation.slack.listeners import SlackFace
from faultline.bot.intake.accepting import store_accept
from faultline.bot.intake.routes import intake_routes
from faultline.bot.processes.check import all_checks
from faultline.bot.settings import Settings
from faultline.bot.store.store import ReplyTo, Store, StoredInvestigation
from faultline.connectors.shared.contract.base import Check
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack, SlackedMessage
from faultline.loopback.slack_person import SlackPerson
from tests.bot.answer.targets.answers import (
    ALERT_AT,
    a_diagnosis,
    a_gap,
    a_report,
    a_store,
    an_alert,
    settings,
    some_evidence,
)

SECRET = "slack-secret"
CHANNEL = "C0INCIDENTS"


@dataclass
class Room:
    """Everything around the door."""

    slack: LoopbackSlack
    pagerduty: LoopbackPagerDuty
    store: Store
    settings: Settings
    cases: Path
    url: str
    face: SlackFace
    people: dict[str, SlackPerson] = field(default_factory=dict)

    def person(self, name: str = "ann") -> SlackPerson:
        """Somebody."""
        made = SlackPerson(self.slack, self.url, SECRET, id=f"U0{name.upper()}", name=name)
        return self.people.setdefault(name, made)

    def answered(
        self, *, reply_to: ReplyTo | None = None, diagnosis: Diagnosis | None = None, **alert: Any
    ) -> tuple[StoredInvestigation, SlackedMessage]:
        """An investigation that was answered in Slack, and its message."""
        labels = {"fingerprint": f"alert-{time.time_ns()}", **alert.pop("labels", {})}
        accepted = self.store.accept(
            an_alert(labels=labels, **alert), reply_to=reply_to or ReplyTo(slack_channel=CHANNEL)
        )
        name = accepted.investigation_id or ""
        self.write_case(name, diagnosis or a_diagnosis(), a_report(), [a_gap()])
        self.store.start(name)
        self.store.finish(
            name,
            "done",
            verdict="cause_found",
            confidence=0.86,
            headline="payments v2 breaks checkout",
        )
        return self.reply(name)

    def failed(self) -> tuple[StoredInvestigation, SlackedMessage]:
        """An investigation that ended without an answer."""
        accepted = self.store.accept(
            an_alert(labels={"fingerprint": f"f-{time.time_ns()}"}),
            reply_to=ReplyTo(slack_channel=CHANNEL),
        )
        name = accepted.investigation_id or ""
        headline = "The investigation failed: the case store is full"
        self.store.finish(name, "failed", verdict=None, confidence=None, headline=headline)
        return self.reply(name)

    def reply(self, name: str) -> tuple[StoredInvestigation, SlackedMessage]:
        """Post the answer as a worker does."""
        outcome = self.outcome(name)
        asyncio.run(SlackReplies(self.settings, self.store, owner="worker").answer(outcome))
        return outcome.investigation, self.slack.posts[-1]

    def note(self, name: str) -> None:
        """Write to PagerDuty what was asked for, as a worker does."""
        keyed = self.settings.pagerduty.model_copy(update={"api_token": SecretStr("key")})
        of_worker = self.settings.model_copy(update={"pagerduty": keyed})
        replies = PagerDutyReplies(of_worker, self.store, owner="worker")
        outcome = self.outcome(name)
        assert replies.expects_answer(outcome.investigation)
        asyncio.run(replies.answer(outcome))

    def outcome(self, name: str) -> Outcome:
        """How it ended."""
        found = self.store.get(name)
        assert found is not None
        answer = (
            Answer(read_diagnosis(self.cases / name), a_report(), some_evidence(), [a_gap()], None)
            if found.status == "done"
            else None
        )
        return Outcome(found, answer)

    def write_case(self, name: str, diagnosis: Diagnosis, report: Report, gaps: list[Gap]) -> Path:
        """The folder of a case."""
        folder = self.cases / name
        write_json(folder / "alert.json", an_alert())
        window = Window(start=ALERT_AT.replace(hour=9), end=ALERT_AT.replace(hour=11))
        write_json(folder / "scope.json", Scope(incident=window))
        write_evidence(folder, some_evidence(), gaps)
        write_json(folder / "findings.json", diagnosis)
        write_json(folder / "report.json", report)
        return folder

    def said_aside(self) -> list[str]:
        """What single people were shown."""
        return [one.text for one in self.slack.ephemerals]

    def people_did(self, name: str) -> list[str]:
        """The progress lines that name people."""
        return [line.text for line in self.store.progress(name) if line.stage == "people"]


def eventually(condition: Callable[[], Any], what: str = "it", seconds: float = 30) -> Any:
    """Wait until it holds; gives what it gave."""
    ends = time.monotonic() + seconds
    while not (held := condition()):
        assert time.monotonic() < ends, f"{what} did not happen in {seconds:g} s"
        time.sleep(0.01)
    return held


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    """The door, with Slack and PagerDuty on loopback."""
    slack, pagerduty = (
        LoopbackSlack(channels={CHANNEL: "incidents"}, token="xoxb-1"),
        LoopbackPagerDuty(token="key"),
    )
    slack_url, stop_slack = serve_in_thread(slack.app)
    pagerduty_url, stop_pagerduty = serve_in_thread(pagerduty.app)
    configured = settings(
        slack={
            "bot_token": "xoxb-1",
            "signing_secrets": SECRET,
            "channel": CHANNEL,
            "api_url": f"{slack_url}/api",
        },
        # A server has no key of PagerDuty.
        pagerduty={"from_email": "ann@example.com", "api_url": pagerduty_url},
    )
    store = a_store(tmp_path)
    cases = tmp_path / "cases"
    cases.mkdir()

    async def case_path(name: str) -> Path | None:
        return cases / name if (cases / name).is_dir() else None

    async def checks(_: Settings) -> list[Check]:
        return [Check("store", True, "sqlite"), Check("loki", False, "cannot be reached")]

    face = SlackFace(configured, store, case_path, all_checks)
    face.home._all_checks, face.home._every_s = checks, 0.2
    app = Starlette(
        routes=intake_routes(
            configured,
            store_accept(store),
            slack_listeners=[lambda app, _: face.register(app)],
        )
    )
    server = uvicorn.Server(
        uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="warning", lifespan="off", ws="none"
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    eventually(lambda: server.started, "the start")
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield Room(slack, pagerduty, store, configured, cases, url, face)
    server.should_exit = True
    thread.join(timeout=10)
    stop_slack()
    stop_pagerduty()
    store.engine.dispose()
