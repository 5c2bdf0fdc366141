"""The trace doctor's page of the job whose traces lie in a case, and the policy under which a
browser shows it."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path

from faultline.analysis.errors import EvidenceError

_POLICY = re.compile(r'http-equiv="Content-Security-Policy" content="([^"]+)"')


@dataclass(frozen=True)
class TraceReport:
    """A page that stands alone; its own script and style run by their hashes, nothing else does."""

    page: str
    policy: str


def trace_report(folder: Path) -> TraceReport:
    """Analyse the traces of a case. Imports late: it runs in a separate process. Raises
    FaultlineError."""
    from faultline.trace_report.analysis_run import RankRequest, run_job
    from faultline.trace_report.job_report import report_of
    from faultline.trace_report.page_view import page_of, render
    from faultline.trace_report.perfetto import windows_of
    from faultline.trace_report.registry import chosen
    from faultline.trace_report.sources import opened

    traces = folder / "traces"
    if not traces.is_dir():
        raise EvidenceError("traces", "the case holds no traces of a training job")
    with opened([str(traces)]) as sources:
        result = run_job(
            sources, RankRequest(chosen(None), charts=True), jobs=1, say=lambda *_: None
        )
        report = report_of(result)
        page = render(page_of(report, windows_of(report, None)))
    match = _POLICY.search(page)
    if match is None:
        raise EvidenceError("traces", "the report names no policy")
    # A policy inside the page cannot say who may frame it, so the header does.
    return TraceReport(page, html.unescape(match.group(1)) + "; frame-ancestors 'none'")
