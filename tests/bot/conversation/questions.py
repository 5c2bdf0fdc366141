"""Asks every question of `questions.toml`, grades the answers, and prints them to be read.

python -m tests.bot.conversation.questions            # the score, and what is not right
python -m tests.bot.conversation.questions --all      # every answer
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from faultline.bot.answer.exports.formats import FORMATS
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.conversation.answering import answer_from_case
from faultline.bot.conversation.replies_to import HELP
from faultline.bot.conversation.trace_request import about_trace
from faultline.bot.intake.questions.commands import command_in
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.connectors.shared.contract.base import Check, Collected, Request
from faultline.connectors.shared.settings.connector_settings import Limits
from tests.bot.conversation.cases import (
    answered,
    demo,
    healthy,
    payments_rows,
    write_payments,
    write_shop,
)

FILE = Path(__file__).with_name("questions.toml")
OFFERED = 3
LONGEST = 2_500
REFUSES = re.compile(r"(?i)can ?(no|'|’)t answer|i cannot answer|did ?(no|n.)t understand")
ROLLED_BACK = datetime(2026, 11, 20, 15, 40, 12, tzinfo=UTC)
TRACE_ANSWER = AnswerText(
    lead="jobs/pretrain-ranker: 2 diagnoses.",
    lines=(
        AnswerLine(
            text="Rank 2 delays every step: its data loading takes 86 ms, 1.3 ms elsewhere",
            bold="Critical",
        ),
        AnswerLine(
            text="The GPUs of the other ranks wait 78 ms of each 103 ms step", bold="Warning"
        ),
        AnswerLine(text="Move rank 2's shard back to the node cache", bold="Do"),
    ),
    more=("4 ranks · 8 steps",),
)
FINDING = re.compile(r"\bF\d{1,4}\b")


@dataclass(frozen=True)
class GradedQuestion:
    """One question of the file."""

    q: str
    of: str
    kind: str
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True)
class GradedAnswer:
    """What was answered, and why that is not right: nothing where it is."""

    question: GradedQuestion
    text: str
    wrong: tuple[str, ...]


def questions(group: str) -> list[GradedQuestion]:
    """Those of one hundred: `field` or `natural`."""
    rows = tomllib.loads(FILE.read_text(encoding="utf-8"))[group]
    return [
        GradedQuestion(
            row["q"], row["of"], row["kind"], tuple(row.get("has", ())), tuple(row.get("lacks", ()))
        )
        for row in rows
    ]


def grade(question: GradedQuestion, text: str) -> GradedAnswer:
    """Whether an answer holds what a right one must, is short, and says no finding's id."""
    wrong = [f"lacks {one}" for one in question.has if not _in(one, text)]
    wrong += [f"has {one}" for one in question.lacks if _in(one, text)]
    refuses = REFUSES.search(text) is not None
    if refuses != (question.kind == "refuse"):
        wrong.append("refuses" if refuses else "does not refuse")
    if question.kind == "refuse" and text.count("\n- ") < OFFERED:
        wrong.append("does not offer three questions")
    if FINDING.search(text):
        wrong.append("says a finding's id")
    if len(text) > LONGEST:
        wrong.append(f"{len(text)} characters")
    return GradedAnswer(question, text, tuple(wrong))


def shown(text: AnswerText) -> str:
    """An answer as a reader sees it, with what is attached to it."""
    lines = [text.lead]
    lines += [f"- {line.bold}  {line.text}".replace("-   ", "- ") for line in text.lines]
    if text.picture is not None:
        lines.append(f"[picture {' '.join(text.picture)}]")
    if text.export is not None:
        lines.append(f"[file {FORMATS[text.export].file}]")
    return "\n".join([*lines, *text.code, *text.more])


class MetricsAgain:
    """A source of metrics that can be asked for any time: the rollback of the payments deploy was
    at 15:00, and the same time of earlier days was calm."""

    name = "prometheus"
    kinds = ("metrics",)
    limits = Limits()

    async def collect(self, request: Request) -> Collected:
        """A point a minute for the window that is asked."""
        window = request.scope.incident
        rows = payments_rows(window.start, window.end, bad_from=window.end)
        return Collected({"metrics": pl.DataFrame(rows)})

    async def check(self) -> Check:
        """It answers."""
        return Check(self.name, True, "")


class Asked:
    """The cases, and how a question is asked of one."""

    def __init__(self, scratch: Path) -> None:
        payments = answered(write_payments(scratch / "payments"), now=ROLLED_BACK)
        self.cases: dict[str, AnsweredCase] = {
            "payments": replace(payments, teams={"payments": "money"}),
            "shop": answered(write_shop(scratch / "shop")),
            "job": demo(),
            "calm": healthy(),
        }

    def ask(self, question: GradedQuestion) -> str:
        """The whole answer to a question that was addressed to the bot."""
        return shown(self._answer(question))

    def _answer(self, question: GradedQuestion) -> AnswerText:
        command = command_in(question.q)
        if command is not None:
            return HELP if command.kind == "help" else AnswerText(lead=f"({command.kind})")
        if question.of == "trace":
            return about_trace(TRACE_ANSWER, question.q)
        case = self.cases[question.of]
        catalogue = ("checkout", "payments", "cart", "orders-db", "search")
        reply = answer_from_case(case, question.q, catalogue)
        if reply.look is None:
            return reply.text
        connectors = (MetricsAgain(),) if question.of == "payments" else ()
        return asyncio.run(reply.look(connectors)).text


def graded(asked: Asked, group: str) -> list[GradedAnswer]:
    """Every question of a group, answered and graded."""
    return [grade(question, asked.ask(question)) for question in questions(group)]


def share(answers: Sequence[GradedAnswer]) -> float:
    """How many are right, of 1."""
    return sum(not one.wrong for one in answers) / len(answers)


def main(arguments: Iterable[str]) -> None:
    """Print the answers that are not right, or all, and the score of each group."""
    everything = "--all" in arguments
    with tempfile.TemporaryDirectory() as scratch:
        asked = Asked(Path(scratch))
        for group in ("field", "natural"):
            answers = graded(asked, group)
            for one in answers:
                if everything or one.wrong:
                    _print(one)
            kinds = Counter(one.question.kind for one in answers if one.wrong)
            print(f"{group}: {100 * share(answers):.0f} of 100 right; not right: {dict(kinds)}\n")


def _print(one: GradedAnswer) -> None:
    mark = f"NOT RIGHT ({'; '.join(one.wrong)})" if one.wrong else "right"
    print(f"--- {one.question.q}   [{one.question.of}, {one.question.kind}] {mark}")
    print(one.text, end="\n\n")


def _in(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


if __name__ == "__main__":
    main(sys.argv[1:])
