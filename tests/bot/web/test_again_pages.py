"""What an investigation's page can start: the same again, a wider window, a replay, the job's trace
report."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from faultline.analysis.case.folder import read_case, read_diagnosis, write_json
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.errors import BudgetExceeded
from faultline.bot.store.follow_ups import FollowUps
from faultline.bot.web.replaying import MAX_WAITING, HeavyWork, analyse_again, compare
from faultline.demo.run import CASE, recorded_cases
from tests.bot.web.sample_case import ALERT, DIAGNOSIS
from tests.bot.web.serving import Site

Post = Callable[[str, dict[str, str]], httpx.Response]


@pytest.fixture
def post(browser: httpx.Client, sample: str) -> Post:
    """Sends a form with the value that our pages' forms carry."""

    def send(path: str, data: dict[str, str]) -> httpx.Response:
        found = re.search(
            r'name="csrf" value="([^"]+)"', browser.get(f"/investigations/{sample}").text
        )
        assert found is not None
        return browser.post(path, data={"csrf": found.group(1), **data}, timeout=120)

    return send


@pytest.fixture
def recorded(site: Site) -> str:
    """The id of a finished investigation of a recorded training job, with its traces."""
    case = recorded_cases() / CASE
    investigation_id = site.investigate(read_case(case).alert)
    folder = site.cases / investigation_id
    shutil.copytree(case, folder)
    write_json(folder / "findings.json", diagnose(read_case(folder)))
    site.store.finish(
        investigation_id, "done", verdict="cause_found", confidence=0.9, headline="a slow rank"
    )
    return investigation_id


def test_an_investigation_is_started_again_once_for_two_clicks(
    sample: str, site: Site, post: Post
) -> None:
    first = post(f"/investigations/{sample}/again", {"kind": "again"})
    assert first.status_code == 303
    fresh = first.headers["location"].rsplit("/", 1)[1]
    started = site.store.get(fresh)
    assert started is not None
    assert (started.alert, started.status) == (ALERT, "accepted")
    again = post(f"/investigations/{sample}/again", {"kind": "again"}).headers["location"]
    assert len(FollowUps(site.store.engine).started_from(sample)) <= 2
    assert again.startswith("/investigations/")


def test_a_wider_window_holds_the_old_one(
    sample: str, site: Site, post: Post, browser: httpx.Client
) -> None:
    answer = post(f"/investigations/{sample}/again", {"kind": "wider"})
    fresh = answer.headers["location"].rsplit("/", 1)[1]
    scope, old = (
        FollowUps(site.store.engine).scope(fresh),
        read_case(site.cases / sample).scope.incident,
    )
    assert scope is not None
    assert scope.window is not None
    assert scope.window.start < old.start
    assert scope.window.seconds > old.seconds
    assert f'href="/investigations/{sample}"' in browser.get(f"/investigations/{fresh}").text
    assert f'href="/investigations/{fresh}"' in browser.get(f"/investigations/{sample}").text


@pytest.mark.parametrize("kind", ["", "everything", "\x00"])
def test_what_else_is_asked_for_starts_nothing(
    sample: str, site: Site, post: Post, kind: str
) -> None:
    assert post(f"/investigations/{sample}/again", {"kind": kind}).status_code == 400
    assert site.store.count() == 1


def test_a_replay_says_that_nothing_changed_and_changes_nothing(
    recorded: str, sample: str, site: Site, post: Post, browser: httpx.Client
) -> None:
    stored = (site.cases / recorded / "findings.json").read_bytes()
    path = f"/investigations/{recorded}/replay"
    assert "Analyse it again" in browser.get(path).text
    assert post(path, {}).status_code == 303
    page = browser.get(path).text
    assert (
        "Today&#39;s analysis gives the same answer." in page
        or "Today's analysis gives the same answer." in page
    )
    assert (site.cases / recorded / "findings.json").read_bytes() == stored


def test_a_replay_says_what_differs(recorded: str, site: Site) -> None:
    folder = site.cases / recorded
    write_json(folder / "findings.json", DIAGNOSIS)
    found = compare(folder, analyse_again(folder))
    assert not found.same
    changed = {part.what: (part.then, part.now) for part in found.parts if not part.same}
    assert changed["cause 1"][0].startswith("The deploy of payment v412")
    assert changed["cause 2"][1] == "none"
    assert {f.id for f in found.gone} == {f.id for f in DIAGNOSIS.findings}
    assert found.new
    assert read_diagnosis(folder) == DIAGNOSIS


def test_a_case_that_cannot_be_read_is_not_replayed_and_says_why(
    sample: str, site: Site, post: Post
) -> None:
    (site.cases / sample / "scope.json").write_bytes(b"{")
    answer = post(f"/investigations/{sample}/replay", {})
    assert answer.status_code == 422
    assert "scope.json" in answer.text


def test_the_trace_report_of_a_job_is_a_page_under_its_own_policy(
    recorded: str, sample: str, browser: httpx.Client
) -> None:
    report = browser.get(f"/investigations/{recorded}/trace-report", timeout=120)
    assert report.status_code == 200
    assert "Trace report" in report.text
    policy = report.headers["content-security-policy"]
    assert "script-src 'sha256-" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert report.headers["x-content-type-options"] == "nosniff"
    none = browser.get(f"/investigations/{sample}/trace-report", timeout=120)
    assert none.status_code == 404
    assert "no traces of a training job" in none.text


def test_too_many_who_wait_are_told_to_come_back(tmp_path: Path) -> None:
    work = HeavyWork()

    async def everybody() -> list[object]:
        waits = [work.run(os.path.basename, tmp_path) for _ in range(MAX_WAITING + 1)]
        return await asyncio.gather(*waits, return_exceptions=True)

    try:
        answers = asyncio.run(everybody())
    finally:
        work.close()
    assert [type(a) for a in answers] == [str] * MAX_WAITING + [BudgetExceeded]
