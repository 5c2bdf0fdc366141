"""The trace doctor in a process of its own: `python -m bot.conversation.trace_process PLACE
FOLDER`.

Writes `report.html` and `answer.json` (verdict, statement, diagnoses, what was left out) into the
folder. The process is killed when it takes too long; nothing of it stays in the worker.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from analysis.errors import FaultlineError
from trace_report.analysis_run import Wanted, run_job
from trace_report.job_report import answer, report_of
from trace_report.page import render
from trace_report.page_view import page_of
from trace_report.perfetto import windows_of
from trace_report.registry import chosen
from trace_report.sources import opened

MOST = 20
JOBS = 2
"""Ranks read at once: others work on this machine too."""


def main(place: str, folder: Path) -> int:
    """0, or 1 with one line on standard error."""
    try:
        with opened([place]) as sources:
            result = run_job(
                sources, Wanted(chosen(None), charts=True), jobs=JOBS, say=lambda *_: None
            )
            report = report_of(result)
            if not (report.lines or report.diagnoses or result.timelines):
                why = next(
                    (f"{file}: {reason}" for file, reason in result.unread),
                    "no trace, and no log that tells",
                )
                sys.stderr.write(f"{why}\n")
                return 1
            told = answer(report)
            (folder / "report.html").write_bytes(
                render(page_of(report, windows_of(report, JOBS))).encode("utf-8", "replace")
            )
    except FaultlineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    kept = {
        "summary": told["summary"],
        "facts": report.facts,
        "diagnoses": [
            {name: d.get(name) for name in ("rule", "severity", "statement", "fix", "subject")}
            for d in told["diagnoses"][:MOST]
        ],
        "diagnoses_in_all": len(told["diagnoses"]),
        "unread": told["dropped"]["files"][:MOST],
        "unread_in_all": len(told["dropped"]["files"]),
    }
    (folder / "answer.json").write_text(json.dumps(kept, default=str))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], Path(sys.argv[2])))
