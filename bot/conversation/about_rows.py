"""Answers from the case's rows themselves: log lines, and where requests spend their time."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from faultline.analysis.analyzers import finding_kind, is_training
from faultline.analysis.case.windows import log_windows, span_windows
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import counted, number, plain
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.intake.questions.subjects import Subject

LINES = 6
MOST = 6
MAX_LINE = 300
READ = 20_000
"""Log lines that are looked through for what to show."""
SLOWEST = 3
_ERROR = re.compile(
    r"(?i)\b(error|fatal|panic|critical|exception|traceback|fail(ed|ure)?|timed? ?out|denied"
    r"|refused)\b"
)
_BAD_LEVEL = re.compile(r"(?i)^(error|err|fatal|critical|crit|alert|emerg|panic|severe)")
_WITH = re.compile(
    r"\b(?:with|containing|matching|mentioning|including)\s+(.{2,80}?)\s*[?.!]*\s*$", re.IGNORECASE
)
_QUOTED = re.compile(r"[\"'`\u201c\u2018]([^\"'`\u201d\u2019]{2,80})[\"'`\u201d\u2019]")


def logs(answered: AnsweredCase, subject: Subject | None, text: str) -> AnswerText:
    """What stands out in the logs, of one service if one is named, and lines as they were
    written."""
    names = subject.names if subject else ()
    findings = [
        f
        for f in answered.findings.values()
        if finding_kind(f.kind).tables == ("logs",) and (not names or _is_of(f, names))
    ]
    findings.sort(key=lambda f: -f.strength)
    search_text = _search_text(text)
    rows = _rows(answered, names, search_text)
    code = tuple(_shown(row) for row in _chosen(rows))
    where = f" of {' and '.join(plain(n, 60) for n in names[:2])}" if names else ""
    words = f" with “{plain(search_text, 60)}”" if search_text else ""
    if not answered.case.logs.height:
        return AnswerText(lead=f"The case holds no log lines: {_no_logs(answered)}")
    if not findings and not code:
        return AnswerText(
            lead=f"No log line{where}{words} in the incident's time, and none stands out."
        )
    phrase = (
        f"What stands out in the logs{where}:"
        if findings
        else f"Nothing stands out in the logs{where}; lines{words}:"
    )
    more = (f"{counted(rows.height, 'line')}{where}{words} in the incident's time",)
    return AnswerText(
        lead=phrase, lines=tuple(answered.line(f) for f in findings[:MOST]), code=code, more=more
    )


def slow(answered: AnsweredCase, subject: Subject | None) -> AnswerText:
    """Where the time goes: what the spans say, the slowest calls; of a training job its phases."""
    names = subject.names if subject else ()
    findings = [
        f for f in answered.findings.values() if _tells_time(f) and (not names or _is_of(f, names))
    ]
    findings.sort(key=lambda f: (not finding_kind(f.kind).tells_time, -f.strength))
    lines = [answered.line(f) for f in findings[:4]]
    slowest = _slowest(answered, names)
    if not answered.case.spans.height:
        phrase = (
            "There are no spans in the case; what else tells about time:"
            if lines
            else "The case holds no spans."
        )
        gaps = [
            answered.statement(g.reason, bold=plain(f"{g.source} spans", 60))
            for g in answered.case.gaps
            if g.kind == "spans"
        ]
        return AnswerText(lead=phrase, lines=(*lines, *gaps[:2]))
    if not lines and not slowest:
        return AnswerText(
            lead="No call became slower, and none was recorded in the incident's time."
        )
    phrase = (
        "Where the time goes:"
        if lines
        else "No call stands out against the baseline; the slowest ones were:"
    )
    return AnswerText(lead=phrase, lines=(*lines, *slowest))


def _slowest(answered: AnsweredCase, names: Sequence[str]) -> tuple[AnswerLine, ...]:
    """Operations by their 95th percentile in the incident, against the baseline's."""
    table, windows = answered.case.spans, span_windows(answered.case)
    if not table.height:
        return ()
    remaining_table = table.filter(pl.col("duration_us").is_finite(), pl.col("duration_us") >= 0)
    remaining_table = (
        remaining_table.filter(pl.col("service").is_in(list(names))) if names else remaining_table
    )
    timed = remaining_table.with_columns(
        windows.in_search("start").alias("now"), windows.in_baseline("start").alias("then")
    )
    by = timed.group_by("service", "operation").agg(
        pl.col("duration_us").filter(pl.col("now")).quantile(0.95).alias("p95"),
        pl.col("duration_us").filter(pl.col("then")).quantile(0.95).alias("before"),
        pl.col("now").sum().alias("n"),
    )
    # The names break ties, so that the same case gives the same lines.
    rows = by.filter(pl.col("n") > 0).sort(
        ["p95", "service", "operation"], descending=[True, False, False]
    )
    return tuple(_operation(row) for row in rows.head(SLOWEST).iter_rows(named=True))


