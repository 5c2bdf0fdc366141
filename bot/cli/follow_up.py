"""Questions about an answer, in the same terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path

from rich.console import Console
from rich.text import Text

from faultline.analysis.errors import FaultlineError
from faultline.bot.conversation.on_page import PageAnswers
from faultline.bot.settings import Settings
from faultline.bot.store.store import StoredInvestigation

PROMPT = "\nAsk about it (why, what changed, show logs of ..., empty to end): "


def answer_follow_ups(settings: Settings, investigation: StoredInvestigation, folder: Path) -> None:
    """Answer until an empty line, or the end of input."""
    console = Console(highlight=False)
    answers = PageAnswers(settings)
    while question := _question():
        try:
            answer = asyncio.run(answers(investigation, folder, question))
        except FaultlineError as error:
            console.print(Text(str(error), style="red"))
            continue
        console.print(Text(answer.lead, style="bold"))
        for line in answer.lines:
            bold = Text(f"{line.bold}  ", style="bold") if line.bold else Text("")
            console.print(Text("  "), bold, Text(line.text), Text(" ".join(line.findings), "cyan"))
        for code in answer.code:
            console.print(Text(f"  {code}"))
        for sentence in answer.more:
            console.print(Text(f"  {sentence}", style="dim"))


def _question() -> str:
    try:
        return input(PROMPT).strip()
    except (EOFError, KeyboardInterrupt):
        return ""
