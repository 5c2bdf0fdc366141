"""The pages about the bot itself: how often it was right, and how it is."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response

from faultline.analysis.case.folder import read_case, read_diagnosis
from faultline.analysis.errors import FaultlineError
from faultline.analysis.kinds.finding_details import changes_named
from faultline.analysis.vocabulary import Diagnosis, Scope, Verdict
from faultline.bot.answer.writer.plain_text import folded, position_of
from faultline.bot.operating.credentials import Credentials, problem_of
from faultline.bot.operating.telemetry.readiness import Readiness
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.store.listing import AnswerLabel
from faultline.bot.store.passed_over import passed_over_messages
from faultline.bot.store.reports import Condition, judged_answers, read_condition
from faultline.bot.web.accuracy_view import ENOUGH, SIDE, accuracy_of
from faultline.bot.web.case_zip import CaseArchive
from faultline.bot.web.rendering import Site
from faultline.bot.web.sessions import visibility_of
from faultline.bot.web.text import duration

WAITS_TOO_LONG = timedelta(minutes=1)
"""A worker takes up an alert within a second; one that waits a minute finds all of them busy, or
none."""
LITTLE_ROOM = 1_000_000_000
"""Bytes: a case folder may be hundreds of megabytes."""


@dataclass(frozen=True)
class ConditionLine:
    """One line of the bot's condition."""

    name: str
    tone: Literal["well", "open", "fault"]
    text: str


class RecordPages:
    """The handlers."""

    def __init__(
        self,
        site: Site,
        credentials: Credentials | None = None,
        readiness: Readiness | None = None,
    ) -> None:
        self.site = site
        self.readiness = readiness
        self.credentials = credentials

    async def accuracy(self, request: Request) -> Response:
        """What people said of answers."""
        judged = await in_store(
            judged_answers, self.site.store.engine, visibility=visibility_of(request)
        )
        record = await in_thread(accuracy_of, judged)
        return self.site.page(request, "accuracy.html", record=record, enough=ENOUGH, side=SIDE)

    async def health(self, request: Request) -> Response:
        """The bot's own condition."""
        engine, visibility = self.site.store.engine, visibility_of(request)
        condition = await in_store(read_condition, engine, visibility)
        passed_over = await in_store(passed_over_messages, engine, visibility)
        now = datetime.now(UTC)
        lines = condition_lines(condition, now)
        lines += await in_thread(_room, self.site.settings.store.directory)
        if self.readiness is not None:
            lines += intake_lines(self.readiness, now)
        lines += credential_lines(self.credentials)
        return self.site.page(
            request,
            "health.html",
            now=now,
            condition=condition,
            lines=lines,
            times=_times(condition),
            passed_over=passed_over,
            backend=self._backend(),
        )

    def _backend(self) -> str:
        return {"sqlite": "SQLite", "postgresql": "PostgreSQL"}.get(
            self.site.store.engine.dialect.name, ""
        )


def condition_lines(condition: Condition, now: datetime) -> list[ConditionLine]:
    """Queue and workers in words."""
    running, failed = condition.counts.get("running", 0), condition.counts.get("failed", 0)
    waiting = condition.counts.get("accepted", 0)
    waits = now - condition.waiting_since if condition.waiting_since else timedelta()
    late = waits > WAITS_TOO_LONG
    queue = f"{waiting} waiting, the oldest for {_seconds(waits)}" if waiting else "nothing waits"
    if condition.last_sign is None:
        sign = ConditionLine("Worker", "open", "no line of progress yet")
    else:
        ago = f"last line of progress {_seconds(now - condition.last_sign)} ago"
        # An idle worker writes nothing, so its silence counts only while there is work.
        busy = bool(running or waiting) and now - condition.last_sign > WAITS_TOO_LONG
        sign = ConditionLine(
            "Worker", "open" if busy and not late else "fault" if late and busy else "well", ago
        )
    return [
        ConditionLine("Queue", "fault" if late else "well", queue),
        sign,
        ConditionLine("Running", "well", f"{running} investigation{'' if running == 1 else 's'}"),
        ConditionLine(
            "Without an answer",
            "open" if failed else "well",
            f"{failed} failed of {sum(condition.counts.values())}",
        ),
    ]


