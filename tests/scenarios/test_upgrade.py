"""Workers are replaced one after the other while investigations run: nothing is lost, nothing is
doubled."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from faultline.loopback.preloaded import PreloadedProgram
from tests.scenarios.bot_story import Story, bot_story
from tests.scenarios.small_case import write_small_case

ALERTS = 5
ENDS_WITHIN_S = 60


@contextmanager
def worker(story: Story, directory: Path, **environ: str) -> Iterator[PreloadedProgram]:
    """One more worker of the story's bot; killed at the end where it still runs."""
    process = PreloadedProgram(["worker"], env={**story.bot.environ, **environ}, cwd=directory)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def stop(process: PreloadedProgram) -> int:
    """Ask it to end, as an orchestrator does."""
    process.send_signal(signal.SIGTERM)
    return process.wait(ENDS_WITHIN_S)


def test_workers_are_replaced_in_the_midst_of_investigations(
    tmp_path: Path, postgres_url: str
) -> None:
    case = write_small_case(tmp_path / "case")
    settings = {"FAULTLINE_WORKER__GRACE_S": "20", "FAULTLINE_WORKER__CONCURRENCY": "2"}
    hasty = {"FAULTLINE_WORKER__GRACE_S": "0"}
    with bot_story(tmp_path, case, postgres_url, serve=("--no-worker",), **settings) as story:
        story.slack.traffic.delay_before_s = 0.3
        incidents = [f"P{number:03d}" for number in range(ALERTS)]
        with worker(story, tmp_path, **hasty) as first, worker(story, tmp_path) as second:
            for incident in incidents:
                assert story.page_out(incident).status_code == 202
            story.wait_for(lambda: story.store.count("running") >= 4, what="investigations run")
            # This one leaves what it runs to others, the second one finishes what it runs.
            assert stop(first) == 0
            with worker(story, tmp_path):
                story.wait_for(
                    lambda: story.store.count("done") >= ALERTS // 2, what="half of them answered"
                )
                assert stop(second) == 0
                story.wait_for(
                    lambda: answered(story) == ALERTS, what="all answered in both places"
                )
        keys = Counter((m.metadata or {})["event_payload"]["key"] for m in story.slack.posts)
        assert (len(keys), set(keys.values())) == (ALERTS, {1})
        assert {len(story.pagerduty.incidents[i].notes) for i in incidents} == {1}
        assert story.store.count("done") == ALERTS


def answered(story: Story) -> int:
    notes = sum(1 for incident in story.pagerduty.incidents.values() if incident.notes)
    return min(len(story.answers()), notes)
