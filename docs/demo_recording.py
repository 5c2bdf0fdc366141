"""Takes the README's moving picture: the terminal during `./run demo`, with its real output.

python docs/demo_recording.py    needs chromium on PATH
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

sys.path.insert(0, str(Path(__file__).parents[1]))

from faultline.demo.run import played

PICTURE = Path(__file__).parent / "images" / "demo.gif"
MAX_BYTES = 500_000
COLUMNS, ROWS = 96, 34
WIDTH, HEIGHT = 840, 550
COLOURS = 48

# Lines that come within this time appear together, as they do for whoever watches.
TOGETHER_S = 0.15

# Nobody wants to watch a pause, and the answer takes longer to read than to print.
LONGEST_PAUSE_S = 1.0
SECONDS_TO_READ = 6.0
CHROMIUM = [
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
    f"--window-size={WIDTH},{HEIGHT}",
]


@dataclass(frozen=True)
class Frame:
    """What the terminal shows, and for how long."""

    text: str
    seconds: float


class Recording(StringIO):
    """A terminal that remembers when each piece of its text came."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[tuple[float, str]] = []

    def write(self, text: str) -> int:
        self.pieces.append((time.monotonic(), text))
        return super().write(text)


def recorded() -> Recording:
    """The demo, played once."""
    terminal = Recording()
    terminal.write("$ ./run demo\n")
    console = Console(file=terminal, width=COLUMNS, force_terminal=True, highlight=False)
    with played(console):
        pass
    return terminal


def frames_of(pieces: list[tuple[float, str]]) -> list[Frame]:
    frames = []
    text = ""
    following = [*pieces[1:], (pieces[-1][0] + SECONDS_TO_READ, "")]
    for (at, piece), (next_at, _) in zip(pieces, following, strict=True):
        text += piece
        pause = next_at - at
        is_answer = "Slack #incidents" in piece
        if is_answer or pause == SECONDS_TO_READ:
            frames.append(Frame(text, SECONDS_TO_READ))
        elif pause > TOGETHER_S:
            frames.append(Frame(text, min(pause, LONGEST_PAUSE_S)))
    return frames


def as_html(text: str) -> str:
    """The last lines of this text as a page that looks like a terminal."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True)
    lines = Text.from_ansi(text).split("\n", allow_blank=True)
    for line in lines[-ROWS:]:
        console.print(line, highlight=False)
    html = console.export_html(theme=SVG_EXPORT_THEME)
    # Chromium has no font for emoji everywhere; the same place, the same colour.
    html = html.replace("🔴", '<span style="color: #e5484d">● </span>')
    return html.replace("<body>", '<body style="padding: 8px 16px; font-size: 13px">')


def photographed(frame: Frame, scratch: Path) -> Image.Image:
    page, shot = scratch / "frame.html", scratch / "frame.png"
    page.write_text(as_html(frame.text), encoding="utf-8")
    command = [*CHROMIUM, f"--user-data-dir={scratch}", f"--screenshot={shot}", page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    with Image.open(shot) as picture:
        return picture.convert("RGB")


def main() -> None:
    """Record the demo and write the picture."""
    frames = frames_of(recorded().pieces)
    with tempfile.TemporaryDirectory() as scratch:
        pictures = [photographed(frame, Path(scratch)) for frame in frames]
    # The last picture has all colours; one palette for all keeps what stands still the same.
    palette = pictures[-1].quantize(COLOURS)
    first, *append_images = [
        picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures
    ]
    durations = [int(frame.seconds * 1000) for frame in frames]
    first.save(
        PICTURE,
        save_all=True,
        append_images=append_images,
        duration=durations,
        loop=0,
        optimize=True,
    )
    size = PICTURE.stat().st_size
    if size > MAX_BYTES:
        sys.exit(f"{PICTURE.name} has {size:,} bytes; at most {MAX_BYTES:,} are wanted")


if __name__ == "__main__":
    main()
