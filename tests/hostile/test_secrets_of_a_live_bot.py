"""A running bot gets alerts, questions and evidence with secrets in them: none is in what it posted
to Slack and PagerDuty, in its databases, in its other files, or in its logs."""

from __future__ import annotations

import base64
import json
import re
import sqlite3
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import polars as pl
import pytest

from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.store.connections import connect
from faultline.bot.store.suppressed_alerts import Mutes
from faultline.loopback.slack import BOT_USER
from tests.databases import make_tables
from tests.hostile.cases import incident
from tests.hostile.test_secrets_in_every_field import NOW, SECRETS, leaked, planted
from tests.scenarios.bot_story import CHANNEL, Story, bot_story
from tests.scenarios.test_first_light import slack_event

pytestmark = pytest.mark.timeout(300)

SPOKEN = {
    "title": "Zq90kT7vWm4xLp9R",
    "question": "Zq91kT7vWm4xLp9R",
    "refused": "Zq92kT7vWm4xLp9R",
}
LATER = NOW + timedelta(hours=1)
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{40,}={0,2}")


class Lived:
    """What a bot left behind."""

    def __init__(self, story: Story, directory: Path, log: Path) -> None:
        self.slack = json.dumps(
            [[m.text, m.blocks, m.versions] for m in story.slack.posts], default=str
        )
        self.slack += "".join(f"{f.content!r}" for f in story.slack.files.values())
        self.notes = [
            note.content for one in story.pagerduty.incidents.values() for note in one.notes
        ]
        self.directory, self.log = directory, log


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    directory = tmp_path_factory.mktemp("live")
    incident(directory / "case", planted)
    log = directory / "bot.log"
    with bot_story(directory, directory / "case", "sqlite", log=log) as story:
        title = f"web latency above 1 s db_password={SPOKEN['title']} "
        story.page_out("P1", title)
        story.wait_for(lambda: bool(story.pagerduty.incidents["P1"].notes), what="a note")
        story.wait_for(
            lambda: any(len(m.versions) > 1 for m in story.slack.posts), what="an answer"
        )
        told = next(m for m in story.slack.posts if len(m.versions) > 1)
        said = len(story.slack.posts)
        question = {
            "type": "app_mention",
            "user": "U0ANN",
            "team": "T0LOOPBACK",
            "text": f"<@{BOT_USER}> why db_password={SPOKEN['question']} in logs of api?",
            "channel": CHANNEL,
            "thread_ts": told.ts,
            "ts": f"{time.time():.6f}",
        }
        assert slack_event(story, question, "Ev0QUESTION").status_code == 200
        story.wait_for(lambda: len(story.slack.posts) > said, what="an answer to the question")
        refused = f'{{"token=": "db_password={SPOKEN["refused"]}"'
        for path in ("/webhooks/pagerduty", "/webhooks/alertmanager", "/slack/events", "/changes"):
            httpx.post(
                f"{story.bot.url}{path}?token={SPOKEN['refused']}",
                content=refused,
                headers={"authorization": f"Bearer {SPOKEN['refused']}"},
                timeout=10,
            )
        return Lived(story, directory, log)


def _leaked(text: str) -> list[str]:
    return leaked(text) + [name for name, secret in SPOKEN.items() if secret in text]


def test_slack_got_none(lived: Lived) -> None:
    assert "web latency above" in lived.slack
    assert _leaked(lived.slack) == []


def test_pagerduty_got_none(lived: Lived) -> None:
    assert lived.notes
    assert _leaked("".join(lived.notes)) == []


def test_no_log_holds_one(lived: Lived) -> None:
    log = lived.log.read_text()
    assert "refused" in log
    assert _leaked(log) == []


def test_no_row_of_a_database_holds_one(lived: Lived) -> None:
    files = list(lived.directory.joinpath("state").glob("*.sqlite"))
    assert len(files) >= 2, "the bot's own, and the engine's"
    rows = 0
    for file in files:
        for table, text in _cells(file):
            rows += 1
            assert _leaked(text) == [], (file.name, table)
    assert rows > 50


def test_no_file_holds_one_not_even_a_deleted_row(lived: Lived) -> None:
    for path in sorted(lived.directory.joinpath("state").rglob("*")):
        if path.suffix == ".parquet":
            assert _leaked(pl.read_parquet(path).write_json()) == [], path.name
        elif path.is_file():
            assert _leaked(_told(path.read_bytes())) == [], path.name


def _cells(file: Path) -> Iterator[tuple[str, str]]:
    """Every value of every table, with what its base64 holds."""
    database = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (name,) in names:
            for row in database.execute(f'SELECT * FROM "{name}"'):
                for value in row:
                    if isinstance(value, (str, bytes)):
                        yield name, _told(value if isinstance(value, bytes) else value.encode())
    finally:
        database.close()


def _told(data: bytes) -> str:
    packed = [base64.b64decode(run + b"=" * (-len(run) % 4)) for run in _packed(data)]
    return b"\n".join([data, *packed]).decode("utf-8", "replace")


def _packed(data: bytes) -> Iterator[bytes]:
    for run in _BASE64.findall(data):
        bare = run.rstrip(b"=")
        yield bare[: len(bare) - (len(bare) % 4 == 1)]


def test_an_answer_in_a_conversation_holds_none_whoever_worded_it() -> None:
    secret = planted("logs.message")
    line = AnswerLine(text=secret, bold=secret)
    answer = AnswerText(lead=secret, lines=(line,), more=(secret,), code=(secret,))
    assert leaked(answer.model_dump_json()) == []


def test_what_a_person_says_of_a_mute_or_a_cause_is_stored_without_one(tmp_path: Path) -> None:
    make_tables(tmp_path / "state")
    engine = connect(f"sqlite:///{tmp_path}/state/faultline.sqlite")
    secret = planted("logs.message")
    Mutes(engine).mute("one", LATER, by="ann", reason=secret, title=secret, now=NOW)
    engine.dispose()
    assert [
        _leaked(text)
        for _, text in _cells(tmp_path / "state" / "faultline.sqlite")
        if _leaked(text)
    ] == []


def test_the_secrets_were_there_to_be_found(lived: Lived) -> None:
    assert set(SECRETS) >= {"logs.message", "changes.title"}
    assert "[SECRET]" in lived.slack
