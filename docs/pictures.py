"""Takes the documentation's pictures with headless Chromium: the demo's page, the trace report.

python docs/pictures.py    needs chromium on PATH
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME

sys.path.insert(0, str(Path(__file__).parents[1]))

from faultline.demo.run import CASE, played, recorded_cases
from faultline.trace_report.analysis_run import RankRequest, run_job
from faultline.trace_report.job_report import JobReport, report_of
from faultline.trace_report.page_view import page_of, render
from faultline.trace_report.perfetto import windows_of
from faultline.trace_report.registry import chosen
from faultline.trace_report.sources import opened
from faultline.trace_report.terminal import report_parts

IMAGES = Path(__file__).parent / "images"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-sync",
    "--no-first-run",
]


def photograph(url: str, name: str, width: int, height: int, *, scale: int = 2) -> None:
    """One PNG of a page; `scale` is how many of its pixels make one of the page."""
    with tempfile.TemporaryDirectory() as profile:
        command = [
            "chromium",
            *FLAGS,
            f"--user-data-dir={profile}",
            f"--window-size={width},{height}",
            f"--force-device-scale-factor={scale}",
        ]
        command += ["--virtual-time-budget=4000", f"--screenshot={IMAGES / name}", url]
        subprocess.run(command, check=True, capture_output=True, timeout=120)


def trace_report(scratch: Path) -> tuple[JobReport, Path]:
    """The report of the recorded job with a slow rank, and its page."""
    with opened([str(recorded_cases() / CASE / "traces")]) as sources:
        result = run_job(
            sources, RankRequest(chosen(None), charts=True), jobs=None, say=lambda *_: None
        )
        report = report_of(result)
        page = scratch / "trace.html"
        page.write_text(render(page_of(report, windows_of(report, None))), encoding="utf-8")
    return report, page


def terminal_page(report: JobReport) -> str:
    """The report as it stands on a terminal, as a page."""
    console = Console(
        record=True, width=100, file=StringIO(), force_terminal=True, highlight=False, markup=False
    )
    console.print("$ faultline trace traces/\n", style="dim")
    for part in report_parts(report, True, 100):
        console.print(part)
    html = console.export_html(theme=SVG_EXPORT_THEME)
    return html.replace("<body>", '<body style="padding: 14px 20px; font-size: 13px">')


def trace_pictures() -> None:
    """The report on the terminal, and its page."""
    with tempfile.TemporaryDirectory() as scratch:
        report, page = trace_report(Path(scratch))
        terminal = Path(scratch) / "terminal.html"
        terminal.write_text(terminal_page(report), encoding="utf-8")
        photograph(terminal.as_uri(), "trace-terminal.png", 880, 540)
        photograph(page.as_uri(), "trace-page.png", 1100, 1250)


def main() -> None:
    """All pictures, or with "trace" those of the trace report only."""
    IMAGES.mkdir(exist_ok=True)
    trace_pictures()
    if sys.argv[1:] == ["trace"]:
        return
    with played(Console(quiet=True)) as incident:
        photograph(incident.page, "investigation-page.png", 1440, 1320, scale=1)


if __name__ == "__main__":
    main()
