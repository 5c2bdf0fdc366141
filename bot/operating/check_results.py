"""What a look at an installation found: one line what it is, one line what to do about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Literal

from rich.console import Console
from rich.text import Text

from faultline.analysis.wording.phrases import plain

State = Literal["ok", "note", "wrong"]
"""`note`: worth knowing, and nothing is broken by it."""
LONGEST = 400
MARKS: dict[State, tuple[str, str]] = {
    "ok": ("ok   ", "green"),
    "note": ("note ", "yellow"),
    "wrong": ("WRONG", "bold red"),
}


@dataclass(frozen=True)
class CheckResult:
    """One thing that was looked at. `todo` is empty where there is nothing to do."""

    state: State
    about: str
    what: str
    todo: str = ""


def print_findings(findings: Sequence[CheckResult]) -> None:
    """One line each, and what to do below it; the last line counts."""
    console = Console(highlight=False, soft_wrap=True)
    width = max((len(f.about) for f in findings), default=0)
    for finding in findings:
        mark, style = MARKS[finding.state]
        # `Text` prints brackets as they are, while a string would be read as markup.
        console.print(
            Text.assemble(
                (mark, style), f"  {finding.about:<{width}}  {plain(finding.what, LONGEST)}"
            )
        )
        if finding.todo:
            console.print(Text(f"{'':<{width + 9}}-> {plain(finding.todo, LONGEST)}"))
    wrong = [finding.about for finding in findings if finding.state == "wrong"]
    phrase = (
        f"{len(wrong)} wrong: {', '.join(dict.fromkeys(wrong))}" if wrong else "nothing is wrong"
    )
    console.print(Text(phrase))


def as_json(findings: Sequence[CheckResult]) -> str:
    """The same for programs."""
    return json.dumps(
        {"findings": [asdict(finding) for finding in findings]}, indent=2, ensure_ascii=False
    )


def when(at: datetime) -> str:
    """A moment, to the second, in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def lasting(time: timedelta) -> str:
    """A length of time in the two units that tell it."""
    seconds = max(0.0, time.total_seconds())
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min {int(seconds % 60)} s"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
