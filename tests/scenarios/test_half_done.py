"""An investigation that a worker of an earlier version left half done is finished by this one, and
posted once."""

from __future__ import annotations

import base64
import json
import sqlite3
from pathlib import Path

from faultline.loopback.slack import BOT_USER, SlackedMessage
from tests.scenarios.bot_story import bot_story
from tests.scenarios.small_case import write_small_case

RECORDED = Path(__file__).parent / "half_done"


def restore(state: Path) -> None:
    """The recorded databases and case store, where the bot looks for them."""
    state.mkdir(parents=True)
    for name, database in (("engine", "engine.sqlite"), ("store", "faultline.sqlite")):
        connection = sqlite3.connect(state / database)
        connection.executescript((RECORDED / f"{name}.sql").read_text())
        connection.close()
    for path, text in json.loads((RECORDED / "cases.json").read_text()).items():
        file = state / "cases" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(text))


def first_message(state: Path) -> SlackedMessage:
    """What had been posted in Slack by then."""
    connection = sqlite3.connect(state / "faultline.sqlite")
    key, ref = connection.execute("SELECT key, ref FROM posts WHERE ref IS NOT NULL").fetchone()
    connection.close()
    channel, _, ts = ref.partition("/")
    metadata = {"event_type": "faultline_post", "event_payload": {"key": key}}
    return SlackedMessage(channel, ts, BOT_USER, [("Investigating", [])], None, metadata)


def test_what_an_earlier_version_began_this_one_finishes(tmp_path: Path) -> None:
    restore(tmp_path / "state")
    posted = first_message(tmp_path / "state")
    with bot_story(
        tmp_path, write_small_case(tmp_path / "case"), "sqlite", before=[posted]
    ) as story:
        (one,) = story.store.latest()
        story.pagerduty.open_incident("P0001", one.alert.title, "checkout")
        story.wait_for(lambda: story.store.count("done") == 1, what="finished")
        story.wait_for(lambda: len(posted.versions) > 1, what="answered where it was announced")
        story.wait_for(lambda: bool(story.pagerduty.incidents["P0001"].notes), what="noted")
        assert story.slack.posts == [posted], "nothing was posted a second time"
        assert len(story.pagerduty.incidents["P0001"].notes) == 1
        stages = [line.stage for line in story.store.progress(one.id)]
        assert (stages.count("scope"), stages.count("memory"), stages.count("analyze")) == (1, 1, 1)
