"""Known failures in a case's logs: what they mean and what to do, as findings of the service that
logs them.

Signatures are looked for in distinct masked lines, not in every line. The lines of one failure in
one service are one finding, which stands in for the findings about their templates; so a failure is
reported once. It is weighed against the baseline like a template: what was as frequent before is no
finding. A failure that a service has by itself (its disk is full) is its own trouble; one that
follows as often from what it calls (connection refused) travels from callee to caller like other
error lines, see `explanations`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import polars as pl

from faultline.analysis.analyzers import Analyzer
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import FailureDetails, SignatureDetails
from faultline.analysis.kinds.finding_kinds import (
    FAILURE_SIGNATURE,
    LOG_NEW,
    LOG_SURGE,
    LOG_VANISHED,
)
from faultline.analysis.logs.counts import row_items
from faultline.analysis.logs.failure_signatures import LINE_LIMIT, SIGNATURES, Signature
from faultline.analysis.logs.templates import (
    MAX_HOSTS,
    NEW,
    VANISHED,
    CountedLogLines,
    StandsOut,
    counted_lines,
    log_findings,
    stands_out,
)
from faultline.analysis.logs.xid_codes import specific_signature
from faultline.analysis.vocabulary import Alert, Finding
from faultline.analysis.wording.phrases import counted, number, plain, rounded

# Finds known failures in lines of text: all words of all signatures at once, then only the patterns
# they call for.
#
# The words are searched by one Aho-Corasick automaton (Aho and Corasick 1975, in Polars) over a
# whole column, so the cost of an ordinary line does not grow with the number of signatures. A
# line's signature is the first in the table's order, which goes from the special to the general.


class SignatureTable:
    """Signatures in order of precedence."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self.signatures = tuple(signatures)
        by_word: dict[str, list[int]] = defaultdict(list)
        for place, signature in enumerate(self.signatures):
            for word in signature.words:
                by_word[word].append(place)
        self._by_word = dict(by_word)
        self.words = tuple(self._by_word)

    def match(self, line: str) -> Signature | None:
        """The signature that one line shows."""
        # Patterns are bounded, but their work still grows with the line.
        shown = line[:LINE_LIMIT]
        low = shown.lower()
        return self._first((word for word in self.words if word in low), shown)

    def match_all(self, lines: Sequence[str]) -> list[Signature | None]:
        """The signature of each line, in one pass over all of them."""
        signatures: list[Signature | None] = [None] * len(lines)
        # Polars takes UTF-8 alone, and a line may hold half a surrogate pair.
        texts = pl.Series([_encodable(line[:LINE_LIMIT]) for line in lines], dtype=pl.String)
        suspects = self.suspects(texts).arg_true()
        hits = texts.gather(suspects).str.extract_many(
            list(self.words), ascii_case_insensitive=True, overlapping=True
        )
        for place, words in zip(suspects.to_list(), hits.to_list(), strict=True):
            signatures[place] = self._first(
                {word.lower() for word in words}, lines[place][:LINE_LIMIT]
            )
        return signatures

    def suspects(self, texts: pl.Series) -> pl.Series:
        """Which texts hold a word of any signature."""
        return texts.str.contains_any(list(self.words), ascii_case_insensitive=True)

    def _first(self, words: Iterable[str], line: str) -> Signature | None:
        # Keep the table's order, which goes from the special to the general.
        places = sorted({place for word in words for place in self._by_word.get(word, ())})
        return next(
            (s for s in map(self.signatures.__getitem__, places) if s.pattern.search(line)), None
        )


def _encodable(line: str) -> str:
    return line if line.isascii() else line.encode("utf-8", "replace").decode("utf-8")


TABLE = SignatureTable(SIGNATURES)


def match(line: str) -> Signature | None:
    """The signature that one line shows; None for an ordinary line."""
    return TABLE.match(line)


def match_all(lines: Sequence[str]) -> list[Signature | None]:
    """The signature of each line."""
    return TABLE.match_all(lines)


