"""Plays incidents: breaks the shop, waits for the alert and the bot's answer, grades, repairs."""

from __future__ import annotations

import io
import json
import queue
import random
import threading
import time
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx

from faultline.analysis.vocabulary import Diagnosis
from faultline.lab.live.grading import LiveGrade, grade_answer
from faultline.lab.live.relay import SentPage
from faultline.lab.live.truth import LiveTruth
from faultline.lab.live.watched_shop import WatchedShop
from faultline.lab.shop.changes import ChangeDesk
from faultline.lab.shop.faults import BrokenShop, ShopIncident, draw, switch_on
from faultline.loopback.slack import SlackedMessage

HARMLESS_EVERY_SCRAPES = 45.0
"""Mean time between harmless changes."""
DECOY_SHARE = 0.5
"""Incidents with a harmless change of another service shortly before the fault."""
DECOY_SCRAPES = (1.0, 5.0)
ALERT_WITHIN_SCRAPES = 24
ALERT_WITHIN_LEAST_S = 60.0
ANSWER_WITHIN_S = 240.0
REPAIRED_WITHIN_SCRAPES = 40
Say = Callable[[str], None]


class IncidentPlayer:
    """Plays one incident after another in one shop."""

    def __init__(self, watched: WatchedShop, seed: int, say: Say) -> None:
        self._watched = watched
        self._rng = random.Random(f"play {seed}")
        self._say = say
        self.desk = ChangeDesk(watched.shop, random.Random(f"changes {seed}"), watched.publish)
        self._changing = threading.Lock()

    @property
    def _interval_s(self) -> float:
        return self._watched.shop.options.interval_s

    def harmless_changes(self) -> AbstractContextManager[None]:
        """Deploys, flags and settings at random, from another thread."""
        mean_s = HARMLESS_EVERY_SCRAPES * self._interval_s
        rng = random.Random(f"pauses {self._rng.random()}")
        return self.desk.harmless_all_day(mean_s, rng, self._changing)

    def play(
        self,
        number: int,
        seed: int,
        fault: str | None = None,
        answered: Callable[[PlayedIncident], None] = lambda _: None,
    ) -> PlayedIncident:
        """Draw, seal, break, wait, grade, call `answered`, repair."""
        incident = draw(self._watched.shop, seed, fault)
        truth = LiveTruth.of(incident)
        self._say(f"incident {number}: sealed as {truth.seal[:16]}")
        # An alert of the previous incident would be taken for this one's.
        self._wait_until_calm(REPAIRED_WITHIN_SCRAPES)
        self._maybe_decoy(incident)
        self._watched.relay.arm()
        began = time.monotonic()
        with self._changing:
            broken = switch_on(self._watched.shop, incident, self.desk)
        try:
            played = self._answered(number, truth, broken, began)
            answered(played)
        finally:
            self._watched.relay.disarm()
            with self._changing:
                broken.undo()
        self._wait_until_calm(REPAIRED_WITHIN_SCRAPES)
        if played.page is not None:
            self._watched.relay.resolve(played.page)
        return played

    def _maybe_decoy(self, incident: ShopIncident) -> None:
        """A harmless change that a careless reader would blame."""
        if self._rng.random() >= DECOY_SHARE:
            return
        with self._changing:
            # The culprit's own service gets none: there it would be a fair suspect.
            self.desk.harmless(avoid=incident.target)
        time.sleep(self._rng.uniform(*DECOY_SCRAPES) * self._interval_s)

    def _answered(
        self, number: int, truth: LiveTruth, broken: BrokenShop, began: float
    ) -> PlayedIncident:
        limit_s = max(ALERT_WITHIN_LEAST_S, ALERT_WITHIN_SCRAPES * self._interval_s)
        try:
            page = self._watched.relay.pages.get(timeout=limit_s)
        except queue.Empty:
            problem = f"no alert within {limit_s:g} s"
            return PlayedIncident(LiveGrade(number, truth, problem=problem))
        self._say(f"  alert after {page.sent_at - began:.0f} s: {page.title}")
        message = self._final_message(page)
        if message is None:
            grade = LiveGrade(number, truth, problem="no answer", alert=page.title)
            return PlayedIncident(grade, page)
        answered = time.monotonic()
        archive = self._case_of(page)
        diagnosis = Diagnosis.model_validate_json(_file_of(archive, "findings.json"))
        grade = grade_answer(
            number,
            truth,
            diagnosis,
            broken.change,
            alert=page.title,
            alert_after_s=round(page.sent_at - began, 1),
            answer_after_s=round(answered - page.sent_at, 1),
            investigation=page.investigation,
            cpu_pressure=cpu_pressure(),
        )
        decoys = tuple(change.id for change in self.desk.made if change.id != broken.change)
        return PlayedIncident(grade, page, message, archive, truth.label(broken.change, decoys))

    def _final_message(self, page: SentPage) -> SlackedMessage | None:
        """The bot's message in Slack, once the incident's note says that it is final."""
        # Slack first shows "Investigating"; the note is written when the answer is final.
        deadline = time.monotonic() + ANSWER_WITHIN_S
        key = f"{page.investigation}:slack"
        while time.monotonic() < deadline:
            if self._watched.pagerduty.incidents[page.incident].notes:
                for message in self._watched.slack.posts:
                    payload: Any = (message.metadata or {}).get("event_payload", {})
                    if payload.get("key") == key and len(message.versions) > 1:
                        return message
            time.sleep(0.1)
        return None

    def _case_of(self, page: SentPage) -> bytes:
        """The case folder as the bot's page gives it, zipped."""
        url = f"{self._watched.bot.url}/investigations/{page.investigation}/case.zip"
        return httpx.get(url, timeout=30).raise_for_status().content

    def _wait_until_calm(self, most_scrapes: float) -> None:
        """Until no alert is pending or fires, or that many scrapes have passed."""
        deadline = time.monotonic() + most_scrapes * self._interval_s
        while self._is_alerting() and time.monotonic() < deadline:
            time.sleep(min(1.0, self._interval_s))

    def _is_alerting(self) -> bool:
        return bool(self._watched.shop.prometheus.value("count(ALERTS)"))


class PlayedIncident:
    """One incident with everything that it left."""

    def __init__(
        self,
        grade: LiveGrade,
        page: SentPage | None = None,
        message: SlackedMessage | None = None,
        archive: bytes = b"",
        label: dict[str, object] | None = None,
    ) -> None:
        self.grade = grade
        self.page = page
        self.message = message
        self._archive = archive
        self._label = label

    def save(self, folder: Path) -> None:
        """A case folder with its label, for `faultline eval`."""
        if not self._archive:
            return
        case = folder / f"live-shop-{self.grade.number:04d}"
        case.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(io.BytesIO(self._archive)) as zipped:
            for name in zipped.namelist():
                # The archive holds one folder; its files lie in ours.
                inside = Path(*Path(name).parts[1:]) if "/" in name else Path(name)
                target = case / inside
                if name.endswith("/") or ".." in inside.parts:
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(zipped.read(name))
        (case / "label.json").write_text(json.dumps(self._label, indent=1))


def cpu_pressure() -> float | None:
    """Share of the last minute in which some process of this machine waited for a CPU (Linux' PSI);
    None where the kernel does not tell."""
    try:
        line = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except (OSError, IndexError):
        return None
    return float(dict(part.split("=") for part in line.split()[1:])["avg60"]) / 100


def _file_of(archive: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as zipped:
        namelist = next(member for member in zipped.namelist() if Path(member).name == name)
        return zipped.read(namelist)
