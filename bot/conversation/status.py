"""`status`: what is running, what waits, whether the sources answer, and the last answers that may
be shown here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from faultline.analysis.wording.phrases import counted, plain
from faultline.bot.answer.lines import at
from faultline.bot.answer.view import VERDICT_LABELS
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.policy.values import ENDED
from faultline.bot.store.store import StoredInvestigation
from faultline.connectors.asking import bounded
from faultline.connectors.shared.contract.base import Check, Connector

CHECK_WITHIN_S = 5.0
CHECKED_FOR_S = 60.0
"""Vendors are asked again only after this time, however often somebody asks us."""
LAST = 5
RUNNING = 5


class Health:
    """Whether each connector answers, remembered for a minute."""

    def __init__(self, connectors: Sequence[Connector]) -> None:
        self._connectors = connectors
        self._checks: list[Check] = []
        self._at = float("-inf")
        self._asking = asyncio.Lock()

    async def checks(self) -> list[Check]:
        """One per connector, side by side."""
        # One check serves everybody who asks meanwhile.
        async with self._asking:
            if time.monotonic() - self._at > CHECKED_FOR_S:
                probes = [bounded(c.name, c.check, CHECK_WITHIN_S) for c in self._connectors]
                self._checks = list(await asyncio.gather(*probes))
                self._at = time.monotonic()
            return self._checks


def status_text(
    counts: dict[str, int],
    questions: int,
    checks: Sequence[Check],
    here: Sequence[StoredInvestigation],
    *,
    where: str,
) -> AnswerText:
    """`counts` are of all investigations by status; `here` those that may be named, the newest
    first."""
    running, waiting = counts.get("running", 0), counts.get("accepted", 0)
    phrase = f"{counted(running, 'investigation')} running, {waiting} waiting"
    phrase += f", {counted(questions, 'question')} besides this one." if questions else "."
    lines = [
        _running(investigation)
        for investigation in here
        if investigation.status in ("running", "accepted")
    ][:RUNNING]
    answered = [investigation for investigation in here if investigation.status in ENDED][:LAST]
    lines += [_answered(investigation) for investigation in answered]
    broken, partial, good = [], [], []
    for check in checks:
        if not check.ok:
            line = plain(check.line, 200)
            broken.append(AnswerLine(text=line, bold=f"Not working: {check.name}"))
            continue
        good.append(check.name)
        if check.unread:
            unread = plain("; ".join(check.unread), 200)
            partial.append(AnswerLine(text=unread, bold=f"Works in part: {check.name}"))
    lines += [*broken, *partial]
    if good:
        lines.append(AnswerLine(text=", ".join(good), bold="Sources that answer"))
    more = (f"By name: investigations {where}",) if lines else ()
    return AnswerText(lead=phrase, lines=tuple(lines), more=more)


def _running(investigation: StoredInvestigation) -> AnswerLine:
    word = "Running" if investigation.status == "running" else "Waiting"
    return AnswerLine(
        text=f"{plain(investigation.alert.title, 160)}, since {at(investigation.accepted_at)}",
        bold=f"{word} {investigation.id}",
    )


def _answered(investigation: StoredInvestigation) -> AnswerLine:
    verdict = next(
        (
            label
            for verdict_kind, label in VERDICT_LABELS.items()
            if verdict_kind.value == investigation.verdict
        ),
        "Failed",
    )
    title, headline = (
        plain(investigation.alert.title, 120),
        plain(investigation.headline or "", 200),
    )
    return AnswerLine(
        text=f"{title} - {headline}" if headline else title, bold=f"{verdict} {investigation.id}"
    )
