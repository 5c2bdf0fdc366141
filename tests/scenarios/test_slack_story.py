"""An alert, its answer, and what people do with it in Slack: the real bot, the real Bolt, real
HTTP, signed clicks."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator

import httpx
import pytest

from loopback.slack import SlackedMessage
from loopback.slack_person import SlackPerson, actions_of
from loopback.slack_views import SlackView
from tests.scenarios.bot_story import Story, bot_story
from tests.scenarios.small_case import write_small_case

WITHIN_S = 300.0
"""An investigation takes seconds; a machine that does ten other things may take minutes."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    directory = tmp_path_factory.mktemp("slack-story")
    with bot_story(directory, write_small_case(directory / "case"), "sqlite") as story:
        yield story


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
    views = story.slack.seen.views.values
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
    ann = SlackPerson(story.slack, story.bot.url, "slack-secret")
    investigation = story.page_out("PSTORY").json()["investigation_id"]
    answer = answered(story, investigation)
    assert "Cause found" in answer.text

    ann.click(answer, "faultline_evidence")
    evidence = modal(story, ann, "Evidence")
    story.wait_for(lambda: "For checkout" in said(evidence), what="the findings")
    assert f"/investigations/{investigation}#F" in said(evidence)

    ann.click(answer, "faultline_wrong", times=2)
    form = modal(story, ann, "What was the cause?")
    assert ann.submit(form, cause="checkout ran out of connections").status_code == 200
    assert [v.view["title"]["text"] for v in story.slack.seen.opened_by(ann.id)] == ["Evidence"]
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
    (second,) = (one for one in story.store.latest() if one.id != investigation)
    wider = answered(story, second.id)
    assert wider.thread_ts == answer.ts
    assert f"/investigations/{investigation}|{investigation}" in said(wider)
    assert "ann (U0ANN) asked for a wider window" in (second.question or "")
    lines = [line.text for line in story.store.progress(investigation) if line.stage == "people"]
    assert len(lines) == 4
    assert all(line.startswith("ann (U0ANN) ") for line in lines)
