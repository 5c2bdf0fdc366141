"""Everything that shows what others wrote: Slack's blocks, PagerDuty's notes, Markdown, the log."""

from __future__ import annotations

import contextlib
import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from faultline.analysis.vocabulary import Diagnosis, Report
from faultline.bot.answer.targets.pagerduty.note import note_text
from faultline.bot.answer.targets.slack.message import final_message, first_message
from faultline.bot.answer.view import answer_view
from faultline.bot.answer.writer.markdown import to_markdown
from faultline.bot.runtime.logs import JsonLines, TextLines
from faultline.loopback.block_kit_rules import broken_rules
from tests.bot.answer.targets.answers import (
    PAGE,
    a_diagnosis,
    a_gap,
    a_report,
    an_investigation,
    some_evidence,
)
from tests.fuzz.counting import Answer, Target, Try
from tests.fuzz.mutations import hostile
from tests.hostile.rendering import _foreign_addresses, _hidden, _in_markdown, _in_slack


def targets() -> list[Target]:
    """Answers with hostile text in any field, and the log."""
    return [Target("answers as shown", 1.0, _answers), Target("log lines", 0.6, _log_lines)]


@contextlib.contextmanager
def _answers(_scratch: Path) -> Iterator[Try]:
    diagnosis, report = a_diagnosis().model_dump(mode="json"), a_report().model_dump(mode="json")
    about = an_investigation()
    gap = a_gap()
    evidence = [one.model_copy(update={"link": None}) for one in some_evidence()]

    def one(rng: random.Random) -> Answer:
        try:
            bad = Diagnosis.model_validate(_texts_changed(rng, diagnosis))
            said = Report.model_validate(_texts_changed(rng, report))
        except ValidationError:
            return "refused"
        gaps = [gap.model_copy(update={"reason": _text(rng), "query": _text(rng)})]
        faults: list[str] = []
        messages = (
            first_message(about, PAGE),
            final_message(
                about, answer_view(about.alert, bad, said, gaps=gaps, evidence=evidence), PAGE
            ),
        )
        for message in messages:
            faults += broken_rules(message.blocks, lambda _: True)
            faults += _in_slack(message)
        note = note_text(
            about, answer_view(about.alert, bad, said, gaps=gaps, evidence=evidence), PAGE
        )
        text = to_markdown(answer_view(about.alert, bad, said, gaps=gaps, evidence=evidence))
        faults += [*_foreign_addresses(note), *_hidden(note), *_in_markdown(text), *_hidden(text)]
        if faults:
            raise AssertionError(faults[0][:200])
        return "accepted"

    yield one


@contextlib.contextmanager
def _log_lines(_scratch: Path) -> Iterator[Try]:
    formats = (TextLines(), JsonLines("web"))

    def one(rng: random.Random) -> Answer:
        record = logging.LogRecord(
            "faultline.intake",
            logging.WARNING,
            "x.py",
            1,
            "%s refused: %s",
            (_text(rng), _text(rng)),
            None,
        )
        if rng.random() < 0.2:
            record.msg, record.args = _text(rng), rng.choice(((), (hostile(rng),)))
        for way in formats:
            line = way.format(record)
            if "\n" in line or "\r" in line or any(not c.isprintable() for c in line):
                return "wrong accept"
        json.loads(formats[1].format(record))
        return "accepted"

    yield one


def _text(rng: random.Random) -> str:
    for _ in range(20):
        value = hostile(rng)
        if isinstance(value, str):
            return value
    return "\u202e"


def _texts_changed(rng: random.Random, value: Any, odds: float = 0.25) -> Any:
    """Texts, and nothing else, replaced by hostile ones."""
    if isinstance(value, dict):
        fixed = ("id", "kind", "verdict", "evidence_ids", "finding_ids", "analyzer")
        return {k: v if k in fixed else _texts_changed(rng, v, odds) for k, v in value.items()}
    if isinstance(value, list):
        return [_texts_changed(rng, one, odds) for one in value]
    if isinstance(value, str) and rng.random() < odds:
        return _text(rng).encode("utf-8", "replace").decode()
    return value
