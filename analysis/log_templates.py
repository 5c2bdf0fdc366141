"""Log templates that are new, surged or vanished in the incident, per service.

Lines are masked, equal masked lines are counted once, and what remains is grouped like Drain (He et al. 2017): by
length and first word, then by the share of equal words. One pass, linear in lines; at most `MAX_TEMPLATES` per service.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import polars as pl

from analysis.case_folder import Case
from analysis.log_lines import log_texts
from analysis.vocabulary import Finding
from analysis.windows import Windows, log_windows
from analysis.wording import counted, number, plain, rounded

NEW, SURGE, VANISHED = "log_new", "log_surge", "log_vanished"
UNKNOWN_SERVICE = "unknown service"
SIMILAR = 0.6
"""Share of equal words at which two lines are one template (Drain uses 0.4-0.7 by data set)."""
MAX_WORDS = 14
MAX_TEMPLATES = 500
SURGE_RATIO = 3.0
SURGE_SIGMAS = 4.0
VANISHED_RATIO = 0.5
VANISHED_SIGMAS = 3.0
"""Counts are compared as Poisson counts: (seen - expected) / sqrt(expected + 1)."""
MIN_BASELINE_LINES = 5
"""A service with fewer baseline lines has no known vocabulary: its new templates count half."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")
_CODE = (
    r"(?i)(?:Xid \([^)]{0,40}\): |(?:status(?:[ _]?code)?|exit ?code|errno|error(?: code)?)[\"']?[:= ]{1,3}"
    r"|HTTP/\d(?:\.\d)?\"? )(\d{1,5})\b"
)
"""Numbers that say what failed. The masks take them off, so they are kept beside."""
_REASON = r'"reason":\s{0,4}"([A-Za-z]{1,60})"'
"""The reason of a Kubernetes event, in a line's attributes."""
_HOST = (
    r'"(?:host|host\.name|hostname|node|node_name|k8s\.node|k8s\.node\.name|kubernetes\.node_name|kubernetes\.host)"'
    r':\s{0,4}"([^"\\]{1,100})"'
)
"""OpenTelemetry's host.name and k8s.node.name, and the keys of Fluent Bit, Datadog and Loki."""
MAX_HOSTS = 4


@dataclass
class _Template:
    words: list[str]

    @property
    def text(self) -> str:
        return " ".join(self.words)


@dataclass
class TemplateMiner:
    """Groups masked lines of one service into templates. Beyond `limit` templates the lines fall into one rest."""

    limit: int = MAX_TEMPLATES
    _buckets: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    _templates: list[_Template] = field(default_factory=list)

    def add(self, masked: str) -> int:
        """The number of the template this line belongs to; -1 for the rest template."""
        words = masked.split(maxsplit=MAX_WORDS)[:MAX_WORDS] or [""]
        head = words[0] if "<*>" not in words[0] else "<*>"
        bucket = self._buckets.setdefault((len(words), head), [])
        best, score = -1, SIMILAR
        for index in bucket:
            same = _likeness(self._templates[index].words, words)
            if same >= score:
                best, score = index, same
        if best >= 0:
            known = self._templates[best]
            known.words = [a if a == b else "<*>" for a, b in zip(known.words, words, strict=True)]
            return best
        if len(self._templates) >= self.limit:
            return -1
        self._templates.append(_Template(words))
        bucket.append(len(self._templates) - 1)
        return len(self._templates) - 1

    def text(self, index: int) -> str:
        """The template's words, variable ones as `<*>`."""
        return self._templates[index].text if index >= 0 else "(other lines)"


@dataclass(frozen=True)
class LogLines:
    """The distinct masked lines of a case, and how long its windows are."""

    lines: pl.DataFrame
    """service, masked, code, reason, n, n_before, first, example, is_error, hosts, service_n, service_before."""
    seconds: tuple[float, float]
    """Of the baseline, of the incident."""
    evidence: tuple[str, ...]


def counted_lines(case: Case) -> LogLines:
    """The case's log lines, each masked line once; no rows without logs."""
    windows = log_windows(case)
    seconds = (sum(w.seconds for w in windows.baseline), windows.search.seconds)
    return LogLines(distinct_lines(case.logs, windows), seconds, case.evidence_ids("logs"))


def log_findings(case: Case, found: LogLines | None = None) -> list[Finding]:
    """Findings about templates that are new, surged or vanished; empty without logs in the incident window."""
    found = found or counted_lines(case)
    rows = template_counts(found.lines).iter_rows(named=True)
    return [f for row in rows if (f := _finding(row, found.seconds, found.evidence)) is not None]