def _times(condition: Condition) -> tuple[float, float] | None:
    """Median and 95th percentile, in seconds."""
    answer_s = condition.answer_s
    return (
        (answer_s[len(answer_s) // 2], answer_s[min(len(answer_s) - 1, int(0.95 * len(answer_s)))])
        if answer_s
        else None
    )


def _room(directory: Path) -> list[ConditionLine]:
    try:
        # The directory may not exist yet.
        free = shutil.disk_usage(directory if directory.exists() else Path.cwd()).free
    except OSError:
        return []
    phrase = f"{free / 1e9:,.1f} GB free"
    return [ConditionLine("Disk", "fault" if free < LITTLE_ROOM else "well", phrase)]


def intake_lines(readiness: Readiness, now: datetime) -> list[ConditionLine]:
    """How alerts get into the database, and whether the monitoring is heard of."""
    lines: list[ConditionLine] = []
    intake, watchdog = readiness.intake, readiness.watchdog
    if intake is not None:
        figures = intake.spool.figures()
        if figures.problem:
            lines.append(ConditionLine("Spool", "fault", f"takes no alerts: {figures.problem}"))
        elif figures.oldest_at is not None:
            waits = _seconds(now - figures.oldest_at)
            phrase = f"{figures.alerts} alerts wait for the store, the oldest for {waits}"
            late = intake.not_storing() is not None
            lines.append(ConditionLine("Spool", "fault" if late else "open", phrase))
        else:
            lines.append(ConditionLine("Spool", "well", "no alert waits for the store"))
        if figures.refused:
            phrase = f"{figures.refused} refused by the store: `faultline doctor` names the file"
            lines.append(ConditionLine("Refused alerts", "fault", phrase))
    silent = watchdog.silent_s(now) if watchdog is not None else None
    if watchdog is not None and silent is not None:
        missing = watchdog.missing(now)
        phrase = f"arrived {_seconds(timedelta(seconds=silent))} ago"
        lines.append(ConditionLine("Watchdog", "fault" if missing else "well", missing or phrase))
    return lines


def credential_lines(credentials: Credentials | None) -> list[ConditionLine]:
    """What is known about the rights of the connectors' credentials."""
    if credentials is None or not credentials.checks:
        return []
    problems = [(c, problem) for c in credentials.checks if (problem := problem_of(c)) is not None]
    if not problems:
        return [ConditionLine("Credentials", "well", "each can read, and none is known to do more")]
    return [
        ConditionLine(f"Credential of {c.name}", "open" if c.ok else "fault", problem)
        for c, problem in problems
    ]


def _seconds(length: timedelta) -> str:
    return duration(max(0, round(length.total_seconds())))


# Judged answers as labelled cases, for `faultline eval`: each case folder with a label.json of what
# people said.

NAME = "incident"
"""What folders are called, before the investigation's id: the name of the system in a table of
grades."""
SHORTEST_CHANGE = 7
"""Characters of a change's id that name it; as Git abbreviates its own."""


def truth_of(label: AnswerLabel, diagnosis: Diagnosis, scope: Scope) -> dict[str, Any]:
    """The content of label.json: the answer where it was right, else what the judge's words name of
    the case."""
    label_fields = {"dataset": "judged", "origin": label.investigation_id, "cause": label.cause}
    if not label.right:
        truth = {
            "subject": _subject_in(label.cause, diagnosis, scope),
            "change": _change_in(label.cause, diagnosis),
        }
    elif diagnosis.verdict in (Verdict.CAUSE_FOUND, Verdict.RECOVERED):
        cause = diagnosis.first_cause
        named = (
            {"subject": cause.subject, "fault": cause.kind, "change": cause.change} if cause else {}
        )
        truth = {**named, "verdict": diagnosis.verdict.value}
    else:
        truth = {"verdict": diagnosis.verdict.value}
    return {name: value for name, value in (label_fields | truth).items() if value}


def add_labelled(archive: CaseArchive, folder: Path, label: AnswerLabel) -> Iterator[bytes]:
    """One judged case with its label, in pieces of the archive. A case that cannot be read gives
    none."""
    try:
        truth = truth_of(label, read_diagnosis(folder), read_case(folder).scope)
    except (FaultlineError, OSError):
        return
    name = f"{NAME}-{label.investigation_id}"
    yield from archive.add_case(folder, name)
    yield archive.add_file(
        f"{name}/label.json", json.dumps(truth, indent=1, ensure_ascii=True).encode()
    )


def _subject_in(text: str, diagnosis: Diagnosis, scope: Scope) -> str | None:
    """The name of the case that the text names first, the longest where one holds another."""
    names = {*scope.services, *diagnosis.impact.services, *(f.subject for f in diagnosis.findings)}
    names |= {c.subject for c in diagnosis.causes}
    folded_text = folded(text)
    # The minus prefers the longer of two names at one position.
    positions = [(position_of(folded(n), folded_text), -len(n), n) for n in names if n.strip()]
    return min((f for f in positions if f[0] >= 0), default=(0, 0, None))[2]


def _change_in(text: str, diagnosis: Diagnosis) -> str | None:
    """The change that the text names by its id or the id's beginning."""
    words = {word.strip(".,;:()\"'").casefold() for word in text.split()}
    changes = changes_named(diagnosis.findings)
    for change in sorted(changes):
        low = change.casefold()
        if low in words or any(len(w) >= SHORTEST_CHANGE and low.startswith(w) for w in words):
            return change
    return None
