"""People ask in the thread of an answer, over real HTTP, and are answered once each, in their
order; and what they do with an answer in Slack: the real bot, the real Bolt, signed clicks."""

from __future__ import annotations

import hashlib
import hmac
import io
import itertools
import json
import os
import signal
import threading
import time
import zipfile
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from faultline.loopback.slack import BOT_USER, SlackedMessage
from faultline.loopback.slack_person import SlackPerson, actions_of
from faultline.loopback.slack_views import SlackView
from tests.scenarios.bot_story import CHANNEL, Story, bot_story
from tests.scenarios.small_case import write_small_case

WITHIN_S = 300.0
"""An investigation takes seconds; a machine that does ten other things may take minutes."""

numbers = itertools.count(1)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """One bot for the stories of this file."""
    directory = tmp_path_factory.mktemp("story")
    with bot_story(directory, write_small_case(directory / "case"), "sqlite") as running:
        yield running


@pytest.fixture(scope="module")
def thread(story: Story) -> str:
    """The ts of the bot's answer to an alert, under which people ask."""
    investigation = story.page_out("PTALK").json()["investigation_id"]
    story.wait_for(lambda: _status(story, investigation) == "done", what="an answer")
    key = f"{investigation}:slack"
    story.wait_for(lambda: any(_key(m) == key for m in story.answers()), what="the answer in Slack")
    return next(m.ts for m in story.slack.posts if _key(m) == key)


def write(
    story: Story, text: str, thread: str, *, mention: bool = False, user: str = "U0ENGINEER"
) -> dict[str, Any]:
    """Somebody writes in the thread; the event as Slack sends it."""
    said = f"<@{BOT_USER}> {text}" if mention else text
    ts = story.slack.say(CHANNEL, said, thread_ts=thread, user=user)
    kind = "app_mention" if mention else "message"
    event = {
        "type": kind,
        "user": user,
        "text": said,
        "ts": ts,
        "thread_ts": thread,
        "channel": CHANNEL,
        "event_ts": ts,
    }
    send(story, event)
    return event


def send(story: Story, event: dict[str, Any]) -> None:
    """Signed as Slack signs it; sent again until the bot takes it, as Slack does."""
    body = json.dumps(
        {
            "type": "event_callback",
            "team_id": "T0LOOPBACK",
            "api_app_id": "A1",
            "event_id": f"EvTalk{next(numbers)}",
            "event": event,
            "authorizations": [{"team_id": "T0LOOPBACK", "user_id": BOT_USER, "is_bot": True}],
        }
    ).encode()
    deadline = time.monotonic() + 60
    while True:
        stamp = str(int(time.time()))
        digest = hmac.new(
            b"slack-secret", f"v0:{stamp}:".encode() + body, hashlib.sha256
        ).hexdigest()
        headers = {
            "content-type": "application/json",
            "x-slack-request-timestamp": stamp,
            "x-slack-signature": f"v0={digest}",
        }
        try:
            if (
                httpx.post(
                    f"{story.bot.url}/slack/events", content=body, headers=headers, timeout=10
                ).status_code
                == 200
            ):
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, "the bot did not take the event"
        time.sleep(0.1)


def answers_to(story: Story, event: dict[str, Any]) -> list[SlackedMessage]:
    key = f"{event['channel']}:{event['ts']}:answer"
    return [m for m in story.slack.posts if _key(m) == key]


def answer_to(story: Story, event: dict[str, Any]) -> SlackedMessage:
    story.wait_for(lambda: bool(answers_to(story, event)), what=f"an answer to {event['text']!r}")
    return answers_to(story, event)[0]


def test_questions_in_the_thread_are_answered_without_a_mention_once_and_in_order(
    story: Story, thread: str
) -> None:
    first = write(story, "what changed?", thread)
    second = write(story, "is it still going on?", thread)
    chatter = write(story, "I'll take a look", thread)
    send(story, first)
    assert "4f2a9c1" in json.dumps(answer_to(story, first).blocks)
    assert "03:06:00" in answer_to(story, second).text
    assert answer_to(story, first).thread_ts == thread
    last = write(story, "stauts", thread, mention=True)
    assert "running" in answer_to(story, last).text
    assert "Cause found" in json.dumps(answer_to(story, last).blocks)
    assert answers_to(story, chatter) == []
    assert [len(answers_to(story, event)) for event in (first, second, last)] == [1, 1, 1]
    stood = [answer_to(story, event).ts for event in (first, second, last)]
    assert stood == sorted(stood, key=float)


