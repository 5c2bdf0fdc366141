"""Takes the pictures of docs/slack.md: the recorded job's answer and what stands behind its
buttons, from real blocks.

python docs/slack_pictures.py    needs chromium on PATH
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from PIL import Image, ImageChops

sys.path.insert(0, str(Path(__file__).parents[1]))

from faultline.analysis.case.earlier import RecordLevel
from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.pictures.png import answer_png
from faultline.bot.answer.replay import Replayed, replay
from faultline.bot.answer.targets.slack.buttons import AnswerStatus
from faultline.bot.answer.targets.slack.message import SlackMessage, final_message
from faultline.bot.answer.targets.slack.pictures import to_html, view_to_html
from faultline.bot.answer.view import answer_view
from faultline.bot.conversation.slack.evidence_modal import EvidenceShown, evidence_modal
from faultline.bot.conversation.slack.forms import FormFor, suspects_of, wrong_modal
from faultline.bot.conversation.slack.home import Home, home_view
from faultline.bot.store.listing import AnswerLabel
from faultline.bot.store.store import GroupedAlert, ReplyTo, StoredInvestigation
from faultline.bot.store.suppressed_alerts import Mute
from faultline.connectors.shared.contract.base import Check
from faultline.demo.run import CASE, recorded_cases

IMAGES = Path(__file__).parent / "images"
SCALE, COLOURS = 1.5, 160
MAX_BYTES = 150_000
AT = datetime(2026, 11, 21, 5, 34, 49, tzinfo=UTC)
HOST = "https://faultline.example.com"
NAME = "20261121-053449-857a3c"
CHART = "F000000001"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
]


def photograph(html: str, name: str, width: int, height: int = 2400) -> None:
    """One PNG, as tall as what it shows, in few colours."""
    with tempfile.TemporaryDirectory() as scratch:
        page, shot = Path(scratch) / "page.html", Path(scratch) / "shot.png"
        page.write_text(html, encoding="utf-8")
        command = [
            "chromium",
            *FLAGS,
            f"--user-data-dir={scratch}/profile",
            f"--window-size={width},{height}",
        ]
        command += [f"--force-device-scale-factor={SCALE}", f"--screenshot={shot}", page.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        with Image.open(shot) as taken:
            picture = taken.convert("RGB")
    empty = Image.new(
        "RGB", picture.size, picture.getpixel((picture.width - 1, picture.height - 1))
    )
    shown = ImageChops.difference(picture, empty).getbbox()
    bottom = min(picture.height, (shown[3] if shown else picture.height) + round(16 * SCALE))
    small = picture.crop((0, 0, picture.width, bottom)).quantize(
        COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE
    )
    small.save(IMAGES / name, optimize=True)
    size = (IMAGES / name).stat().st_size
    assert size < MAX_BYTES, f"{name} has {size} bytes"


def an_investigation(replayed: Replayed, **more: object) -> StoredInvestigation:
    """The recorded job's, as the store would give it."""
    made = StoredInvestigation(
        id=NAME,
        alert=replayed.case.alert,
        question=None,
        status="done",
        repeats=0,
        reply_to=ReplyTo(),
        accepted_at=AT,
        started_at=AT,
        finished_at=AT + timedelta(seconds=9),
        resolved_at=None,
        verdict=replayed.diagnosis.verdict.value,
        confidence=replayed.diagnosis.confidence,
        headline=replayed.report.headline,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def answer(
    replayed: Replayed, investigation: StoredInvestigation, status: AnswerStatus, chart: str | None
) -> SlackMessage:
    """The answer's message."""
    case = replayed.case
    page = f"{HOST}/investigations/{NAME}"
    return final_message(
        investigation,
        answer_view(
            investigation.alert,
            replayed.diagnosis,
            replayed.report,
            gaps=case.gaps,
            evidence=case.evidence,
        ),
        page,
        chart,
        status=status,
    )


def storm(alert: Alert) -> tuple[GroupedAlert, ...]:
    """Alerts that joined it."""
    joined = (
        ("Training throughput below objective: pretrain-ranker", "the same training job"),
        ("GPU utilisation below 40 %: gpu-node-03", "a host of the training job"),
        ("Object store read latency above 50 ms: shard-2", "pretrain-ranker reads from it"),
        ("Checkpoint overdue: pretrain-ranker", "the same training job"),
        ("Ranker freshness SLO at risk", "ranker depends on pretrain-ranker"),
        (
            "Training throughput below objective: pretrain-ranker-canary",
            "the same words, 40 s later",
        ),
    )
    return tuple(
        GroupedAlert(alert.model_copy(update={"title": title}), f"{n:016x}", AT, why, repeats=n % 2)
        for n, (title, why) in enumerate(joined)
    )


def a_home(replayed: Replayed) -> Home:
    """A Home tab on a usual day."""
    first = an_investigation(replayed)

    def earlier(minutes: int, title: str, **more: object) -> StoredInvestigation:
        alert = first.alert.model_copy(update={"title": title})
        at = AT - timedelta(minutes=minutes)
        return replace(first, id=f"{at:%Y%m%d-%H%M%S}-0a1b2c", alert=alert, accepted_at=at, **more)  # type: ignore[arg-type]

    latest = [
        earlier(
            -2, "checkout error ratio above 5 %", status="running", verdict=None, confidence=None
        ),
        first,
        earlier(95, "payments p99 latency above 800 ms", verdict="recovered", confidence=0.71),
        earlier(230, "disk of db-2 above 90 %", verdict="no_active_incident", confidence=0.64),
        earlier(410, "search 5xx above 1 %", verdict="insufficient_evidence", confidence=0.31),
    ]
    answer_label = AnswerLabel(NAME, True, "", "ann (U0ANN)", AT)
    mute = Mute(
        "f" * 16,
        "disk of db-2 above 90 %",
        AT,
        AT + timedelta(hours=8),
        "bob (U0BOB)",
        "being extended",
        14,
        AT,
    )
    names = ("store", "cases", "inbound", "prometheus", "kubernetes", "github", "replies", "model")
    checks = [Check(n, True, "") for n in names] + [
        Check("loki", False, "cannot be reached (connection refused)")
    ]
    record = [RecordLevel(level=8, right=17, of=19), RecordLevel(level=6, right=7, of=10)]
    now = AT + timedelta(minutes=4)
    return Home(now, latest, {NAME: answer_label}, 0, 1, checks, record, [mute], HOST)


def main() -> None:
    """All of them."""
    replayed = replay(recorded_cases() / CASE)
    diagnosis, case = replayed.diagnosis, replayed.case
    investigation = an_investigation(replayed)
    chart = answer_png(case, diagnosis)
    status = AnswerStatus(note="send")
    judged = AnswerStatus(
        label=AnswerLabel(NAME, True, "", "ann (U0ANN)", AT + timedelta(minutes=6)), note="update"
    )
    images = {CHART: chart} if chart else {}
    photograph(
        to_html(answer(replayed, investigation, status, CHART), images), "slack-answer.png", 720
    )
    dark = to_html(answer(replayed, investigation, judged, CHART), images, dark=True)
    photograph(dark, "slack-answer-dark.png", 720)
    page = f"{HOST}/investigations/{NAME}"
    evidence = evidence_modal(
        investigation, EvidenceShown(diagnosis, case.evidence, case.gaps), page
    )
    photograph(view_to_html(evidence), "slack-evidence.png", 640, 2000)
    wrong = wrong_modal(FormFor(NAME), investigation, suspects_of(diagnosis))
    photograph(view_to_html(wrong), "slack-wrong.png", 640, 720)
    photograph(view_to_html(home_view(a_home(replayed))), "slack-home.png", 800)
    stormy = an_investigation(replayed, related=storm(case.alert), repeats=3)
    photograph(to_html(answer(replayed, stormy, status, None)), "slack-storm.png", 720)


if __name__ == "__main__":
    main()
