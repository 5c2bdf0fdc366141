"""A program asks over the API, follows the events and reads the answer, which a worker made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from faultline.analysis.case.folder import read_diagnosis
from tests.scenarios.bot_story import Story, bot_story
from tests.scenarios.small_case import write_small_case

ALL = "/api/investigations"
WITHIN_S = 180.0


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("story")


@pytest.fixture(scope="module")
def story(directory: Path) -> Iterator[Story]:
    with bot_story(directory, write_small_case(directory / "case"), "sqlite") as running:
        yield running


def test_from_a_request_to_the_answer_that_the_worker_wrote(story: Story, directory: Path) -> None:
    with httpx.Client(base_url=story.bot.url, timeout=WITHIN_S) as client:
        asked = {"question": "checkout is slow", "service": "checkout", "since": "30m"}
        key = {"idempotency-key": "pipeline-77"}
        started = client.post(ALL, json=asked, headers=key).json()
        one = f"{ALL}/{started['id']}"
        with client.stream("GET", f"{one}/events") as stream:
            lines = list(stream.iter_lines())
        said = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
        assert any(one.get("stage", "").startswith("collect") for one in said), said
        assert said[-1] == {"status": "done"}
        shown = client.get(one).json()
        answer = client.get(f"{one}/answer").json()
        folder = next((directory / "state").rglob(started["id"]))
        diagnosis = read_diagnosis(folder)
        assert (answer["verdict"], answer["confidence"]) == (
            diagnosis.verdict.value,
            diagnosis.confidence,
        )
        assert answer["headline"] == shown["headline"]
        findings = client.get(f"{one}/findings").json()["findings"]
        assert [f["id"] for f in findings] == [f.id for f in diagnosis.findings]
        for finding in findings:
            assert client.get(f"{one}/findings/{finding['id']}").status_code == 200
        kept = client.post(f"{one}/feedback", json={"right": True}).json()
        assert kept["right"] is True
        again = client.post(ALL, json=asked, headers=key)
        assert (again.status_code, again.json()["id"]) == (200, started["id"])
