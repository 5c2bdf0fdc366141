"""An incident with a secret in every field is answered at every reply target: none of them gets
one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Route

from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.replay import replay
from faultline.bot.answer.targets.target_type import ReplyTargets
from faultline.bot.policy.values import ReplyTo
from faultline.bot.settings import Settings
from faultline.bot.settings.reply_targets import BUILT_IN
from faultline.bot.store.follow_ups import TicketRequests
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack
from tests.bot.answer.targets.answers import a_store
from tests.bot.answer.targets.answers import settings as settings_with
from tests.bot.answer.targets.fake_chats import FakeChats
from tests.bot.answer.targets.fake_code_hosts import FakeCodeHosts
from tests.bot.answer.targets.fake_trackers import FakeTrackers
from tests.bot.answer.targets.test_answer_webhook import SECRET as SIGNING_KEY
from tests.bot.answer.targets.test_answer_webhook import Receiver
from tests.bot.answer.targets.test_mail import PASSWORD, MailServer
from tests.bot.answer.targets.test_mail import started as mail_server
from tests.hostile.test_secrets_in_every_field import folder, leaked, planted

__all__ = ["folder"]

CHANNEL, INCIDENT = "C0INCIDENTS", "PABC123"


@dataclass
class Everywhere:
    """All places at once, on loopback."""

    slack: LoopbackSlack
    pagerduty: LoopbackPagerDuty
    chats: FakeChats
    trackers: dict[str, FakeTrackers]
    hosts: dict[str, FakeCodeHosts]
    mail: MailServer
    receiver: Receiver
    settings: Settings

    def got(self, name: str) -> str:
        """Everything that a target was sent."""
        if name == "slack":
            messages = [[m.versions, m.metadata] for m in self.slack.messages]
            return json.dumps(messages, default=str)
        if name == "pagerduty":
            return repr(self.pagerduty.incidents[INCIDENT].notes)
        if name == "answer_webhook":
            return json.dumps(list(self.receiver.kept.values()))
        if name == "email":
            return "".join(one.as_string() for one in self.mail.mailbox.messages)
        if name in self.hosts:
            return json.dumps(self.hosts[name].requests, default=str)
        places = {"msteams": "/teams", "mattermost": "/mm", "discord": "/hooks"}
        if name in places:
            given = [one for one in self.chats.requests if one[1].startswith(places[name])]
            return json.dumps(given, default=str)
        return json.dumps(self.trackers[name].requests, default=str)


@pytest.fixture
def everywhere(tmp_path: Path) -> Iterator[Everywhere]:
    slack = LoopbackSlack(token="xoxb-1", channels={CHANNEL: "incidents"})
    pagerduty = LoopbackPagerDuty(token="key")
    pagerduty.open_incident(INCIDENT, "web is slow", "web")
    chats, receiver = FakeChats(), Receiver()
    trackers = {name: FakeTrackers() for name in BUILT_IN if name.endswith("_issues")}
    hosts = {name: FakeCodeHosts() for name in BUILT_IN if name.endswith("_reverts")}
    with ExitStack() as stack:
        mail, controller = mail_server(tmp_path)
        stack.callback(controller.stop)

        def served(app: Starlette) -> str:
            url, stop = serve_in_thread(app)
            stack.callback(stop)
            return url

        route = Route("/in", receiver.take, methods=["POST"])
        receiver.url = f"{served(Starlette(routes=[route]))}/in"
        slack_url, pagerduty_url = served(slack.app), served(pagerduty.app)
        chats.url = served(chats.app)
        sections: dict[str, Any] = {
            "slack": {"bot_token": "xoxb-1", "channel": CHANNEL, "api_url": f"{slack_url}/api"},
            "pagerduty": {"api_token": "key", "from_email": "f@example.com"}
            | {"api_url": pagerduty_url},
            "answer_webhook": {"url": receiver.url, "secret": SIGNING_KEY},
        }
        for name, tracker in trackers.items():
            tracker.url = served(tracker.app)
            sections[name] = tracker.sections()[name]
        for name, host in hosts.items():
            host.url = served(host.app)
            sections[name] = host.sections()[name]
        sections["email"] = mail.section() | {"password": PASSWORD}
        given = settings_with(**sections, **chats.sections())
        yield Everywhere(slack, pagerduty, chats, trackers, hosts, mail, receiver, given)


def answered(store: Store, alert: Alert, hosts: dict[str, FakeCodeHosts]) -> StoredInvestigation:
    """As the store keeps it, with a ticket wished for in every tracker, and a revert everywhere."""
    accepted = store.accept(alert, reply_to=ReplyTo(pagerduty_incident=INCIDENT))
    name = accepted.investigation_id or ""
    store.start(name)
    headline = f"api broke it {planted('logs.message')}"
    store.finish(name, "done", verdict="cause_found", confidence=0.9, headline=headline)
    for target in BUILT_IN:
        if target.endswith("_issues"):
            TicketRequests(store.engine).ask(name, target)
    for target, host in hosts.items():
        TicketRequests(store.engine).ask(name, target, host.link(target))
    found = store.get(name)
    assert found is not None
    return found


def test_no_reply_target_gets_one(everywhere: Everywhere, folder: Path, tmp_path: Path) -> None:
    replayed = replay(folder)
    case = replayed.case
    store = a_store(tmp_path)
    alert = Alert(
        source="pagerduty",
        title=f"web latency above 1 s {planted('alert.title')}",
        started_at=case.alert.started_at,
        service="web",
        severity="critical",
        summary=planted("alert.summary"),
        labels={"note": planted("alert.labels")},
    )
    investigation = answered(store, alert, everywhere.hosts)
    targets = ReplyTargets(everywhere.settings, store, owner="w")
    assert {one.name for one in targets} == set(BUILT_IN)
    answer = Answer(replayed.diagnosis, replayed.report, case.evidence, case.gaps, None)

    async def story() -> None:
        for target in targets:
            await target.announce(investigation)
            await target.preview(Outcome(investigation, answer))
            await target.answer(Outcome(investigation, answer))

    asyncio.run(story())
    for name in BUILT_IN:
        got = everywhere.got(name)
        assert leaked(got) == [], name
        assert "SECRET" in got, f"{name} got the alert's title, which held one"
