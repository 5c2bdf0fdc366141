"""One bot in two Slack workspaces and with two PagerDuty accounts, over real HTTP.

Both workspaces have the same channel id, and messages with the same ts: what is posted in one must
not show in the other. Each refuses the token of the other.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from faultline.bot.store.connections import connect
from faultline.bot.store.store import Store
from faultline.loopback.bot_process import BotProcess, incident_event, signed_webhook
from faultline.loopback.pagerduty import LoopbackPagerDuty
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import BOT_USER, LoopbackSlack, SlackedMessage
from faultline.loopback.slack_person import SlackPerson
from tests.databases import make_tables
from tests.scenarios.small_case import write_small_case

CHANNEL, WATCHED, DIRECT = "C0INCIDENTS", "C0ALERTS", "D0ANN"
INCIDENT = "PSAME01"
NAMES = ("eu", "us")
SERVICES = {"eu": "cart", "us": "payments"}
"""Beside checkout, which both know."""
TITLE = "[FIRING:1] checkout latency is high"

numbers = itertools.count(1)


@dataclass
class Workspace:
    """One of the two, with the PagerDuty account of the same people."""

    name: str
    slack: LoopbackSlack
    pagerduty: LoopbackPagerDuty
    person: SlackPerson

    def alert(self) -> SlackedMessage:
        """Another bot posts an alert in the watched channel."""
        ts = self.slack.say(WATCHED, TITLE, user="U0MONITOR")
        event = {
            "type": "message",
            "subtype": "bot_message",
            "bot_id": "B0MONITOR",
            "text": TITLE,
            "ts": ts,
            "channel": WATCHED,
            "channel_type": "channel",
        }
        assert self.person.event(event).status_code == 200
        return self.slack.messages[-1]

    def ask(self, thread: SlackedMessage, text: str) -> str:
        """A person mentions the bot in a thread; gives the ts."""
        said = f"<@{BOT_USER}> {text}"
        ts = self.slack.say(thread.channel, said, thread_ts=thread.ts, user=self.person.id)
        event = {
            "type": "app_mention",
            "user": self.person.id,
            "text": said,
            "ts": ts,
            "thread_ts": thread.ts,
            "channel": thread.channel,
        }
        assert self.person.event(event).status_code == 200
        return ts

    def page_out(self, bot: str) -> httpx.Response:
        """An incident of a service of theirs opens in their account."""
        service = SERVICES[self.name]
        base = f"https://{self.name}.pagerduty.com"
        at, title = datetime.now(UTC), f"{service} answers slowly"
        self.pagerduty.open_incident(INCIDENT, title, service)
        event = incident_event(incident=INCIDENT, title=title, service=service, at=at, base=base)
        delivery = f"{self.name}{next(numbers)}"
        body, headers = signed_webhook(f"hook-{self.name}", event, delivery=delivery)
        path = f"{bot}/webhooks/pagerduty"
        return httpx.post(path, content=body, headers=headers, timeout=10)

    def posts(self, key: str) -> list[SlackedMessage]:
        """The bot's messages here that bear a key."""
        return [post for post in self.slack.posts if _key(post) == key]


