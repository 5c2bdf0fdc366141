"""How a job shows itself in a notebook. All text out of traces is escaped."""

from __future__ import annotations

from html import escape

from faultline.traces.ranks import JobRanks

MAX_DIAGNOSES = 8
MAX_TEXT = 400
_COLOURS = {"critical": "#c62828", "warning": "#b26a00", "info": "#546e7a"}


def job_html(ranks: JobRanks) -> str:
    """The job's facts and diagnoses. A job that is too large to be kept is not read for this: it
    shows how many traces there are until something was asked of it."""
    if not (ranks.in_memory or ranks.is_diagnosed):
        return (
            f"<p><b>{ranks.trace_count:,} traces</b>, read again for each question. "
            f"<code>job.diagnose()</code> says what is wrong.</p>"
        )
    report = ranks.report
    facts = escape(" · ".join(report.facts))
    lines = []
    for diagnosis in report.diagnoses[:MAX_DIAGNOSES]:
        statement, fix = (escape(text[:MAX_TEXT]) for text in (diagnosis.statement, diagnosis.fix))
        colour = _COLOURS[diagnosis.severity]
        lines.append(
            f'<li><b style="color:{colour}">{diagnosis.severity}</b> {statement}'
            f'<br><span style="opacity:.75">{fix}</span></li>'
        )
    more = len(report.diagnoses) - len(lines)
    if more > 0:
        lines.append(f"<li>and {more} more: <code>job.diagnose()</code></li>")
    phrase = f"<ul>{''.join(lines)}</ul>" if lines else ""
    well = f"<p>{escape(report.nothing_wrong)}</p>" if report.nothing_wrong else ""
    return f"<p><b>{facts}</b></p>{well}{phrase}"
