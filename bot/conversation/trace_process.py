"""The trace doctor in a separate process: `python -m faultline.bot.conversation.trace_process PLACE
FOLDER`.

Writes `report.html` and `answer.json` (verdict, statement, diagnoses, what was left out) into the
folder. The process is killed when it takes too long, and leaves nothing behind in the worker.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from faultline.analysis.errors import FaultlineError
from faultline.trace_report.analysis_run import JobResult, RankRequest, run_job
from faultline.trace_report.job_report import answer, report_of
from faultline.trace_report.page_view import page_of, render
from faultline.trace_report.perfetto import windows_of
from faultline.trace_report.registry import chosen
from faultline.trace_report.sources import opened

MOST = 20
SHOWN = ("rule", "severity", "statement", "fix", "subject")
"""Fields of a diagnosis that a message shows."""
JOBS = 2
"""Ranks read at once: others work on this machine too."""


def main(place: str, folder: Path) -> int:
    """0, or 1 with one line on standard error."""
    try:
        # The page reads windows of the traces, so that it is made while they are open.
        with opened([place]) as sources:
            request = RankRequest(chosen(None), charts=True)
            result = run_job(sources, request, jobs=JOBS, say=lambda *_: None)
            report = report_of(result)
            if not (report.lines or report.diagnoses or result.timelines):
                sys.stderr.write(f"{_why_nothing(result)}\n")
                return 1
            page = render(page_of(report, windows_of(report, JOBS)))
            # The part of the answer that a message in Slack has room for.
            answer_fields = answer(report)
            diagnoses = []
            for diagnosis in answer_fields["diagnoses"][:MOST]:
                diagnoses.append({name: diagnosis.get(name) for name in SHOWN})
            unread = answer_fields["dropped"]["files"]
            digest = {
                "summary": answer_fields["summary"],
                "facts": report.facts,
                "diagnoses": diagnoses,
                "diagnoses_in_all": len(answer_fields["diagnoses"]),
                "unread": unread[:MOST],
                "unread_in_all": len(unread),
            }
            (folder / "report.html").write_bytes(page.encode("utf-8", "replace"))
    except FaultlineError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    (folder / "answer.json").write_text(json.dumps(digest, default=str))
    return 0


def _why_nothing(result: JobResult) -> str:
    for file, reason in result.unread:
        return f"{file}: {reason}"
    return "no trace, and no log that tells"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], Path(sys.argv[2])))
