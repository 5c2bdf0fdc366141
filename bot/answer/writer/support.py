"""What a set of cited findings supports: sentences, numbers, times, names and counts a claim may
use."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import combinations
from typing import Any

from analysis.analyzers import fault_of, finding_kind
from analysis.secrets.redaction import masked
from analysis.vocabulary import Alert, Cause, Diagnosis, Finding, Impact
from analysis.wording.names import change_name
from analysis.wording.phrases import plain
from bot.answer.writer.names import identifiers, without_names
from bot.answer.writer.plain_text import neutral
from bot.answer.writer.quantities import (
    Dimension,
    Quantity,
    canonical,
    in_unit,
    moments,
    quantities,
    unit_of,
)

Unit = tuple[Dimension, float]
"""A dimension and the factor of the unit in it, as `unit_of` gives them."""

QUOTED_IN_DATA = "quoted"
"""Numbers so named stand in a log line that somebody else wrote: they may be quoted with it, never
claimed."""
MAX_INSTANTS = 12
"""Cited times whose distances a sentence may tell."""
_FOREIGN = re.compile(r'"[^\n]*"|“[^\n]*”')
_INVISIBLE = re.compile(
    r"[\u0300-\u036f\u00ad\u034f\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\U000e0000-\U000e0fff]"
)
_IN_THE_SIGNALS_UNIT = ("baseline", "incident", "threshold", "proposed")
"""Numbers of a finding that are values of its signal."""
_RATE = re.compile(r"(?:_|\b)per(?!cent)_?\w+$|/\w+$")


# A report asks for the same sentences again and again, each time against every secret.
@lru_cache(maxsize=2048)
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
        if len(about) == len(self.findings):
            return self.values
        values: list[Quantity] = []
        for finding in about:
            values += values_of(finding)
        return tuple(values)


def _narrowed(findings: Sequence[Finding], names: Iterable[str], clause: str) -> Sequence[Finding]:
    """The findings about the one name that the clause names, or whose sentence names it; all when
    it is not one."""
    named = [folded(n) for n in names if named_in(folded(n), clause)]
    if len(named) != 1:
        return findings
    narrowed = []
    for finding in findings:
        text = folded(f"{finding.subject} {finding.signal or ''} {finding.sentence}")
        if named_in(named[0], text):
            narrowed.append(finding)
    return narrowed or findings


@dataclass(frozen=True)
class _Cited:
    """What a set of citations reaches in the diagnosis."""

    findings: tuple[Finding, ...]
    causes: list[Cause]
    """The causes for or against which a cited finding speaks."""
    told: list[Cause]
    """Those of them whose summary is covered by the citations."""
    impact: Impact | None
    fixes: list[str]


def support_of(diagnosis: Diagnosis, alert: Alert, cited: Iterable[str]) -> Support:
    """The support that the findings with these ids give; ids that do not exist give none."""
    reached = _reached(diagnosis, set(cited))
    sentences = _sentences(reached, diagnosis)
    names = _names(reached, alert)
    said = [quotable(sentence) for sentence in sentences if sentence]
    # Secrets are hidden in what a report shows. A claim is compared with both forms.
    data = _quoted_data(reached.findings)
    shown_data = [quotable(text) for text in data]
    words = folded(" ".join([*names, *sentences, *said, *shown_data, *data, alert.title]))
    own_sentences = [_FOREIGN.sub(" ", sentence) for sentence in sentences]
    next_steps = [step for cause in reached.causes for step in _steps(cause)]
    subjects = _subjects(diagnosis)
    instants = _instants(reached, alert)
    return Support(
        findings=reached.findings,
        sentences=tuple(sorted(said, key=len, reverse=True)),
        values=_values(reached),
        instants=instants,
        counts=_counts(reached),
        own=folded(" ".join([*names, *own_sentences])),
        words=words,
        advice=folded(" | ".join([*next_steps, *reached.fixes])),
        strangers=tuple(subject for subject in subjects if not named_in(subject, words)),
        subjects=subjects,
        spans=_spans(instants),
    )


def _reached(diagnosis: Diagnosis, ids: set[str]) -> _Cited:
    findings = tuple(f for f in diagnosis.findings if f.id in ids)
    causes = [c for c in diagnosis.causes if ids & {*c.findings, *c.contradicting}]
    told = [c for c in causes if ids.issuperset(quoted_by(c, diagnosis))]
    # The sentence of the impact quotes the figures of its first finding.
    impact_is_cited = bool(ids & set(diagnosis.impact.findings[:1]))
    fixes = []
    for finding in findings:
        if finding_kind(finding.kind).explains_alert and finding.details.fix:
            fixes.append(finding.details.fix)
    return _Cited(findings, causes, told, diagnosis.impact if impact_is_cited else None, fixes)


def _sentences(reached: _Cited, diagnosis: Diagnosis) -> list[str]:
    sentences = [f.sentence for f in reached.findings]
    sentences += [c.summary for c in reached.told]
    sentences += [c.next_step or "" for c in reached.causes]
    sentences += reached.fixes
    leading = leading_cause(diagnosis)
    if leading is not None and leading in reached.told:
        sentences.append(_without_figures(leading, reached.findings))
    if reached.impact is not None:
        sentences.append(reached.impact.sentence)
    return sentences


def _steps(cause: Cause) -> tuple[str, ...]:
    """The cause's next step, with its change as people shorten it and whole."""
    step = cause.next_step or ""
    if not cause.change:
        return (step,)
    return step, step.replace(change_name(cause.change), cause.change)