def test_a_finding_is_explained_with_its_chart(story: Story, thread: str) -> None:
    asked = write(story, "explian F1", thread, mention=True)
    answer = answer_to(story, asked)
    assert "CUSUM" in json.dumps(answer.blocks)
    story.wait_for(lambda: any(b["type"] == "image" for b in answer.blocks), what="the chart")
    assert len(answers_to(story, asked)) == 1


def test_silence_is_kept_until_somebody_mentions_us(story: Story, thread: str) -> None:
    answer_to(story, write(story, "quiet", thread, mention=True))
    unheard = write(story, "who is affected?", thread)
    heard = write(story, "who is affected?", thread, mention=True)
    assert "checkout" in json.dumps(answer_to(story, heard).blocks)
    assert answers_to(story, unheard) == []
    answer_to(story, write(story, "listen", thread, mention=True))
    assert answer_to(story, write(story, "who is affected?", thread))


def test_what_the_case_does_not_hold_is_looked_up_in_the_same_thread(
    story: Story, thread: str
) -> None:
    before = story.store.count()
    asked = write(story, "what about the last 6 hours?", thread)
    said = answer_to(story, asked)
    assert "Starting a follow-up" in said.text
    send(story, asked)
    story.wait_for(lambda: story.store.count() == before + 1, what="a further investigation")
    further = next(i for i in story.store.latest() if i.question == "what about the last 6 hours?")
    assert further.reply_to.slack_thread == thread
    assert further.id in json.dumps(said.blocks)
    story.wait_for(lambda: _status(story, further.id) == "done", what="its answer")
    story.wait_for(
        lambda: any(_key(m) == f"{further.id}:slack" for m in story.answers()), what="its message"
    )
    message = next(m for m in story.slack.posts if _key(m) == f"{further.id}:slack")
    assert message.thread_ts == thread
    assert story.store.count() == before + 1


def test_a_question_survives_its_worker_and_is_answered_once(story: Story, thread: str) -> None:
    killed = threading.Event()

    def end_it(call: str, moment: str) -> None:
        worker = story.bot.worker_pid()
        if (
            (call, moment) == ("chat.postMessage", "after")
            and worker is not None
            and not killed.is_set()
        ):
            os.kill(worker, signal.SIGKILL)
            killed.set()

    story.slack.traffic.hook = end_it
    asked = write(story, "since when?", thread)
    assert killed.wait(60)
    story.slack.traffic.hook = None
    later = write(story, "what next?", thread)
    assert "Roll back" in json.dumps(answer_to(story, later).blocks)
    assert len(answers_to(story, asked)) == 1


def _key(message: SlackedMessage) -> object:
    return ((message.metadata or {}).get("event_payload") or {}).get("key")


def _status(story: Story, investigation: str) -> str:
    found = story.store.get(investigation)
    return found.status if found else "unknown"


def test_the_assistants_pane_is_a_conversation_too(story: Story) -> None:
    pane = "D0PANE"
    story.slack.channels[pane] = "pane"
    began = story.slack.say(pane, "New chat", user=BOT_USER)
    about = {"user_id": "U0ENGINEER", "channel_id": pane, "thread_ts": began, "context": {}}
    send(story, {"type": "assistant_thread_started", "assistant_thread": about, "event_ts": began})
    asked = []
    for text in ("status", "investigate checkout errors"):
        ts = story.slack.say(pane, text, thread_ts=began, user="U0ENGINEER")
        event = {
            "type": "message",
            "channel_type": "im",
            "channel": pane,
            "user": "U0ENGINEER",
            "text": text,
        }
        asked.append({**event, "ts": ts, "thread_ts": began, "event_ts": ts})
        send(story, asked[-1])
    assert "running" in answer_to(story, asked[0]).text
    assert answer_to(story, asked[0]).thread_ts == began

    def answered() -> list[SlackedMessage]:
        return [m for m in story.answers() if m.channel == pane and str(_key(m)).endswith(":slack")]

    story.wait_for(lambda: bool(answered()), what="the investigation's answer in the pane")
    assert [m.thread_ts for m in answered()] == [began]
    assert "Likely cause" in json.dumps(answered()[0].blocks)


