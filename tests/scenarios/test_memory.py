"""The same alert twice, over real HTTP: the second answer names the first, says whether it holds,
and replays."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from faultline.analysis.case.earlier import KIND
from faultline.analysis.case.folder import json_bytes, read_case, read_diagnosis, read_report
from faultline.analysis.diagnosis import diagnose
from tests.bot.web.serving import form_of
from tests.scenarios.bot_story import Story, bot_story
from tests.scenarios.small_case import write_small_case

TITLE = "checkout p99 latency above 800 ms"
WITHIN_S = 300.0
"""An investigation takes seconds; a machine that does ten other things may take minutes."""


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """One bot; what is remembered and found again is tested on both databases in `tests/bot`."""
    directory = tmp_path_factory.mktemp("story")
    case = write_small_case(directory / "case")
    with bot_story(directory, case, "sqlite") as running:
        yield running


def investigated(story: Story, incident: str) -> str:
    """The id of the investigation of a new incident with the same title, once it is answered
    everywhere."""
    name: str = story.page_out(incident, TITLE).json()["investigation_id"]
    story.wait_for(
        lambda: bool(story.pagerduty.incidents[incident].notes), within_s=WITHIN_S, what="a note"
    )
    story.wait_for(
        lambda: any(_key(m) == f"{name}:slack" for m in story.answers()),
        within_s=WITHIN_S,
        what="an answer in Slack",
    )
    return name


def _key(message: Any) -> str:
    return str((message.metadata or {})["event_payload"]["key"])


def downloaded(story: Story, investigation: str, into: Path) -> Path:
    archive = httpx.get(f"{story.bot.url}/investigations/{investigation}/case.zip", timeout=30)
    with zipfile.ZipFile(io.BytesIO(archive.content)) as zipped:
        zipped.extractall(into)
    return into / investigation


@pytest.mark.timeout(900)
def test_the_second_answer_to_an_alert_names_the_first_and_whether_it_holds(
    story: Story, tmp_path: Path
) -> None:
    first, second = investigated(story, "P1"), investigated(story, "P2")
    assert first != second
    before, after = (downloaded(story, name, tmp_path) for name in (first, second))
    assert not (before / "earlier.json").exists()

    told = next(f for f in read_diagnosis(after).findings if f.kind == KIND)
    assert re.match(r"Second time in 30 days, last on \d+ \w+: checkout ", told.sentence)
    assert told.sentence.endswith(", and it shows again now, with the same deploy.")
    assert told.details.written()["investigation"] == first
    assert told.details.written()["shows_in"]

    one, two = read_diagnosis(before), read_diagnosis(after)
    assert two.model_copy(update={"findings": one.findings}) == one
    assert two.findings == (*one.findings, told)
    claim = next(c for c in read_report(after).claims if told.id in c.findings)
    assert set(told.details.written()["shows_in"]) <= set(claim.findings)
    assert json_bytes(diagnose(read_case(after))) == (after / "findings.json").read_bytes()

    note = story.pagerduty.incidents["P2"].notes[0].content
    assert told.sentence.rstrip(".") in note
    slack = next(m for m in story.answers() if _key(m) == f"{second}:slack")
    assert f"/investigations/{first}" in str(slack.blocks)
    page = httpx.get(f"{story.bot.url}/investigations/{second}", timeout=30).text
    assert f'href="/investigations/{first}"' in page
    found = httpx.get(story.bot.url, params={"q": "checkout latency"}, timeout=30).text
    assert first in found
    assert second in found


@pytest.mark.timeout(900)
def test_an_answer_that_people_marked_wrong_is_told_as_such_the_next_time(
    story: Story, tmp_path: Path
) -> None:
    wrong = investigated(story, "P3")
    with httpx.Client(base_url=story.bot.url, timeout=30) as browser:
        form = {
            **form_of(browser, f"/investigations/{wrong}"),
            "right": "no",
            "cause": "a lost cache",
            "who": "ann",
        }
        assert browser.post(f"/investigations/{wrong}/judgement", data=form).status_code == 303
    folder = downloaded(story, investigated(story, "P4"), tmp_path)
    told = next(f for f in read_diagnosis(folder).findings if f.kind == KIND)
    assert told.sentence.endswith('the answer was marked wrong; the cause was "a lost cache".')
    assert json_bytes(diagnose(read_case(folder))) == (folder / "findings.json").read_bytes()