def _names(reached: _Cited, alert: Alert) -> list[str]:
    names = [f"{f.subject} {f.signal or ''}" for f in reached.findings]
    names += [f"{c.subject} {c.signal or ''}" for c in reached.causes]
    names += [c.change or "" for c in reached.causes]
    names.append(f"{alert.service or ''} {alert.system or ''} {alert.job or ''}")
    if reached.impact is not None:
        names += reached.impact.services
    return names


def _values(reached: _Cited) -> tuple[Quantity, ...]:
    values: list[Quantity] = []
    for finding in reached.findings:
        values += values_of(finding)
    if reached.impact is not None:
        for name, number in reached.impact.numbers.items():
            values.append(in_unit(number, unit_of(name)))
    return tuple(values)


def _counts(reached: _Cited) -> frozenset[int]:
    counts = {len(reached.findings), len({f.subject for f in reached.findings})}
    impact = reached.impact
    if impact is not None:
        counts |= {len(impact.services), int(impact.numbers.get("other_services", 0))}
    return frozenset(count for count in counts if count)


def _instants(reached: _Cited, alert: Alert) -> tuple[datetime, ...]:
    instants = [f.onset for f in reached.findings]
    instants += [c.onset for c in reached.causes]
    instants.append(alert.started_at)
    if reached.impact is not None:
        instants.append(reached.impact.since)
    return tuple(instant for instant in instants if instant is not None)


def _spans(instants: Iterable[datetime]) -> tuple[float, ...]:
    """Seconds between any two of the first MAX_INSTANTS."""
    known = sorted(set(instants))[:MAX_INSTANTS]
    return tuple((later - earlier).total_seconds() for earlier, later in combinations(known, 2))


def _quoted_data(findings: Iterable[Finding]) -> list[str]:
    """Text of others that the findings carry: log lines, labels and the like."""
    texts: list[str] = []
    for finding in findings:
        texts += _texts(finding.details.written())
        texts += finding.series.values()
    return texts


def _subjects(diagnosis: Diagnosis) -> tuple[str, ...]:
    subjects = {folded(finding.subject) for finding in diagnosis.findings}
    subjects |= {folded(cause.subject) for cause in diagnosis.causes}
    return tuple(sorted(subjects))


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
    found: list[Quantity] = []
    said = _spoken_quantities(finding.sentence)
    for name, value in finding.numbers.items():
        if name.startswith(QUOTED_IN_DATA):
            continue
        units = {unit_of(name), *_units_beside(value, said)}
        if name in _IN_THE_SIGNALS_UNIT:
            units.add(_unit_from_signal(finding.signal or "", value))
        known = [unit for unit in units if unit is not None and unit[0] != "plain"]
        if known:
            found += [in_unit(value, unit) for unit in known]
        else:
            found.append(in_unit(value, None))
    if finding.effect is not None and finding.effect_unit:
        found.append(in_unit(finding.effect, unit_of(finding.effect_unit.split()[0])))
    return tuple(found)


def _spoken_quantities(sentence: str) -> list[Quantity]:
    """What the sentence states in digits; quoted text, names and times do not count."""
    own = _FOREIGN.sub(" ", sentence)
    _, rest = moments(without_names(own))
    return [quantity for quantity in quantities(rest) if not quantity.spelled]


def _units_beside(value: float, said: Iterable[Quantity]) -> Iterator[Unit]:
    """The units in which the sentence states this value."""
    for quantity in said:
        if quantity.raw and abs(quantity.raw - abs(value)) <= quantity.raw_tolerance:
            yield quantity.dimension, quantity.value / quantity.raw


def _unit_from_signal(signal: str, value: float) -> Unit | None:
    if _RATE.search(signal):
        return None
    unit = unit_of(signal)
    # A signal that is named in percent but stays at or below 1 holds a share.
    if unit == ("ratio", 0.01) and abs(value) <= 1:
        return ("ratio", 1.0)
    return unit


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
