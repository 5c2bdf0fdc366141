"""The Slack reply, by the real client against Slack on loopback."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.targets.slack import posts as slack_posts
from faultline.bot.answer.targets.slack import replies as slack_replies
from faultline.bot.answer.targets.slack.message import SlackMessage
from faultline.bot.answer.targets.slack.posts import MessageRef
from faultline.bot.answer.targets.slack.replies import SlackReplies
from faultline.bot.settings.loading import settings_of
from faultline.bot.store.messages import DueDigest
from faultline.bot.store.store import ReplyTo, Store, StoredInvestigation
from faultline.bot.store.tables import PostRow
from tests.bot.answer.targets.answers import (
    a_diagnosis,
    a_gap,
    a_report,
    accepted,
    an_hour_later,
    settings,
    some_evidence,
)
from tests.bot.answer.targets.conftest import SlackAt

CHANNEL = "C0INCIDENTS"
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 500
LEASE = timedelta(minutes=1)


def replies(
    at: SlackAt,
    store: Store,
    *,
    owner: str = "w1",
    token: str = "xoxb-1",
    lease: timedelta = LEASE,
    **slack: Any,
) -> SlackReplies:
    given = {"bot_token": token, "api_url": at.api_url, "channel": CHANNEL, **slack}
    return SlackReplies(settings(slack=given), store, owner=owner, lease=lease)


def an_answer(chart: bytes | None = None) -> Answer:
    return Answer(a_diagnosis(), a_report(), some_evidence(), [a_gap()], chart)


def in_thread(at: SlackAt, store: Store) -> StoredInvestigation:
    thread = at.slack.say(CHANNEL, "FIRING: checkout")
    return accepted(store, ReplyTo(slack_channel=CHANNEL, slack_thread=thread))


def test_the_announcement_stands_in_the_alerts_own_thread(slack_at: SlackAt, store: Store) -> None:
    investigation = in_thread(slack_at, store)
    asyncio.run(replies(slack_at, store).announce(investigation))
    [post] = slack_at.slack.posts
    assert post.thread_ts == investigation.reply_to.slack_thread
    assert post.text.startswith("Investigating")


def test_an_alert_from_elsewhere_is_answered_in_its_services_channel(
    slack_at: SlackAt, store: Store
) -> None:
    slack_at.slack.channels["C0CHECKOUT"] = "checkout"
    given = settings(
        slack={"bot_token": "xoxb-1", "api_url": slack_at.api_url, "channel": CHANNEL},
        services={"shop": {"aliases": ["checkout"], "slack_channel": "C0CHECKOUT"}},
    )
    place = SlackReplies(given, store, owner="w", lease=LEASE)
    asyncio.run(place.announce(accepted(store, ReplyTo())))
    assert [(p.channel, p.thread_ts) for p in slack_at.slack.posts] == [("C0CHECKOUT", None)]


def test_the_answer_replaces_the_announcement_and_shows_the_chart(
    slack_at: SlackAt, store: Store
) -> None:
    investigation = in_thread(slack_at, store)
    place = replies(slack_at, store)

    async def story() -> None:
        await place.announce(investigation)
        await place.answer(Outcome(investigation, an_answer(PNG)))

    asyncio.run(story())
    [post] = slack_at.slack.posts
    assert post.text.startswith("Likely cause: payments v2 breaks checkout")
    [image] = [b for b in post.blocks if b["type"] == "image"]
    file = slack_at.slack.files[image["slack_file"]["id"]]
    assert file.content == PNG
    assert file.shared_in == []
    assert post.metadata == {
        "event_type": "faultline_post",
        "event_payload": {"key": f"{investigation.id}:slack"},
    }


@pytest.mark.parametrize("preview_first", [True, False])
def test_the_answer_stands_last_however_late_its_preview_is(
    slack_at: SlackAt, store: Store, *, preview_first: bool
) -> None:
    investigation = in_thread(slack_at, store)
    slack = {"bot_token": "xoxb-1", "api_url": slack_at.api_url, "channel": CHANNEL}
    given = settings(slack=slack, model={"name": "m"})
    workers = [
        SlackReplies(given, store, owner=f"w{n}", lease=timedelta(seconds=2)) for n in range(2)
    ]
    report = a_report().model_copy(update={"headline": "So far"})
    preview = Outcome(investigation, replace(an_answer(), report=report))

    def begun() -> bool:
        with Session(store.engine) as session:
            return (
                session.scalar(select(PostRow.key).where(PostRow.key.contains("preview")))
                is not None
            )

    async def story() -> None:
        await workers[0].announce(investigation)
        slack_at.slack.traffic.delay_before_s = 0.3
        if preview_first:
            showing = asyncio.create_task(workers[0].preview(preview))
            while not begun():
                await asyncio.sleep(0.01)
            await asyncio.gather(showing, workers[1].answer(Outcome(investigation, an_answer())))
        else:
            await workers[1].answer(Outcome(investigation, an_answer()))
            await workers[0].preview(preview)

    asyncio.run(story())
    [post] = slack_at.slack.posts
    shown = [text.split(":")[0] for text, *_ in post.versions]
    assert shown[-1] == "Likely cause"
    assert [("So far" in text) for text, *_ in post.versions].count(True) == preview_first
    assert "So far" not in post.text


def test_an_answer_that_could_not_be_announced_is_posted_itself(
    slack_at: SlackAt, store: Store
) -> None:
    asyncio.run(replies(slack_at, store).answer(Outcome(in_thread(slack_at, store), an_answer())))
    [post] = slack_at.slack.posts
    assert [v[0].split(":")[0] for v in post.versions] == ["Likely cause"]


def test_a_failed_investigation_is_said_to_have_failed(slack_at: SlackAt, store: Store) -> None:
    investigation = replace(
        in_thread(slack_at, store), headline="The investigation failed: no space left"
    )
    asyncio.run(replies(slack_at, store).answer(Outcome(investigation, None)))
    assert "Why: no space left" in slack_at.slack.posts[0].text


@pytest.mark.parametrize("threaded", [True, False])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_worker_killed_on_either_side_of_the_post_leaves_one_message(
    slack_at: SlackAt, store: Store, threaded: bool, moment: str
) -> None:
    investigation = in_thread(slack_at, store) if threaded else accepted(store, ReplyTo())

    async def killed_after() -> None:
        slack_at.slack.traffic.delay_after_s = 0.5
        dying = replies(slack_at, store)
        task = asyncio.create_task(dying.announce(investigation))
        while not slack_at.slack.posts and not task.done():
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        slack_at.slack.traffic.delay_after_s = 0

    if moment == "after":
        asyncio.run(killed_after())
    else:
        key = f"{investigation.id}:slack"
        store.claim_post(key, investigation.id, owner="dead", lease=LEASE)
    an_hour_later(store)
    later = replies(slack_at, store, owner="w2")
    asyncio.run(later.announce(investigation))
    assert len(slack_at.slack.posts) == 1
    assert store.posts(investigation.id) == {
        f"{investigation.id}:slack": f"{CHANNEL}/{slack_at.slack.posts[0].ts}"
    }


def test_the_search_reads_every_page_of_a_busy_channel(
    slack_at: SlackAt, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_posts, "PAGE", 2)
    investigation = accepted(store, ReplyTo())
    place = replies(slack_at, store)

    async def story() -> MessageRef:
        ref, _ = await place.post(investigation, SlackMessage("hello", ()))
        for n in range(7):
            slack_at.slack.say(CHANNEL, f"chatter {n}")
        store.record_post(f"{investigation.id}:slack", "")
        found = await place._find(
            slack_posts.SlackPlace(CHANNEL), f"{investigation.id}:slack", investigation
        )
        assert found == str(ref)
        return ref

    asyncio.run(story())
    assert slack_at.slack.traffic.calls["conversations.history"] == 4


@pytest.mark.parametrize("ahead", [timedelta(hours=2), timedelta(days=-2)])
def test_a_post_is_found_again_when_the_clock_was_wrong_as_the_alert_came(
    slack_at: SlackAt, store: Store, monkeypatch: pytest.MonkeyPatch, ahead: timedelta
) -> None:
    monkeypatch.setattr(slack_posts, "PAGE", 2)
    investigation = accepted(store, ReplyTo())
    investigation = replace(investigation, accepted_at=investigation.accepted_at + ahead)
    place = replies(slack_at, store)

    async def story() -> tuple[str, str | None]:
        ref, _ = await place.post(investigation, SlackMessage("hello", ()))
        for n in range(3):
            slack_at.slack.say(CHANNEL, f"chatter {n}")
        key = f"{investigation.id}:slack"
        return str(ref), await place._find(slack_posts.SlackPlace(CHANNEL), key, investigation)

    posted, found = asyncio.run(story())
    assert found == posted


def test_the_search_ends_where_the_channel_is_older_than_the_alert(
    slack_at: SlackAt, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_posts, "PAGE", 2)
    for n in range(8):
        slack_at.slack.say(CHANNEL, f"old {n}")
        slack_at.slack.messages[-1].ts = f"{time.time() - 86_400 * (9 - n):.6f}"
    slack_at.slack.say(CHANNEL, "new")
    investigation = accepted(store, ReplyTo())
    place = replies(slack_at, store)
    assert (
        asyncio.run(place._find(slack_posts.SlackPlace(CHANNEL), "another", investigation)) is None
    )
    assert slack_at.slack.traffic.calls["conversations.history"] == 1


def test_two_workers_post_one_message(slack_at: SlackAt, store: Store) -> None:
    investigation = in_thread(slack_at, store)
    slack_at.slack.traffic.delay_before_s = 0.1

    async def both() -> None:
        await asyncio.gather(
            *(replies(slack_at, store, owner=o).announce(investigation) for o in ("w1", "w2"))
        )

    asyncio.run(both())
    assert len(slack_at.slack.posts) == 1


def test_a_rate_limit_is_waited_out(slack_at: SlackAt, store: Store) -> None:
    slack_at.slack.traffic.fail_next(
        1, 429, call="chat.postMessage", headers={"Retry-After": "1"}, error="ratelimited"
    )
    asyncio.run(replies(slack_at, store).announce(in_thread(slack_at, store)))
    assert slack_at.slack.traffic.calls["chat.postMessage"] == 2
    assert len(slack_at.slack.posts) == 1


def test_a_picture_that_slack_still_works_on_is_tried_again(
    slack_at: SlackAt, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_replies, "IMAGE_WAITS_S", (0.01, 0.01, 0.01))
    slack_at.slack.new_file_refusals = 2
    asyncio.run(
        replies(slack_at, store).answer(Outcome(in_thread(slack_at, store), an_answer(PNG)))
    )
    assert [b["type"] for b in slack_at.slack.posts[0].blocks].count("image") == 1
    assert slack_at.slack.traffic.calls["chat.update"] == 3


def test_a_picture_that_slack_never_takes_does_not_cost_the_answer(
    slack_at: SlackAt, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_replies, "IMAGE_WAITS_S", (0.01, 0.01))
    slack_at.slack.new_file_refusals = 99
    asyncio.run(
        replies(slack_at, store).answer(Outcome(in_thread(slack_at, store), an_answer(PNG)))
    )
    [post] = slack_at.slack.posts
    assert post.text.startswith("Likely cause")
    assert "image" not in [b["type"] for b in post.blocks]


def test_an_upload_that_fails_does_not_cost_the_answer(slack_at: SlackAt, store: Store) -> None:
    slack_at.slack.traffic.fail_next(1, 500, call="upload")
    asyncio.run(
        replies(slack_at, store).answer(Outcome(in_thread(slack_at, store), an_answer(PNG)))
    )
    assert slack_at.slack.posts[0].text.startswith("Likely cause")


def test_blocks_that_slack_refuses_are_replaced_by_their_text(
    slack_at: SlackAt, store: Store
) -> None:
    investigation = in_thread(slack_at, store)
    place = replies(slack_at, store)

    async def story() -> None:
        ref, _ = await place.post(investigation, SlackMessage("first", ()))
        await place.edit(ref, SlackMessage("the answer in words", ({"type": "unheard_of"},)))

    asyncio.run(story())
    assert slack_at.slack.posts[0].text == "the answer in words"
    assert slack_at.slack.posts[0].blocks == []


@pytest.mark.parametrize(
    ("break_it", "problem", "retryable"),
    [
        (lambda s: s.channels.clear(), "there is no channel C0INCIDENTS", False),
        (lambda s: s.not_in.add(CHANNEL), "invite it there", False),
        (lambda s: setattr(s, "token", "other"), "the bot token is not valid", False),
        (
            lambda s: s.traffic.fail_next(9, 503, error="service_unavailable"),
            "service_unavailable",
            True,
        ),
    ],
)
def test_slacks_refusal_becomes_one_clear_error(
    slack_at: SlackAt, store: Store, break_it: Any, problem: str, retryable: bool
) -> None:
    break_it(slack_at.slack)
    with pytest.raises(ConnectorError, match=problem) as raised:
        asyncio.run(replies(slack_at, store).announce(accepted(store, ReplyTo())))
    assert raised.value.retryable is retryable
    assert raised.value.call == "chat.postMessage"


def test_a_slack_that_cannot_be_reached_is_worth_another_try(
    slack_at: SlackAt, store: Store
) -> None:
    place = replies(slack_at, store, api_url="http://127.0.0.1:9/api")
    with pytest.raises(ConnectorError, match="cannot be reached") as raised:
        asyncio.run(place.announce(accepted(store, ReplyTo())))
    assert raised.value.retryable


def test_without_token_or_channel_no_reply_is_wanted(slack_at: SlackAt, store: Store) -> None:
    investigation = accepted(store, ReplyTo())
    assert replies(slack_at, store).expects_answer(investigation)
    assert not replies(slack_at, store, channel=None).expects_answer(investigation)
    assert not SlackReplies(settings(slack={"channel": CHANNEL}), store, owner="w").expects_answer(
        investigation
    )


def test_of_two_workspaces_each_gets_the_digest_in_its_own_channel_once(
    slack_at: SlackAt, store: Store
) -> None:
    """Quiet hours went by a channel of the other one, which has the same id."""
    tables = [
        {"name": name, "channel": CHANNEL, "api_url": slack_at.api_url} for name in ("eu", "us")
    ]
    tokens = {f"FAULTLINE_SLACK__{name}__BOT_TOKEN": "xoxb-1" for name in ("EU", "US")}
    _, us = settings_of({"slack": tables}, tokens).per_instance("slack")
    target = SlackReplies(us, store, owner="w1", lease=LEASE)
    told = accepted(store, ReplyTo())
    found = [told, replace(told, id="other", reply_to=ReplyTo(f"eu:{CHANNEL}"))]
    digest = DueDigest(f"eu:{CHANNEL}", tuple(one.id for one in found))
    for _ in range(2):
        asyncio.run(target.post_digest(digest, found))
    [post] = slack_at.slack.posts
    assert post.channel == CHANNEL
    assert post.text.startswith("While it was quiet, 1 alert was")
    assert post.metadata is not None
    assert post.metadata["event_payload"] == {"key": f"{found[0].id}:slack us-digest"}