KIND = FAILURE_SIGNATURE.name
ALERT = "alert"
TRACE_NAMES = {"nan_loss": "not_a_number", "out_of_memory": "cuda_out_of_memory"}
"""Signatures that findings of a training job's files tell with rank and step."""
MAX_QUOTE = 120
ALERT_STRENGTH = 0.5
"""Of a failure that only the alert's own text names: it says where to look, and not since when (own
judgement)."""
CLEAR_WEIGHT = 0.85
"""A failure that a service has by itself and that speaks this clearly: one line of it says it all,
also in an alert."""
ONCE = 0.8
"""Strength of such a failure where the baseline has none, however often it is logged: a GPU is lost
once (our choice)."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def logged_findings(case: Case) -> list[Finding]:
    """Findings of the logs: known failures, and templates that are new, surged or vanished among
    the other lines."""
    log_lines = counted_lines(case)
    # The signature each distinct line shows, an Xid by its number.
    rows = log_lines.lines.select("reason", "example").iter_rows()
    examples = [f"{reason or ''} {text or ''}".strip() for reason, text in rows]
    signatures = [
        s and specific_signature(s, text)
        for s, text in zip(TABLE.match_all(examples), examples, strict=True)
    ]
    shown = pl.Series([s is not None for s in signatures], dtype=pl.Boolean)
    failures = _by_failure(log_lines.lines.filter(shown), [s for s in signatures if s is not None])
    findings = [f for row in failures if (f := _finding(row, log_lines)) is not None]
    return [
        *findings,
        *log_findings(case, replace(log_lines, lines=log_lines.lines.filter(~shown))),
        *_alerted(case, findings),
    ]


ANALYZER = Analyzer(logged_findings, kinds=(FAILURE_SIGNATURE, LOG_NEW, LOG_SURGE, LOG_VANISHED))


def _by_failure(lines: pl.DataFrame, signatures: Sequence[Signature]) -> list[dict[str, Any]]:
    """One row per service and failure, by name: counts, first time, and the incident's longest
    line: it says most."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for line, signature in zip(lines.iter_rows(named=True), signatures, strict=True):
        # Start from zero: the row itself is added below like every other.
        new = {**line, "signature": signature, "n": 0, "n_before": 0, "example": ""}
        new |= {"hosts": [], "items": []}
        row = rows.setdefault((line["service"], signature.name), new)
        if line["n"] and len(line["example"]) > len(row["example"]):
            row |= {"example": line["example"], "masked": line["masked"]}
        row["n"] += line["n"]
        row["n_before"] += line["n_before"]
        row["hosts"] = sorted({*row["hosts"], *line["hosts"]})[:MAX_HOSTS]
        row["items"] = sorted({*row["items"], *line["items"]})
        row["first"] = min(
            (t for t in (row["first"], line["first"]) if t is not None), default=None
        )
        row["is_error"] = True
    return [rows[key] for key in sorted(rows)]


def _finding(row: dict[str, Any], log_lines: CountedLogLines) -> Finding | None:
    out = stands_out(row, log_lines.seconds)
    # A failure that got rarer explains nothing.
    if out is None or out.kind == VANISHED:
        return None
    signature: Signature = row["signature"]
    service, first, quoted = (
        str(row["service"]),
        row["first"],
        plain(str(row["example"]), MAX_QUOTE),
    )
    numbers: dict[str, float] = {"lines": row["n"]} | _numbers_of(signature)
    where = _where(row["hosts"]) if signature.accuses in ("gpu", "host") else ""
    phrase = (
        f"{plain(service)} logs that {signature.meaning}: {_how_often(row, out, numbers)}{where}"
    )
    for i, digits in enumerate(_NUMBER.findall(f"{where} {quoted}"), start=1):
        numbers[f"quoted_{i}"] = float(digits)
    return Finding(
        id="",
        kind=KIND,
        subject=service,
        signal="logs",
        # Only a line that the baseline lacks tells when it began.
        onset=first if isinstance(first, datetime) and out.kind == NEW else None,
        effect=numbers.get("ratio", float(row["n"])),
        effect_unit="x" if "ratio" in numbers else "lines",
        strength=round(min(1.0, _strength(out, signature) * signature.weight), 4),
        sentence=f'{phrase}: "{quoted}".',
        numbers=numbers,
        evidence=row_items(row, log_lines.evidence),
        series={"table": "logs", "service": service},
        details=_details(signature).model_copy(
            update={
                "hosts": tuple(plain(host) for host in row["hosts"]),
                "example": plain(str(row["example"]), 300),
                "template": str(row["masked"])[:400],
                "lines": row["n"],
                "baseline_lines": row["n_before"],
            }
        ),
    )