def _operation(row: dict[str, object]) -> AnswerLine:
    p95, before, n = row["p95"], row["before"], row["n"]
    assert isinstance(p95, float)
    assert isinstance(n, int)
    was = f", {number(before / 1000, 3)} ms before" if isinstance(before, float) else ""
    text = f"95 % took up to {number(p95 / 1000, 3)} ms{was}, {counted(n, 'call')}"
    return AnswerLine(text=text, bold=plain(f"{row['service']} {row['operation']}", 120))


def _rows(answered: AnsweredCase, names: Sequence[str], search_text: str) -> pl.DataFrame:
    table = answered.case.logs
    if not table.height:
        return table
    rows = table.filter(
        log_windows(answered.case).in_search("time"), pl.col("message").is_not_null()
    )
    if names:
        rows = rows.filter(pl.col("service").is_in(list(names)))
    if search_text:
        rows = rows.filter(
            pl.col("message").str.to_lowercase().str.contains(search_text.lower(), literal=True)
        )
    return rows.sort("time", descending=True)


def _chosen(rows: pl.DataFrame) -> list[dict[str, object]]:
    """The latest lines that say of a failure, no two alike; without any, the latest lines."""
    bad: dict[str, dict[str, object]] = {}
    other: dict[str, dict[str, object]] = {}
    for row in rows.head(READ).iter_rows(named=True):
        message = str(row["message"])
        # Bound the search: one line may hold a whole document.
        is_bad = bool(_BAD_LEVEL.match(str(row["level"] or "")) or _ERROR.search(message[:1000]))
        kind = bad if is_bad else other
        if len(kind) < LINES:
            # Lines that differ only in numbers look alike.
            kind.setdefault(re.sub(r"\d+", "0", message[:200]), row)
        if len(bad) >= LINES:
            break
    chosen = list(bad.values()) or list(other.values())
    return sorted(chosen, key=lambda row: str(row["time"]))


def _shown(row: dict[str, object]) -> str:
    """One line as it was written, without the secrets in it."""
    # Mask before the last cut: half a secret is not recognized.
    message = masked(plain(str(row["message"]), 4 * MAX_LINE))
    return plain(
        f"{row['time']:%H:%M:%S} {plain(str(row['service'] or '-'), 40)} {message}", MAX_LINE
    )


def _search_text(text: str) -> str:
    match = _QUOTED.search(text) or _WITH.search(text)
    return match[1].strip() if match else ""


def _no_logs(answered: AnsweredCase) -> str:
    gaps = [g for g in answered.case.gaps if g.kind == "logs"]
    return (
        f"{plain(gaps[0].source, 40)}: {plain(gaps[0].reason, 200)}"
        if gaps
        else "no source of logs was asked."
    )


def _is_of(finding: Finding, names: Sequence[str]) -> bool:
    return any(finding.subject == n or finding.subject.endswith(f"/{n}") for n in names)


def _tells_time(finding: Finding) -> bool:
    is_latency = finding.details.signal_class == "latency" and finding.details.bad is True
    return finding_kind(finding.kind).tells_time or is_training(finding) or is_latency