def answered(story: Story, investigation: str) -> SlackedMessage:
    """The message that holds the answer of this investigation, buttons and all."""

    def found() -> SlackedMessage | None:
        return next(
            (
                m
                for m in story.answers()
                if investigation in actions_of(m).get("faultline_evidence", [])
            ),
            None,
        )

    story.wait_for(
        lambda: found() is not None, within_s=WITHIN_S, what=f"an answer of {investigation}"
    )
    message = found()
    assert message is not None
    return message


def modal(story: Story, person: SlackPerson, title: str) -> SlackView:
    """The modal that the person has just opened."""
    views = story.slack.surfaces.views.values
    story.wait_for(
        lambda: any(v.view["title"]["text"] == title and not v.closed for v in views()), what=title
    )
    return [v for v in views() if v.user == person.id and v.view["title"]["text"] == title][-1]


def said(shown: SlackedMessage | SlackView) -> str:
    """Everything it shows."""
    return json.dumps(
        shown.blocks if isinstance(shown, SlackedMessage) else shown.view, ensure_ascii=False
    )


@pytest.mark.timeout(900)
def test_from_the_alert_to_a_label_a_mute_and_a_second_answer(story: Story) -> None:
    earlier = {one.id for one in story.store.latest()}
    ann = SlackPerson(story.slack, story.bot.url, "slack-secret")
    investigation = story.page_out("PSTORY").json()["investigation_id"]
    answer = answered(story, investigation)
    assert "Likely cause" in answer.text

    ann.click(answer, "faultline_evidence")
    evidence = modal(story, ann, "Evidence")
    story.wait_for(lambda: "For checkout" in said(evidence), what="the findings")
    assert f"/investigations/{investigation}#F" in said(evidence)

    ann.click(answer, "faultline_wrong", times=2)
    form = modal(story, ann, "What was the cause?")
    assert ann.submit(form, cause="checkout ran out of connections").status_code == 200
    assert [v.view["title"]["text"] for v in story.slack.surfaces.opened_by(ann.id)] == ["Evidence"]
    story.wait_for(lambda: "*Wrong*, said ann (U0ANN)" in said(answer), what="who said so")
    assert "the cause was checkout ran out of connections" in said(answer)
    archive = httpx.get(f"{story.bot.url}/judged.zip", timeout=60)
    with zipfile.ZipFile(io.BytesIO(archive.content)) as zipped:
        label = json.loads(zipped.read(f"incident-{investigation}/label.json"))
    assert label["subject"] == "checkout"
    assert label["cause"] == "checkout ran out of connections"

    ann.click(answer, "faultline_more", option=f"mute {investigation}")
    ann.submit(modal(story, ann, "Mute this alert"), **{"for": "1h", "reason": "known"})
    story.wait_for(lambda: "*Muted* until" in said(answer), what="the mute in the message")
    before = story.store.count()
    again = story.send("PSTORY", "checkout p99 latency above 800 ms", delivery="once-more")
    assert again.json()["outcome"] == "muted"
    assert story.store.count() == before

    ann.click(answer, "faultline_more", option=f"wider {investigation}", times=3)
    (second,) = (one for one in story.store.latest() if one.id not in {*earlier, investigation})
    wider = answered(story, second.id)
    assert wider.thread_ts == answer.ts
    assert f"/investigations/{investigation}|{investigation}" in said(wider)
    assert "ann (U0ANN) asked for a wider window" in (second.question or "")
    lines = [line.text for line in story.store.progress(investigation) if line.stage == "people"]
    assert len(lines) == 4
    assert all(line.startswith("ann (U0ANN) ") for line in lines)