@dataclass
class TwoWorkspaces:
    """The bot and what is around it."""

    bot: BotProcess
    store: Store
    eu: Workspace
    us: Workspace

    @property
    def both(self) -> tuple[Workspace, Workspace]:
        return self.eu, self.us

    def wait_for(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until it holds; a machine that does ten other things may take minutes."""
        deadline = time.monotonic() + 300
        while not condition():
            assert time.monotonic() < deadline, what
            time.sleep(0.05)

    def answered(self, investigation: str) -> None:
        """Wait for the end of an investigation."""
        self.wait_for(lambda: self._status(investigation) == "done", "an answer")

    def _status(self, investigation: str) -> str:
        found = self.store.get(investigation)
        return found.status if found else ""


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoWorkspaces]:
    """One bot for the stories of this file."""
    directory = tmp_path_factory.mktemp("two")
    case = write_small_case(directory / "case")
    make_tables(directory / "state")
    environ = {
        "FAULTLINE_RECORDED__CASE": str(case),
        "FAULTLINE_WORKER__POLLING_INTERVAL_S": "1",
        "FAULTLINE_WORKER__GRACE_S": "2",
        "FAULTLINE_WORKER__NICENESS": "0",
    }
    tables: list[str] = [
        '[alerts.channels."us:C0ALERTS"]\nper_hour = 1\n',
        "[services.checkout]\n[services.cart]\n",
        '[services.payments]\nslack_channel = "us:C0INCIDENTS"\n',
    ]
    with ExitStack() as stack:
        made: list[tuple[str, LoopbackSlack, LoopbackPagerDuty]] = []
        for name in NAMES:
            slack = LoopbackSlack(
                channels={CHANNEL: "incidents", WATCHED: "alerts"}, token=f"xoxb-{name}"
            )
            pagerduty = LoopbackPagerDuty(token=f"key-{name}")
            slack_url, stop_slack = serve_in_thread(slack.app)
            stack.callback(stop_slack)
            pagerduty_url, stop_pagerduty = serve_in_thread(pagerduty.app)
            stack.callback(stop_pagerduty)
            made.append((name, slack, pagerduty))
            tables.append(_tables(name, slack_url, pagerduty_url))
            part = name.upper()
            environ |= {
                f"FAULTLINE_SLACK__{part}__BOT_TOKEN": f"xoxb-{name}",
                f"FAULTLINE_SLACK__{part}__SIGNING_SECRETS": f"signing-{name}",
                f"FAULTLINE_PAGERDUTY__{part}__WEBHOOK_SECRETS": f"hook-{name}",
                f"FAULTLINE_PAGERDUTY__{part}__API_TOKEN": f"key-{name}",
            }
        (directory / "faultline.toml").write_text("\n".join(tables))
        bot = BotProcess(directory, environ, preloaded=True)
        bot.start()
        stack.callback(bot.stop)
        engine = connect(f"sqlite:///{directory}/state/faultline.sqlite")
        stack.callback(engine.dispose)
        found = []
        for name, slack, pagerduty in made:
            person = SlackPerson(slack, bot.url, f"signing-{name}", workspace=name)
            found.append(Workspace(name, slack, pagerduty, person))
        yield TwoWorkspaces(bot, Store(engine), *found)


def _tables(name: str, slack: str, pagerduty: str) -> str:
    return f"""
[[slack]]
name = "{name}"
api_url = "{slack}/api"
channel = "{CHANNEL}"
alert_channels = ["{WATCHED}"]
covers = {{ services = ["checkout", "{SERVICES[name]}"] }}

[[pagerduty]]
name = "{name}"
api_url = "{pagerduty}"
from_email = "faultline@{name}.example.com"
"""


def _key(message: SlackedMessage) -> str:
    return str(((message.metadata or {}).get("event_payload") or {}).get("key"))


@pytest.fixture(scope="module")
def answers(two: TwoWorkspaces) -> dict[str, SlackedMessage]:
    """The same alert in the same channel of both: the bot's answer in each, by the workspace."""
    alerts = {one.name: one.alert() for one in two.both}
    found: dict[str, SlackedMessage] = {}
    for one in two.both:
        two.wait_for(lambda one=one: bool(one.slack.posts), f"a message in {one.name}")  # type: ignore[misc]
        found[one.name] = one.slack.posts[0]
        two.answered(_key(found[one.name]).partition(":")[0])
        assert found[one.name].channel == WATCHED
        assert found[one.name].thread_ts == alerts[one.name].ts
    for message in found.values():
        two.wait_for(lambda message=message: "Investigating" not in message.text, "the answer")  # type: ignore[misc]
    return found


def test_an_alert_in_each_is_answered_in_its_own(
    two: TwoWorkspaces, answers: dict[str, SlackedMessage]
) -> None:
    for one in two.both:
        investigation, _, target = _key(answers[one.name]).partition(":")
        assert target == f"slack {one.name}"
        stored = two.store.get(investigation)
        assert stored is not None
        assert stored.reply_to.slack_channel == f"{one.name}:{WATCHED}"
        assert len(one.slack.posts) == 1
    assert _key(answers["eu"]) != _key(answers["us"])


def test_a_question_in_each_thread_is_answered_there(
    two: TwoWorkspaces, answers: dict[str, SlackedMessage]
) -> None:
    for one in two.both:
        ts = one.ask(answers[one.name], "what changed?")
        key = f"{one.name}:{WATCHED}:{ts}:answer"
        two.wait_for(lambda one=one, key=key: bool(one.posts(key)), "an answer")  # type: ignore[misc]
        (answer,) = one.posts(key)
        assert "4f2a9c1" in json.dumps(answer.blocks)
        others = two.us if one is two.eu else two.eu
        assert not others.posts(key)


def test_nobody_is_told_of_an_investigation_of_the_other_workspace(
    two: TwoWorkspaces, answers: dict[str, SlackedMessage]
) -> None:
    foreign = _key(answers["eu"]).partition(":")[0]
    ts = two.us.ask(answers["us"], f"why, {foreign}")
    key = f"us:{WATCHED}:{ts}:answer"
    two.wait_for(lambda: bool(two.us.posts(key)), "an answer")
    (answer,) = two.us.posts(key)
    assert "Which investigation?" in answer.text
    assert foreign not in json.dumps(answer.blocks)
    # Its channel is public, and in this workspace a public channel has the same id.
    two.us.slack.channels[DIRECT] = "direct message"
    assert two.us.person.write(DIRECT, f"why, {foreign}").status_code == 200
    two.wait_for(lambda: any(post.channel == DIRECT for post in two.us.slack.posts), "an answer")
    (said,) = [post for post in two.us.slack.posts if post.channel == DIRECT]
    assert "Which investigation?" in said.text
    assert _key(answers["us"]).partition(":")[0] in json.dumps(said.blocks)
    assert foreign not in json.dumps(said.blocks)


def test_a_click_works_where_it_was_made(
    two: TwoWorkspaces, answers: dict[str, SlackedMessage]
) -> None:
    before = len(answers["eu"].versions)
    click = two.us.person.click(answers["us"], "faultline_right")
    assert click.status_code == 200
    message = answers["us"]
    two.wait_for(lambda: "ann" in json.dumps(message.blocks), "who said so")
    assert len(answers["eu"].versions) == before


def test_the_home_tab_shows_what_its_own_workspace_is_told_of(
    two: TwoWorkspaces, answers: dict[str, SlackedMessage]
) -> None:
    assert two.us.person.open_home().status_code == 200
    homes = two.us.slack.surfaces.homes
    two.wait_for(lambda: bool(homes), "the tab")
    shown = json.dumps(_home(two.us))
    assert _key(answers["us"]).partition(":")[0] in shown
    assert _key(answers["eu"]).partition(":")[0] not in shown


def test_a_secret_opens_the_paths_of_its_own_workspace_alone(two: TwoWorkspaces) -> None:
    event = {"type": "message", "text": TITLE, "channel": WATCHED, "ts": "1763690000.000100"}
    for secret, workspace, status in (
        ("signing-eu", "us", 401),
        ("signing-us", "eu", 401),
        ("signing-eu", "", 405),
        ("signing-us", "us", 200),
    ):
        stranger = SlackPerson(two.us.slack, two.bot.url, secret, workspace=workspace)
        assert stranger.event(event).status_code == status
        assert stranger.open_home().status_code == status


def test_an_incident_is_announced_where_its_service_is_covered_and_noted_in_its_own_account(
    two: TwoWorkspaces, answers: dict[str, SlackedMessage]
) -> None:
    told = {one.name: len(one.slack.posts) for one in two.both}
    started = {one.name: one.page_out(two.bot.url).json() for one in two.both}
    for one in two.both:
        investigation = started[one.name]["investigation_id"]
        two.answered(investigation)
        two.wait_for(lambda one=one: bool(one.pagerduty.notes), "a note")  # type: ignore[misc]
        (note,) = one.pagerduty.notes
        assert investigation in note.content
        (message,) = one.slack.posts[told[one.name] :]
        assert _key(message) == f"{investigation}:slack {one.name}"
        assert message.channel == CHANNEL
    assert len({started[name]["investigation_id"] for name in NAMES}) == 2


def test_the_rate_of_a_channel_is_that_of_its_workspace(
    two: TwoWorkspaces, answers: dict[str, SlackedMessage]
) -> None:
    again = {"type": "message", "subtype": "bot_message", "bot_id": "B0MONITOR", "channel": WATCHED}
    for one in two.both:
        ts = one.slack.say(WATCHED, "[FIRING:1] another thing", user="U0MONITOR")
        one.person.event({**again, "text": "[FIRING:1] another thing", "ts": ts})
    channels = [
        i.reply_to.slack_channel for i in two.store.latest(50) if _is_another(i.alert.title)
    ]
    assert channels == [f"eu:{WATCHED}"]


def _is_another(title: str) -> bool:
    return "another thing" in title


def _home(one: Workspace) -> Any:
    return one.slack.surfaces.homes[one.person.id].view
