"""The decisive chart in a terminal: the picture itself where the terminal shows pictures, dots of
braille otherwise.
"""

from __future__ import annotations

import base64
import os
import re
import select
import struct
import sys
import termios
import tty
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.text import Text

from faultline.analysis.case.folder import Case
from faultline.analysis.vocabulary import Diagnosis
from faultline.bot.answer.pictures.chart_data import DecisiveChart, decisive_chart_of
from faultline.bot.answer.pictures.chart_svg import value_axis
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


# A PNG as sixels, for terminals that speak neither kitty's nor iTerm2's protocol: foot, Konsole,
# mlterm, Windows Terminal, xterm.
#
# Format: VT330/VT340 Programmer Reference, chapter 14. A sixel is a column of six pixels.

Pixels = NDArray[np.uint8]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
RGB, RGBA = 2, 6
LEVELS = 6
"""Of red, green and blue each: 216 colours, of the 256 that terminals have."""
ROWS = 6
ANSWERS_WITHIN_S = 1.0
"""Terminals answer at once; a second covers a slow way there."""
_ATTRIBUTES = re.compile(rb"\x1b\[\?([\d;]*)c")
SIXEL_GRAPHICS = b"4"


def shows_sixels() -> bool:
    """Whether the terminal says so when it is asked for its attributes (DA1). Both standard
    input and output must be the terminal."""
    stdin_fd = sys.stdin.fileno()
    before = termios.tcgetattr(stdin_fd)
    try:
        tty.setcbreak(stdin_fd)
        os.write(sys.stdout.fileno(), b"\x1b[c")
        answer = b""
        while b"c" not in answer:
            ready, _, _ = select.select([stdin_fd], [], [], ANSWERS_WITHIN_S)
            more = os.read(stdin_fd, 64) if ready else b""
            if not more:
                return False
            answer += more
    finally:
        # Otherwise the shell would stay without echo.
        termios.tcsetattr(stdin_fd, termios.TCSANOW, before)
    match = _ATTRIBUTES.search(answer)
    # The first number is the terminal's class; its attributes follow.
    return match is not None and SIXEL_GRAPHICS in match[1].split(b";")[1:]


def sixels(png: bytes) -> str | None:
    """The picture; None for a PNG of another form than those that are drawn here."""
    pixels = pixels_of(png)
    if pixels is None:
        return None
    # Round to the nearest level, in whole numbers.
    steps = (pixels.astype(np.uint16) * (LEVELS - 1) + 127) // 255
    numbers = steps[:, :, 0] * LEVELS * LEVELS + steps[:, :, 1] * LEVELS + steps[:, :, 2]
    height, width = numbers.shape
    used = np.unique(numbers)
    head = f'\x1bP0;1q"1;1;{width};{height}'
    bands = (_band(numbers[top : top + ROWS]) for top in range(0, height, ROWS))
    return head + "".join(_colour(int(n)) for n in used) + "-".join(bands) + "\x1b\\"


def _colour(number: int) -> str:
    parts = number // (LEVELS * LEVELS), number // LEVELS % LEVELS, number % LEVELS
    percents = ";".join(str(round(100 * part / (LEVELS - 1))) for part in parts)
    return f"#{number};2;{percents}"


def _band(numbers: NDArray[np.uint16]) -> str:
    """Six rows: each colour over the whole width, one after the other."""
    bits = (1 << np.arange(len(numbers)))[:, None]
    lines = []
    for number in np.unique(numbers):
        columns = ((numbers == number) * bits).sum(axis=0)
        lines.append(f"#{number}" + "".join(_runs(columns)))
    return "$".join(lines)


def _runs(columns: NDArray[np.int64]) -> Iterator[str]:
    edges = np.flatnonzero(np.diff(columns)) + 1
    starts = np.concatenate([[0], edges])
    for start, end in zip(starts, np.concatenate([edges, [len(columns)]]), strict=True):
        # Sixel letters begin at "?", which is 63.
        count, letter = int(end - start), chr(63 + int(columns[start]))
        # `!3x` is no shorter than three letters.
        yield f"!{count}{letter}" if count > 3 else letter * count


def pixels_of(png: bytes) -> Pixels | None:
    """Rows of red, green and blue on white, of a PNG with 8 bits a channel that is not interlaced
    (the PNG specification, third edition, 9: filtering)."""
    if not png.startswith(SIGNATURE):
        return None
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", png[16:29])
    if depth != 8 or kind not in (RGB, RGBA) or interlaced:
        return None
    channels = 3 if kind == RGB else 4
    data = zlib.decompress(b"".join(_chunks(png)))
    stride = width * channels
    lines = np.frombuffer(data, np.uint8).reshape(height, 1 + stride)
    pixels = np.zeros((height, width, channels), np.uint8)
    above = np.zeros((width, channels), np.uint8)
    for y in range(height):
        above = _unfiltered(int(lines[y, 0]), lines[y, 1:].reshape(width, channels), above)
        pixels[y] = above
    if channels == 3:
        return pixels
    cover = pixels[:, :, 3:].astype(np.uint16)
    return ((pixels[:, :, :3] * cover + 255 * (255 - cover)) // 255).astype(np.uint8)


def _chunks(png: bytes) -> Iterator[bytes]:
    at = len(SIGNATURE)
    while at + 8 <= len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            yield png[at + 8 : at + 8 + size]
        at += size + 12


def _unfiltered(kind: int, line: Pixels, above: Pixels) -> Pixels:
    if kind == 0:
        return line
    if kind == 1:
        # Sub: the sums wrap at 256, as bytes do.
        return np.cumsum(line, axis=0, dtype=np.uint8)
    if kind == 2:
        return line + above
    # Average (3) and Paeth (4) need the pixel before, so they go one by one.
    out = np.zeros_like(line)
    for channel in range(line.shape[1]):
        left = corner = 0
        column = []
        for raw, up in zip(line[:, channel].tolist(), above[:, channel].tolist(), strict=True):
            guess = (left + up) // 2 if kind == 3 else _paeth(left, up, corner)
            left, corner = (raw + guess) & 255, up
            column.append(left)
        out[:, channel] = column
    return out


def _paeth(left: int, up: int, corner: int) -> int:
    base = left + up - corner
    near = (abs(base - left), abs(base - up), abs(base - corner))
    return (left, up, corner)[near.index(min(near))]
