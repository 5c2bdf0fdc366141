"""From a job's report to the values of its page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from faultline.analysis.traces.doctor.diagnosis import EventReference, JobDiagnosis
from faultline.analysis.wording.phrases import capitalised
from faultline.trace_report.job_report import JobReport
from faultline.trace_report.page_job import job_sections
from faultline.trace_report.page_model import DiagnosisView, EventView, ReportPage
from faultline.trace_report.page_parts import (
    Column,
    Table,
    count_cell,
    ms_cell,
    table,
    text_cell,
    visible,
)
from faultline.trace_report.page_rank import panels
from faultline.trace_report.perfetto import PerfettoWindows, view_of

MAX_LEFT_OUT = 200


def page_of(report: JobReport, windows: PerfettoWindows) -> ReportPage:
    """The page of a job."""
    shown = panels(report)
    left = len(report.lines) - len(shown)
    if report.nothing_wrong or not report.diagnoses:
        headline = _sentence(report.nothing_wrong or "Nothing to say", 300)
    else:
        first, total = report.diagnoses[0], sum(d.severity != "info" for d in report.diagnoses[1:])
        kind = first.rule.removeprefix("flight_recorder_").replace("_", " ")
        more = f", and {total} more" if total else ""
        headline = _sentence(f"{first.subject}: {kind}{more}", 160)
    bases = {s.file: s.clock.base_ns or 0 for s in report.result.summaries}
    return ReportPage(
        title=f"Trace report: {headline}",
        headline=headline,
        facts=tuple(visible(fact, 60) for fact in report.facts),
        verdict=_verdict(report),
        diagnoses=tuple(_diagnosis_view(d, windows, bases) for d in report.diagnoses),
        sections=job_sections(report),
        panels=shown,
        ranks_left_out=f"{left} more ranks: --rank N" if left else "",
        files=_files_table(report),
        left_out=tuple(_left_out(report))[:MAX_LEFT_OUT],
        colophon=f"faultline {_version()}, from {len(report.result.files.files):,} files; loads "
        f"nothing.",
        windows=windows.embedded,
    )


def _sentence(text: str, limit: int) -> str:
    """With a capital letter."""
    return capitalised(visible(text, limit))


def _verdict(report: JobReport) -> tuple[str, str]:
    """What stands above the headline, and its colour."""
    severities = [d.severity for d in report.diagnoses]
    if "critical" in severities:
        return "critical", "fault"
    if "warning" in severities:
        return "warning", "open"
    return (
        ("nothing certain", "open")
        if report.verdict == "nothing_certain"
        else ("nothing wrong", "well")
    )


def _diagnosis_view(
    d: JobDiagnosis, windows: PerfettoWindows, bases: Mapping[str, int]
) -> DiagnosisView:
    """`bases` are when the times of each file are zero, ns."""
    numbers = tuple(
        (visible(name.replace("_", " "), 60), _number(value)) for name, value in d.numbers.items()
    )
    return DiagnosisView(
        rule=visible(d.rule, 60),
        severity=d.severity,
        subject=visible(d.subject, 120),
        statement=_sentence(d.statement, 900),
        fix=_sentence(d.fix, 900),
        source=visible(d.source, 400),
        numbers=numbers[:10],
        events=tuple(_event_view(e, windows, bases.get(e.file, 0)) for e in d.events),
    )


def _event_view(e: EventReference, windows: PerfettoWindows, base_ns: int) -> EventView:
    step = f", step {e.step}" if e.step is not None else ""
    where = (
        f"rank {e.rank}{step}, {ms_cell(e.duration_ns).text} ms long, event {e.event:,} of "
        f"{visible(e.file, 120)}"
    )
    return EventView(
        name=visible(e.name, 200),
        where=where,
        window=windows.of(e),
        view=view_of(e, base_ns),
        title=f"rank {e.rank}{step}: {visible(e.name, 80)}",
        file=f"rank{e.rank}-event{e.event}.json.gz",
    )


def _files_table(report: JobReport) -> Table | None:
    columns = (
        Column("file", "name"),
        Column("rank"),
        Column("rank told by, or kind", ""),
        Column("events"),
        Column("dropped", ""),
    )
    rows = [
        (
            text_cell(s.file),
            count_cell(s.rank),
            text_cell(s.rank_source),
            count_cell(s.event_count),
            text_cell("; ".join(f"{count:,} {reason}" for reason, count in s.dropped.items())),
        )
        for s in report.result.summaries
    ]
    used = {s.file for s in report.result.summaries}
    rows += [
        (
            text_cell(name),
            count_cell(f.rank),
            text_cell(f.kind.replace("_", " ")),
            count_cell(None),
            text_cell(""),
        )
        for f in report.result.files.files
        # Traces that were summed up are in the table already.
        if (name := report.result.names[f.path]) not in used
    ]
    return table(columns, rows)


def _left_out(report: JobReport) -> list[tuple[str, str]]:
    dropped = report.dropped
    omissions = [(entry["file"], entry["why"]) for entry in dropped["files"]]
    omissions += [
        (file, "is an older capture of the same rank") for file in dropped["older_captures"]
    ]
    omissions += [(f"{count:,} files", why) for why, count in dropped["not_looked_at"].items()]
    omissions += [
        (f"{entry['analysis']} of rank {entry['rank']}", entry["why"])
        for entry in dropped["analyses"]
    ]
    return [(visible(what, 200), visible(why, 300)) for what, why in omissions]


def _number(value: float) -> str:
    # Beyond 1e15 a float shows digits that it does not have.
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:,.2f}"


def _version() -> str:
    try:
        return version("faultline-bot")
    except PackageNotFoundError:
        return ""


# The page of `--html`: one file without links to anything, read offline, under a policy that runs
# only its own code.
#
# The policy names the hashes of the page's style and scripts; nothing is loaded, and no text of a
# trace can become code.

HERE = Path(__file__).parent
WEB = HERE.parent / "bot" / "web" / "static"


def render(page: ReportPage) -> str:
    """The page as HTML."""
    style = "\n".join(
        _text(p)
        for p in (WEB / "app.css", WEB / "vendor/uplot-1.6.32.min.css", HERE / "static/page.css")
    )
    uplot, script = _text(WEB / "vendor/uplot-1.6.32.min.js"), _text(HERE / "static/page.js")
    policy = (
        f"default-src 'none'; script-src {_hash(uplot)} {_hash(script)}; style-src {_hash(style)}; "
        "img-src 'none'; connect-src 'none'; form-action 'none'; base-uri 'none'"
    )
    template = _environment().get_template("page.html")
    mark = _text(WEB / "mark.svg")
    return template.render(
        page=page, style=style, uplot=uplot, script=script, policy=policy, mark=mark
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["coded"] = _coded
    return environment


def _coded(text: str) -> Markup:
    """What stands between backticks as code; everything else is escaped."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        # A backtick without a partner: take none of them as code.
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in enumerate(parts)
    )


@cache
def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8").strip()


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
