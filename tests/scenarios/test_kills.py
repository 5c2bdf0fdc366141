"""Kill -9 at any moment: every accepted alert is answered, and answered once."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from faultline.loopback.server import Moment, Traffic
from tests.scenarios.bot_story import Story, bot_story
from tests.scenarios.small_case import write_small_case

KILLS = int(os.environ.get("FAULTLINE_KILLS", "8"))
"""Half of them at calls, before or after they took effect, the others at any moment. With the
variable as many as it says, 28 and more for every call, and on both engines: by default PostgreSQL
has its kills in test_chaos.py."""
ENGINES = ["sqlite", "postgresql"] if "FAULTLINE_KILLS" in os.environ else ["sqlite"]
SETTLE_S = 240.0

SLACK_CALLS = (
    "chat.postMessage",
    "files.getUploadURLExternal",
    "upload",
    "files.completeUploadExternal",
    "chat.update",
)
PAGERDUTY_CALLS = ("list notes", "create note")
POINTS: list[tuple[str, str, Moment]] = [
    *(("slack", call, moment) for call in SLACK_CALLS for moment in ("before", "after")),  # type: ignore[misc]
    *(("pagerduty", call, moment) for call in PAGERDUTY_CALLS for moment in ("before", "after")),  # type: ignore[misc]
]
LOST_TWICE: list[tuple[str, str, Moment]] = [
    ("slack", "chat.postMessage", "after"),
    ("pagerduty", "create note", "after"),
]
"""Where a post is made and not yet known of: first of all."""
DELAYS_S = [0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9, 1.2]
SERVER_EVERY = 9
"""Each ninth kill takes the web process too."""


class Trap:
    """Kills the worker when a vendor sees a call at a moment."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._armed: tuple[str, str, Moment] | None = None
        self.sprung = threading.Event()
        self.kills: Counter[str] = Counter()
        for vendor, traffic in (
            ("slack", story.slack.traffic),
            ("pagerduty", story.pagerduty.traffic),
        ):
            self._watch(vendor, traffic)

    def arm(self, point: tuple[str, str, Moment]) -> None:
        """Kill at the next call of that name."""
        self.sprung.clear()
        self._armed = point

    def kill_worker(self, why: str) -> bool:
        """Kill the worker now."""
        pid = self._story.bot.worker_pid()
        if pid is None:
            return False
        os.kill(pid, signal.SIGKILL)
        self.kills[why] += 1
        return True

    def _watch(self, vendor: str, traffic: Traffic) -> None:
        def hook(call: str, moment: Moment) -> None:
            if self._armed == (vendor, call, moment):
                self._armed = None
                self.kill_worker(f"{vendor} {call} {moment}")
                self.sprung.set()

        traffic.hook = hook


@pytest.mark.kills
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("database_url", ENGINES, indirect=True)
def test_no_alert_is_lost_and_none_is_answered_twice(tmp_path: Path, database_url: str) -> None:
    case = write_small_case(tmp_path / "case")
    with bot_story(tmp_path, case, database_url) as story:
        trap = Trap(story)
        points = [*LOST_TWICE, *(point for point in POINTS if point not in LOST_TWICE)]
        incidents = []
        while trap.kills.total() < KILLS:
            number = len(incidents)
            incidents.append(f"P{number:04d}")
            _provoke_and_kill(story, trap, number, incidents[-1], points)
            assert number < 2 * KILLS, f"the traps hardly ever sprang: {trap.kills}"
        story.wait_for(
            lambda: _answered(story) >= len(incidents),
            within_s=SETTLE_S,
            what=f"{len(incidents)} answers in both places",
        )
        per_alert = Counter((m.metadata or {})["event_payload"]["key"] for m in story.slack.posts)
        assert len(per_alert) == len(incidents)
        assert set(per_alert.values()) == {1}
        assert {i: len(story.pagerduty.incidents[i].notes) for i in incidents} == dict.fromkeys(
            incidents, 1
        )
        assert story.store.count() == len(incidents)
        assert story.store.count("done") == len(incidents)


def _provoke_and_kill(
    story: Story, trap: Trap, number: int, incident: str, points: Sequence[tuple[str, str, Moment]]
) -> None:
    point = points[(number // 2) % len(points)] if number % 2 == 0 else None
    if point:
        trap.arm(point)
    assert story.page_out(incident).status_code == 202
    if number % SERVER_EVERY == SERVER_EVERY - 1:
        story.bot.kill()
        trap.kills["server"] += 1
        story.bot.start()
    elif point:
        trap.sprung.wait(15)
    else:
        threading.Event().wait(DELAYS_S[(number // 2) % len(DELAYS_S)])
        trap.kill_worker("at a time")


def _answered(story: Story) -> int:
    notes = sum(1 for incident in story.pagerduty.incidents.values() if incident.notes)
    return min(len(story.answers()), notes)