def distinct_lines(logs: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    """Per service and masked line: counts in baseline and incident, first time seen, an example, whether an error.

    `code` and `reason` keep apart lines that only differ in what failed. `hosts` are up to `MAX_HOSTS` that the
    incident's lines name. `service_n` and `service_before` are the service's counts of all lines.
    """
    rows = logs.with_columns(windows.in_search("time").alias("now"), windows.in_baseline("time").alias("before"))
    rows = rows.filter(pl.col("now") | pl.col("before")).with_columns(pl.col("service").fill_null(UNKNOWN_SERVICE))
    return (
        log_texts(rows.sort("time", "service", "message"))
        .with_columns(
            pl.col("text").str.extract(_CODE, 1).alias("code"),
            pl.col("attributes").str.extract(_REASON, 1).alias("reason"),
            pl.col("attributes").str.extract(_HOST, 1).alias("host"),
        )
        .group_by("service", "masked", "code", "reason", maintain_order=True)
        .agg(
            pl.col("now").sum().alias("n"),
            (pl.col("before") & ~pl.col("now")).sum().alias("n_before"),
            pl.col("time").filter("now").min().alias("first"),
            pl.col("text").first().alias("example"),
            pl.col("is_error").any().alias("is_error"),
            pl.col("host").filter("now").drop_nulls().unique().sort().head(MAX_HOSTS).alias("hosts"),
        )
        .with_columns(
            pl.col("n").sum().over("service").alias("service_n"),
            pl.col("n_before").sum().over("service").alias("service_before"),
        )
    )


def template_counts(lines: pl.DataFrame) -> pl.DataFrame:
    """Per service and template of `distinct_lines`: the same columns, and the template's text."""
    miners: dict[str, TemplateMiner] = {}
    numbers = [miners.setdefault(s, TemplateMiner()).add(m) for s, m in lines.select("service", "masked").iter_rows()]
    merged = (
        lines.with_columns(pl.Series("template", numbers, dtype=pl.Int64))
        .group_by("service", "template", maintain_order=True)
        .agg(
            pl.col("n").sum(),
            pl.col("n_before").sum(),
            pl.col("first").min(),
            pl.col("example").sort_by("n", descending=True, maintain_order=True).first(),
            pl.col("is_error").any(),
            pl.col("service_n", "service_before").first(),
        )
    )
    texts = [miners[s].text(t) for s, t in merged.select("service", "template").iter_rows()]
    return merged.with_columns(
        pl.Series("text", texts, dtype=pl.String),
    ).sort("service", "text")


def _likeness(a: list[str], b: list[str]) -> float:
    return sum(x == y for x, y in zip(a, b, strict=True)) / len(a)


def _finding(row: dict[str, object], seconds: tuple[float, float], evidence: tuple[str, ...]) -> Finding | None:
    found = stands_out(row, seconds)
    return _say(found.kind, row, found.strength, found.size, evidence) if found else None


@dataclass(frozen=True)
class StandsOut:
    """How lines of the incident differ from the baseline's."""

    kind: str
    """NEW, SURGE or VANISHED."""
    strength: float
    size: float | None
    """Of a surge the ratio of rates, of vanished lines how many were expected."""


def stands_out(row: Mapping[str, object], seconds: tuple[float, float]) -> StandsOut | None:
    """Compare `n` with `n_before`, by time and by the service's lines; None where the baseline explains the count."""
    n, before = _int(row["n"]), _int(row["n_before"])
    by_time = before * seconds[1] / seconds[0] if seconds[0] > 0 else 0.0
    by_share = before * _int(row["service_n"]) / max(1, _int(row["service_before"]))
    more, less = max(by_time, by_share), min(by_time, by_share)
    is_error = bool(row["is_error"])
    if n and not before:
        known = 1.0 if _int(row["service_before"]) >= MIN_BASELINE_LINES else 0.5
        return StandsOut(NEW, (1.0 - math.exp(-n / 3.0)) * (1.0 if is_error else 0.5) * known, None)
    if n >= SURGE_RATIO * more and _sigmas(n, more) >= SURGE_SIGMAS:
        strength = (1.0 - math.exp(-_sigmas(n, more) / 8.0)) * (0.9 if is_error else 0.5)
        return StandsOut(SURGE, strength, n / more if more else None)
    if n <= VANISHED_RATIO * less and -_sigmas(n, less) >= VANISHED_SIGMAS:
        return StandsOut(VANISHED, (1.0 - math.exp(_sigmas(n, less) / 6.0)) * 0.6, less)
    return None


def _sigmas(seen: float, expected: float) -> float:
    return (seen - expected) / math.sqrt(expected + 1.0)


def _say(kind: str, row: dict[str, object], strength: float, size: float | None, evidence: tuple[str, ...]) -> Finding:
    service, n, text = str(row["service"]), _int(row["n"]), plain(str(row["text"]), 120)
    word = "error line" if row["is_error"] else "line"
    numbers: dict[str, float] = {"lines": n}
    if kind == NEW:
        said = f"{counted(n, f'new {word}')} in {plain(service)}"
    elif kind == SURGE:
        said = f"{counted(n, word)} in {plain(service)}"
        if size is not None:
            numbers["ratio"] = rounded(size, 3)
            said += f", {number(size, 3)} times the baseline's rate"
    else:
        numbers["expected"] = rounded(size or 0.0, 2)
        said = f"{counted(n, word)} in {plain(service)} where the baseline predicts {number(size or 0.0, 2)}"
    for i, quoted in enumerate(_NUMBER.findall(text), start=1):
        numbers[f"quoted_{i}"] = float(quoted)
    first = row["first"]
    return Finding(
        id="",
        kind=kind,
        subject=service,
        signal="logs",
        onset=first if isinstance(first, datetime) and kind == NEW else None,
        effect=numbers.get("ratio", float(n)),
        effect_unit="x" if "ratio" in numbers else "lines",
        strength=round(max(0.0, min(1.0, strength)), 4),
        sentence=f'{said}: "{text}".',
        numbers=numbers,
        evidence=evidence,
        series={"table": "logs", "service": service},
        details={
            "class": "errors" if row["is_error"] else "other",
            "bad": bool(row["is_error"]),
            "template": str(row["text"])[:400],
            "example": plain(str(row["example"]), 300),
            "is_error": bool(row["is_error"]),
            "lines": n,
            "baseline_lines": _int(row["n_before"]),
        },
    )


def _int(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
