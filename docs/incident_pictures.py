"""Takes the documentation's pictures of a map and a chart: an invented incident, drawn by the code
that draws real ones.

python docs/incident_pictures.py [FOLDER]    needs chromium on PATH; with FOLDER that case instead
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from PIL import Image, ImageChops

from faultline.analysis.case.calls import ServiceCall
from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.requests.topology import case_calls
from faultline.analysis.vocabulary import Diagnosis, Evidence
from faultline.bot.answer.pictures import (
    bars_svg,
    chart_svg,
    decisive_chart_of,
    incident_map,
    map_svg,
    step_bars_of,
)
from faultline.bot.answer.pictures.png import STYLE
from faultline.bot.answer.view import answer_view
from tests.bot.answer.pictures.incidents import MEASURED, SHOP, a_case, diagnosis

IMAGES = Path(__file__).parent / "images"
WIDE, NARROW = 640, 334
SCALE, COLOURS = 1.5, 64
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]


@dataclass(frozen=True)
class Pictured:
    """An answer and what its pictures are drawn from."""

    case: Case
    answer: Diagnosis
    calls: Sequence[ServiceCall]
    evidence: Sequence[Evidence]


def drawings(pictured: Pictured, width: int) -> list[str]:
    """All pictures of one answer."""
    case, answer, calls = pictured.case, pictured.answer, pictured.calls
    view = answer_view(case.alert, answer, None, evidence=pictured.evidence)
    drawn = []
    drawn_map, bars = incident_map(view, calls), step_bars_of(answer)
    chart = decisive_chart_of(case, answer)
    if drawn_map is not None:
        drawn.append(map_svg(drawn_map, width))
    if bars is not None:
        drawn.append(bars_svg(bars, width))
    if chart is not None:
        drawn.append(chart_svg(chart, width))
    return drawn


def page(drawn: Sequence[str], width: int, *, dark: bool) -> str:
    """The pictures one below the other, as the page of an investigation has them."""
    style = STYLE.read_text(encoding="utf-8")
    if dark:
        style = style.replace("@media (prefers-color-scheme: dark)", "@media all")
    cards = "".join(f'<div class="pic-card">{picture}</div>' for picture in drawn)
    phrase = f"body{{margin:8px;width:{width + 34}px;background:var(--pic-card)}}"
    phrase += ".pic-card{margin-bottom:8px}"
    return f'<!doctype html><meta charset="utf-8"><style>{style}{phrase}</style>{cards}'


def photograph(html: str, name: str, width: int) -> None:
    """One PNG, as tall as what it shows, in few colours."""
    with tempfile.TemporaryDirectory() as scratch:
        source, shot = Path(scratch) / "page.html", Path(scratch) / "shot.png"
        source.write_text(html, encoding="utf-8")
        command = ["chromium", *FLAGS, f"--user-data-dir={scratch}/profile"]
        command += [f"--window-size={width},2000", f"--force-device-scale-factor={SCALE}"]
        command += [f"--screenshot={shot}", source.as_uri()]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        with Image.open(shot) as taken:
            picture = taken.convert("RGB")
    corner = picture.getpixel((picture.width - 1, picture.height - 1))
    empty = Image.new("RGB", picture.size, corner)
    shown = ImageChops.difference(picture, empty).getbbox() or (0, 0, *picture.size)
    bottom = min(picture.height, shown[3] + round(8 * SCALE))
    small = picture.crop((0, 0, picture.width, bottom)).quantize(COLOURS)
    small.save(IMAGES / name, optimize=True)


def main() -> None:
    """For a desktop in light colours, for a phone in dark ones."""
    with tempfile.TemporaryDirectory() as scratch:
        if sys.argv[1:]:
            case = read_case(Path(sys.argv[1]))
            pictured = Pictured(case, diagnose(case), case_calls(case), case.evidence)
        else:
            pictured = Pictured(a_case(Path(scratch)), diagnosis(), SHOP, [MEASURED])
        for width, name, dark in (
            (WIDE, "incident-wide.png", False),
            (NARROW, "incident-narrow.png", True),
        ):
            drawn = drawings(pictured, width)
            photograph(page(drawn, width, dark=dark), name, width + 50)


if __name__ == "__main__":
    main()
