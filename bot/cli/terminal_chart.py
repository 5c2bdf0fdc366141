"""The decisive chart in a terminal: the picture itself where the terminal shows pictures, dots of
braille otherwise."""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.text import Text

from faultline.analysis.case.folder import Case
from faultline.analysis.vocabulary import Diagnosis
from faultline.bot.answer.pictures.chart_axes import value_axis
from faultline.bot.answer.pictures.chart_data import DecisiveChart, decisive_chart_of
from faultline.bot.investigation.analyzing import CHART

LINES, WIDEST, LABEL = 5, 100, 10
"""Of one panel: its lines, the widest it is, and the room for its figures."""
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The dots of a braille letter by column, from the top: The Unicode Standard, 21.1."""
EMPTY = 0x2800
CHUNK = 4096
MARKS = {"change": "d", "onset": "o", "alert": "a"}


def print_chart(case: Case, diagnosis: Diagnosis, folder: Path) -> None:
    """Print it; nothing where no chart tells anything."""
    picture = folder / CHART
    if sys.stdout.isatty() and picture.is_file():
        png = picture.read_bytes()
        shown = picture_codes(png, os.environ) or _as_sixels(png, os.environ)
        if shown is not None:
            sys.stdout.write(shown + "\n")
            return
    chart = decisive_chart_of(case, diagnosis)
    if chart is None:
        return
    console = Console(highlight=False)
    for line in chart_lines(chart, min(console.width, WIDEST)):
        console.print(line, no_wrap=True, crop=True)


def _as_sixels(png: bytes, environ: Mapping[str, str]) -> str | None:
    """The picture for a terminal that says it shows sixels; None for another, and where nobody
    could answer."""
    if not sys.stdin.isatty() or is_multiplexed(environ):
        return None
    # Late: few terminals get so far, and this one asks them.
    from faultline.bot.cli.sixel import shows_sixels, sixels

    return sixels(png) if shows_sixels() else None


def is_multiplexed(environ: Mapping[str, str]) -> bool:
    """Whether another program stands between, which passes no pictures on."""
    return bool(environ.get("TMUX")) or environ.get("TERM", "").startswith("screen")


def picture_codes(png: bytes, environ: Mapping[str, str]) -> str | None:
    """What shows a PNG in this terminal, by the protocol of kitty (sw.kovidgoyal.net/kitty/
    graphics-protocol) or of iTerm2 (iterm2.com/documentation-images.html); None where it shows
    none."""
    if is_multiplexed(environ):
        return None
    data = base64.b64encode(png).decode()
    program = environ.get("TERM_PROGRAM", "")
    is_kitty = environ.get("TERM", "") in ("xterm-kitty", "xterm-ghostty")
    if is_kitty or environ.get("KITTY_WINDOW_ID") or program == "ghostty":
        # kitty takes at most 4,096 bytes at once; m=1 says that more follow.
        chunks = [data[at : at + CHUNK] for at in range(0, len(data), CHUNK)]
        codes = []
        for number, chunk in enumerate(chunks, start=1):
            first = "a=T,f=100," if number == 1 else ""
            codes.append(f"\x1b_G{first}m={int(number < len(chunks))};{chunk}\x1b\\")
        return "".join(codes)
    if program in ("iTerm.app", "WezTerm"):
        return f"\x1b]1337;File=inline=1;size={len(png)};preserveAspectRatio=1:{data}\x07"
    return None


def chart_lines(chart: DecisiveChart, width: int) -> Iterator[Text]:
    """The panels one below the other, and what happened when."""
    room = max(20, width - LABEL - 1)
    for panel in chart.panels:
        yield Text(f"{'':{LABEL}} {panel.title}", style="bold")
        axis = value_axis(panel)
        rows = _dots([run for run in panel.runs if run], chart, room, axis.share)
        labels = {0: axis.ticks[-1][1], LINES - 1: axis.ticks[0][1]}
        for number, row in enumerate(rows):
            style = "red" if panel.role == "culprit" else "cyan"
            yield Text.assemble(f"{labels.get(number, '')[:LABEL]:>{LABEL}} ", (row, style))
    yield _marks(chart, room)
    start, end = (f"{datetime.fromtimestamp(at, UTC):%H:%M}" for at in (chart.start, chart.end))
    yield Text(f"{'':{LABEL}} {start}{end:>{room - len(start)}}", style="dim")
    for event in chart.events:
        at = "earlier" if event.earlier else event.clock
        yield Text(f"{'':{LABEL}} {MARKS[event.kind]} {at} UTC  {event.words}")


def _dots(
    runs: Sequence[Sequence[tuple[float, float]]],
    chart: DecisiveChart,
    room: int,
    share: Callable[[float], float],
) -> list[str]:
    # A braille letter holds two columns and four rows of dots.
    wide, high = 2 * room, 4 * LINES
    seconds = max(1.0, chart.end - chart.start)
    cells = [[EMPTY] * room for _ in range(LINES)]

    def place(at: float, value: float) -> tuple[float, float]:
        x = (at - chart.start) / seconds * (wide - 1)
        return x, (1 - share(value)) * (high - 1)

    for run in runs:
        points = [place(at, value) for at, value in run]
        # A run of one point is a line to itself.
        for (x0, y0), (x1, y1) in zip(points, points[1:] or points, strict=False):
            steps = max(1, round(max(abs(x1 - x0), abs(y1 - y0))))
            for step in range(steps + 1):
                x = round(x0 + (x1 - x0) * step / steps)
                y = round(y0 + (y1 - y0) * step / steps)
                if 0 <= x < wide and 0 <= y < high:
                    cells[y // 4][x // 2] |= DOTS[x % 2][y % 4]
    return ["".join(map(chr, row)) for row in cells]


def _marks(chart: DecisiveChart, room: int) -> Text:
    marks = [" "] * room
    for event in chart.events:
        x = (event.time - chart.start) / max(1.0, chart.end - chart.start) * (room - 1)
        marks[min(room - 1, max(0, round(x)))] = MARKS[event.kind]
    return Text(f"{'':{LABEL}} {''.join(marks)}")
