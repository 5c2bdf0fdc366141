"""Log templates that are new, surged or vanished in the incident, per service, with the error and
code they name."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import LogLineDetails
from faultline.analysis.logs.counts import (
    MAX_HOSTS,
    PIECE,
    UNKNOWN_SERVICE,
    CountedLogLines,
    counted_lines,
    distinct_lines,
    joined_lists,
    row_items,
)
from faultline.analysis.logs.departures import (
    NEW,
    SURGE,
    VANISHED,
    StandsOut,
    stands_out,
    surprises,
)
from faultline.analysis.logs.miner import OTHER, TemplateMiner
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import counted, number, plain, rounded

__all__ = [
    "MAX_HOSTS",
    "NEW",
    "SURGE",
    "UNKNOWN_SERVICE",
    "VANISHED",
    "CountedLogLines",
    "StandsOut",
    "TemplateMiner",
    "counted_lines",
    "distinct_lines",
    "log_findings",
    "stands_out",
    "template_counts",
]
MAX_CODES = 8
"""Status and exit codes that split one template; in a template with more they are values like
others."""
MAX_NAMES = 500
"""Services whose names are looked for in lines."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def log_findings(case: Case, log_lines: CountedLogLines | None = None) -> list[Finding]:
    """Findings about templates that are new, surged or vanished; empty without logs in the incident
    window."""
    log_lines = log_lines or counted_lines(case)
    names = {*case.logs["service"].unique(), *case.topology["caller"], *case.topology["callee"]}
    names.discard(None)
    templates = surprises(template_counts(log_lines.lines), log_lines.seconds, service_names(names))
    findings = []
    for row in templates.iter_rows(named=True):
        out = stands_out(row, log_lines.seconds)
        if out is not None:
            findings.append(_say(out, row, log_lines))
    return findings


def service_names(names: Iterable[str]) -> re.Pattern[str] | None:
    """What finds a service's name as a whole word, the longest first; None without names."""
    # Names of one or two letters are words of other lines.
    long_names = sorted(name for name in set(names) if len(name) > 2)
    long_names.sort(key=len, reverse=True)
    if not long_names:
        return None
    alternatives = "|".join(map(re.escape, long_names[:MAX_NAMES]))
    return re.compile(rf"(?<![\w-])(?:{alternatives})(?![\w-])")


def template_counts(lines: pl.DataFrame) -> pl.DataFrame:
    """Per service and template of `distinct_lines`: the same columns, `pieces` as a list, and the
    template's text.

    A template's lines with different codes, errors or places in code are their own rows.
    """
    remaining_lines = lines.filter(pl.col("masked") != OTHER)
    miners: dict[str, TemplateMiner] = defaultdict(TemplateMiner)
    groups = []
    for service, line in remaining_lines.select("service", "masked").iter_rows():
        groups.append((miners[service], miners[service].add(line)))
    for miner in miners.values():
        miner.merge()
    texts = pl.Series("text", [miner.text(group) for miner, group in groups], dtype=pl.String)
    # Lines beyond the limit are of many kinds, so their total says nothing.
    lines_of = remaining_lines.with_columns(texts).filter(texts != OTHER)
    codes = pl.col("code").n_unique().over("service", "text")
    lines_of = lines_of.with_columns(pl.when(codes <= MAX_CODES).then(pl.col("code")).alias("code"))
    pieces = [c for c in lines.columns if c.startswith(PIECE)]
    key = ("service", "text", "code", "place", "error_class")
    merged = lines_of.group_by(key, maintain_order=True).agg(
        pl.col("n", "n_before", *pieces).sum(),
        pl.col("first").min(),
        pl.col("example", "frame").sort_by("n", descending=True, maintain_order=True).first(),
        pl.col("is_error").any(),
        pl.col("service_n", "service_before").first(),
        joined_lists("items"),
    )
    listed = pl.concat_list(pieces) if pieces else pl.lit([], dtype=pl.List(pl.UInt32))
    return merged.with_columns(listed.alias("pieces")).drop(pieces).sort(key)


def _say(out: StandsOut, row: dict[str, object], log_lines: CountedLogLines) -> Finding:
    service, n = str(row["service"]), _int(row["n"])
    phrase, numbers = _count_phrase(out, service, n, is_error=bool(row["is_error"]))
    quoted = f'"{plain(str(row["text"]), 120)}"'
    if row["frame"]:
        quoted += f" at {plain(str(row['frame']), 120)}"
    # Every number in a sentence must be known, those in the quotation too.
    for i, digits in enumerate(_NUMBER.findall(quoted), start=1):
        numbers[f"quoted_{i}"] = float(digits)
    first = row["first"]
    is_error = bool(row["is_error"])
    details = LogLineDetails(
        signal_class="errors" if is_error else "other",
        bad=is_error,
        template=str(row["text"])[:400],
        example=plain(str(row["example"]), 300),
        is_error=is_error,
        lines=_int(row["n"]),
        baseline_lines=_int(row["n_before"]),
    )
    # Only what a line has is set, because what is set is written to findings.json.
    extra_fields: dict[str, object] = {"lines_cut": log_lines.cut} if log_lines.cut else {}
    for name in ("error_class", "frame", "code", "names"):
        if row[name]:
            extra_fields[name] = plain(str(row[name]), 200)
    return Finding(
        id="",
        kind=out.kind,
        subject=service,
        signal="logs",
        onset=first if isinstance(first, datetime) and out.kind == NEW else None,
        effect=numbers.get("ratio", float(n)),
        effect_unit="x" if "ratio" in numbers else "lines",
        strength=round(max(0.0, min(1.0, out.strength)), 4),
        sentence=f"{phrase}: {quoted}.",
        numbers=numbers,
        evidence=row_items(row, log_lines.evidence),
        series={"table": "logs", "service": service},
        details=details.model_copy(update=extra_fields),
    )


def _count_phrase(
    out: StandsOut, service: str, n: int, *, is_error: bool
) -> tuple[str, dict[str, float]]:
    """How many lines there are, beside how many were to be expected."""
    word = "error line" if is_error else "line"
    numbers: dict[str, float] = {"lines": n}
    if out.kind == NEW:
        return f"{counted(n, f'new {word}')} in {plain(service)}", numbers
    phrase = f"{counted(n, word)} in {plain(service)}"
    if out.kind == SURGE:
        if out.size is not None:
            numbers["ratio"] = rounded(out.size, 3)
            phrase += f", {number(out.size, 3)} times the baseline's rate"
        return phrase, numbers
    expected = out.size or 0.0
    numbers["expected"] = rounded(expected, 2)
    return f"{phrase} where the baseline predicts {number(expected, 2)}", numbers


def _int(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0