def _where(hosts: Sequence[str]) -> str:
    """The hosts that the lines name; with `MAX_HOSTS` there may be more."""
    named = ", ".join(plain(host, 60) for host in hosts[: MAX_HOSTS - 1])
    return f", on {named}{' and others' if len(hosts) == MAX_HOSTS else ''}" if named else ""


def _strength(out: StandsOut, signature: Signature) -> float:
    # A symptom may be another service's doing, so a single line of it proves nothing.
    clear = out.kind == NEW and not signature.symptom and signature.weight >= CLEAR_WEIGHT
    return max(out.strength, ONCE) if clear else max(0.0, out.strength)


def _how_often(row: dict[str, Any], out: StandsOut, numbers: dict[str, float]) -> str:
    lines = counted(row["n"], "line")
    if out.kind == NEW:
        return f"{lines}, none in the baseline"
    if out.size is None:
        return lines
    numbers["ratio"] = rounded(out.size, 3)
    return f"{lines}, {number(out.size, 3)} times the baseline's rate"


def _numbers_of(signature: Signature) -> dict[str, float]:
    """The numbers of the meaning: an Xid, a status."""
    return {
        f"{signature.kind}_code_{i}": float(n)
        for i, n in enumerate(_NUMBER.findall(signature.meaning), start=1)
    }


def _details(signature: Signature) -> SignatureDetails:
    return SignatureDetails(
        signal_class="errors",
        bad=True,
        is_error=True,
        signature=signature.name,
        meaning=signature.meaning,
        fix=signature.action,
        source=signature.source,
        accuses=signature.accuses,
        inherent=not signature.symptom,
    )


def _alerted(case: Case, logged: Sequence[Finding]) -> list[Finding]:
    """A failure that the alert's own text names, where the logs do not tell it already."""
    alert = case.alert
    signature = _named_by(alert)
    if (
        alert.service is None
        or signature is None
        or any(f.subject == alert.service for f in logged)
    ):
        return []
    return [
        Finding(
            id="",
            kind=KIND,
            subject=alert.service,
            signal=ALERT,
            strength=round(ALERT_STRENGTH * signature.weight, 4),
            sentence=f"{plain(alert.service)}'s alert says that {signature.meaning}.",
            numbers=_numbers_of(signature),
            evidence=case.evidence_ids("alert"),
            details=_details(signature),
        )
    ]


def without_what_ranks_tell(findings: Sequence[Finding]) -> list[Finding]:
    """Without what only the alert's text says of a failure that the training job's own files
    show."""
    signatures = {_signature_of(f) for f in findings if f.signal != ALERT}
    signatures |= {TRACE_NAMES.get(f.kind) for f in findings}
    return [
        f
        for f in findings
        if f.kind != KIND or f.signal != ALERT or _signature_of(f) not in signatures
    ]


def _signature_of(finding: Finding) -> str | None:
    """The name of the known failure that a finding tells of, if any."""
    details = finding.details
    return details.signature if isinstance(details, (SignatureDetails, FailureDetails)) else None


def _named_by(alert: Alert) -> Signature | None:
    text = f"{alert.title} {alert.summary or ''}"
    signature = match(text)
    if signature is None:
        return None
    named_signature = specific_signature(signature, text)
    # An alert is prose, so trust only a clear signature in it.
    return (
        named_signature
        if not named_signature.symptom and named_signature.weight >= CLEAR_WEIGHT
        else None
    )
