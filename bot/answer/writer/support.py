"""What a set of cited findings supports: sentences, numbers, times, names and counts a claim may
use."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from analysis.analyzers import fault_of, finding_kind
from analysis.secrets.redaction import masked
from analysis.vocabulary import Alert, Cause, Diagnosis, Finding
from analysis.wording.phrases import plain
from bot.answer.writer.names import identifiers, without_names
from bot.answer.writer.plain_text import neutral
from bot.answer.writer.quantities import Quantity, canonical, in_unit, moments, quantities, unit_of

QUOTED_IN_DATA = "quoted"
"""Numbers so named stand in a log line that somebody else wrote: they may be quoted with it, never
claimed."""
MAX_INSTANTS = 12
"""Cited times whose distances a sentence may tell."""
_FOREIGN = re.compile(r'"[^\n]*"|“[^\n]*”')
_INVISIBLE = re.compile(
    r"[\u0300-\u036f\u00ad\u034f\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\U000e0000-\U000e0fff]"
)
_RATE = re.compile(r"(?:_|\b)per(?!cent)_?\w+$|/\w+$")


@lru_cache(
    maxsize=2048
)  # a report asks for the same sentences again and again, each time against every secret
def quotable(text: str) -> str:
    """A sentence of the diagnosis as a report may show it: no secret, nothing that renders."""
    return neutral(masked(text))


def named_in(name: str, text: str) -> bool:
    """Whether the name stands in the text as a whole word; both in lower case."""
    return position_of(name, text) >= 0


def position_of(name: str, text: str, *, last: bool = False) -> int:
    """Where the name stands in the text as a whole word, first or last; -1 where it does not."""
    found = [m.start() for m in re.finditer(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", text)]
    return found[-1 if last else 0] if found else -1


@dataclass(frozen=True)
class Support:
    """`own` is text written by code (lower case), `words` all text including data that was
    quoted."""

    findings: tuple[Finding, ...]
    sentences: tuple[str, ...]
    values: tuple[Quantity, ...]
    instants: tuple[datetime, ...]
    counts: frozenset[int]
    own: str
    words: str
    advice: str = ""
    """The next steps of the causes behind the cited findings, with bars between them."""
    strangers: tuple[str, ...] = ()
    """Subjects of the diagnosis that the cited findings do not name."""
    subjects: tuple[str, ...] = ()
    """All subjects of the diagnosis, in lower case."""
    spans: tuple[float, ...] = ()
    """Seconds between the cited times."""

    def values_for(self, clause: str) -> tuple[Quantity, ...]:
        """The values a clause may use: those of the one subject and the one signal it names,
        otherwise all."""
        about = _narrowed(self.findings, {f.subject for f in self.findings}, clause)
        signals = {f.signal for f in about if f.signal and identifiers(f.signal)}
        about = _narrowed(about, signals, clause)
        return (
            self.values
            if len(about) == len(self.findings)
            else tuple(v for f in about for v in values_of(f))
        )


def _narrowed(findings: Sequence[Finding], names: Iterable[str], clause: str) -> Sequence[Finding]:
    """The findings about the one name that the clause names, or whose sentence names it; all when
    it is not one."""
    named = [folded(n) for n in names if named_in(folded(n), clause)]
    if len(named) != 1:
        return findings
    return [
        f
        for f in findings
        if named_in(named[0], folded(f"{f.subject} {f.signal or ''} {f.sentence}"))
    ] or findings


def support_of(diagnosis: Diagnosis, alert: Alert, cited: Iterable[str]) -> Support:
    """The support that the findings with these ids give; ids that do not exist give none."""
    ids = set(cited)
    findings = tuple(f for f in diagnosis.findings if f.id in ids)
    causes = [c for c in diagnosis.causes if ids & {*c.findings, *c.contradicting}]
    impact = diagnosis.impact if ids & set(diagnosis.impact.findings[:1]) else None
    values = [v for f in findings for v in values_of(f)]
    counts = {len(findings), len({f.subject for f in findings})}
    told = [c for c in causes if ids.issuperset(quoted_by(c, diagnosis))]
    sentences = (
        [f.sentence for f in findings]
        + [c.summary for c in told]
        + [c.next_step or "" for c in causes]
    )
    fixes = [
        f.details.fix for f in findings if finding_kind(f.kind).explains_alert and f.details.fix
    ]
    sentences += fixes
    sentences += [_without_figures(c, findings) for c in told if c is leading_cause(diagnosis)]
    instants = [f.onset for f in findings] + [c.onset for c in causes] + [alert.started_at]
    names = [f"{f.subject} {f.signal or ''}" for f in findings] + [
        f"{c.subject} {c.signal or ''}" for c in causes
    ]
    names += [c.change or "" for c in causes] + [
        f"{alert.service or ''} {alert.system or ''} {alert.job or ''}"
    ]
    if impact:
        sentences.append(impact.sentence)
        instants.append(impact.since)
        values += [in_unit(v, unit_of(k)) for k, v in impact.numbers.items()]
        counts |= {len(impact.services), int(impact.numbers.get("other_services", 0))}
        names += list(impact.services)
    quoted = [text for f in findings for text in (*_texts(f.details.written()), *f.series.values())]
    said = [quotable(s) for s in sentences if s]
    words = folded(
        " ".join([*names, *sentences, *said, *(quotable(t) for t in quoted), *quoted, alert.title])
    )
    subjects = {
        folded(s)
        for s in [f.subject for f in diagnosis.findings] + [c.subject for c in diagnosis.causes]
    }
    known = sorted({i for i in instants if i is not None})[:MAX_INSTANTS]
    return Support(
        findings,
        tuple(sorted(said, key=len, reverse=True)),
        tuple(values),
        tuple(i for i in instants if i is not None),
        frozenset(n for n in counts if n),
        folded(" ".join([*names, *(_FOREIGN.sub(" ", s) for s in sentences)])),
        words,
        folded(" | ".join([*(c.next_step or "" for c in causes), *fixes])),
        tuple(sorted(s for s in subjects if not named_in(s, words))),
        tuple(sorted(subjects)),
        tuple((b - a).total_seconds() for n, a in enumerate(known) for b in known[n + 1 :]),
    )


def _without_figures(cause: Cause, cited: Iterable[Finding]) -> str:
    """What is wrong with the cause in the words of its fault, if its summary begins with them."""
    begins, _, _ = cause.summary.partition(": ")
    for finding in cited:
        fault = fault_of(finding)
        if fault is not None and begins == f"{plain(cause.subject)} {fault.description}":
            return begins
    return ""


def values_of(finding: Finding) -> tuple[Quantity, ...]:
    """The finding's numbers with the units that their names, its sentence or its signal give
    them."""
    named = {k: v for k, v in finding.numbers.items() if not k.startswith(QUOTED_IN_DATA)}
    _, rest = moments(without_names(_FOREIGN.sub(" ", finding.sentence)))
    said = [q for q in quantities(rest) if not q.spelled]
    signal = finding.signal or ""
    signal_unit = None if _RATE.search(signal) else unit_of(signal)
    found: list[Quantity] = []
    for name, value in named.items():
        units = {unit_of(name)} | {
            (q.dimension, q.value / q.raw)
            for q in said
            if q.raw and abs(q.raw - abs(value)) <= q.raw_tolerance
        }
        if name in ("baseline", "incident", "threshold", "proposed"):
            is_share = signal_unit == ("ratio", 0.01) and abs(value) <= 1
            units.add(("ratio", 1.0) if is_share else signal_unit)
        known = [u for u in units if u is not None and u[0] != "plain"]
        found += [in_unit(value, unit) for unit in known] or [in_unit(value, None)]
    if finding.effect is not None and finding.effect_unit:
        found.append(in_unit(finding.effect, unit_of(finding.effect_unit.split()[0])))
    return tuple(found)


def quoted_by(cause: Cause, diagnosis: Diagnosis) -> tuple[str, ...]:
    """The findings whose sentences the cause's summary repeats: only with their citation is it
    supported."""
    return tuple(f.id for f in diagnosis.findings if f.sentence.rstrip(".") in cause.summary)


def leading_cause(diagnosis: Diagnosis) -> Cause | None:
    """The cause that code ranked first."""
    return min(diagnosis.causes, key=lambda c: c.rank, default=None)


def folded(text: str) -> str:
    """Text for comparison: look-alikes and accented letters plain, nothing invisible, lower
    case."""
    letters = unicodedata.normalize("NFD", canonical(text))
    return _INVISIBLE.sub("", letters).lower()


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _texts(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _texts(part)
