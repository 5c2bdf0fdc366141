"""What a model gets: the diagnosis in short lines of data, each beginning with its id.

Texts are redacted first, then stripped of mark-up; angle brackets are escaped so that no text can
close the element that holds the document.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from faultline.analysis.case.runbooks import AppliedRunbook
from faultline.analysis.secrets.personal_data import PERSON, PERSONAL, Personal
from faultline.analysis.secrets.redaction import kind_under, replaced
from faultline.analysis.vocabulary import Alert, Cause, Diagnosis, Finding, Gap
from faultline.bot.answer.asserted.ground import offered_steps
from faultline.bot.answer.writer.built_in import is_memory
from faultline.bot.answer.writer.plain_text import neutral

# Secrets and personal data out of a text, before it leaves this machine, and back into what comes
# in return.
#
# One `Redactor` serves one investigation: everything that goes to a model or into a stored prompt
# (alert, findings, the results of tools, a person's question) goes through its `redact` once, as
# raw text; everything that comes back goes through `reveal`. The same value then has the same
# placeholder everywhere, and what a prompt holds is what may be kept. A text that already looks
# like a placeholder gets its own placeholder, so nobody can forge one; for that reason a text must
# not be redacted twice.

_PLACEHOLDER = re.compile(r"\[([A-Z][A-Z_]{1,30})_(\d{1,6})\]")
_FORGED = re.compile(r"\[[A-Z][A-Z_]{1,30}_\d{1,6}\]")
_SHOWN = re.compile(r"\[[A-Z][A-Z_]{1,30}(?:_\d{1,6})?\]")
_NO_WORD = re.compile(r"[^\w-]+")
LOOK_ALIKE = "LITERAL"
"""Kind of a text that looked like a placeholder before anything was replaced."""


@dataclass
class Redactor:
    """Replaces secrets and personal data by numbered placeholders and remembers, in memory only,
    what they were.

    Of secrets only a digest under a key of this object is kept: enough to know the same one again,
    no way back.
    """

    originals: dict[str, str] = field(default_factory=dict, repr=False)
    """Placeholder to value, of personal data and look-alikes."""
    services: frozenset[str] = frozenset()
    """In lower case. A service may be called "customer" or "patient", which is nobody's name."""
    _placeholders: dict[tuple[str, str], str] = field(default_factory=dict, repr=False)
    _counts: Counter[str] = field(default_factory=Counter, repr=False)
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(16), repr=False)

    def redact(self, text: str) -> str:
        """The raw text with placeholders such as `[AWS_KEY_1]`; the same value always gets the same
        one."""
        # Look for forged placeholders first: later on the real ones look the same.
        text = _FORGED.sub(lambda m: self._reversible(LOOK_ALIKE, m.group()), text)
        text = replaced(text, self._secret)
        for personal_kind in PERSONAL:
            text = personal_kind.pattern.sub(partial(self._personal, personal_kind), text)
        return text

    def redact_all(self, value: Any) -> Any:
        """A JSON value with every text in it, keys included, redacted."""
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            clean: dict[str, Any] = {}
            for key, secret in value.items():
                # Some secrets show only by their key, such as "password".
                kind = kind_under(str(key), secret) if isinstance(secret, str) else None
                clean[self.redact(str(key))] = (
                    self._secret(kind, secret) if kind else self.redact_all(secret)
                )
            return clean
        if isinstance(value, Sequence):
            return [self.redact_all(v) for v in value]
        return value

    def reveal(self, text: str) -> str:
        """Personal data restored, for people who may see the case; secrets named by kind alone, as
        `masked` does."""

        def shown(match: re.Match[str]) -> str:
            placeholder = match.group()
            if placeholder in self.originals:
                return self.originals[placeholder]
            # A secret has no original: name its kind, if the placeholder was given out.
            return (
                f"[{match.group(1)}]"
                if int(match.group(2)) <= self._counts[match.group(1)]
                else placeholder
            )

        return _PLACEHOLDER.sub(shown, text)

    def state(self) -> dict[str, Any]:
        """What a worker that takes over needs, as JSON; of secrets no more than how many there
        were."""
        return {"originals": dict(self.originals), "counts": dict(self._counts)}

    @classmethod
    def resumed(cls, originals: Mapping[str, str], counts: Mapping[str, int]) -> Redactor:
        """A redactor that goes on where the one with this state ended."""
        placeholders = {(p[1:].rpartition("_")[0], value): p for p, value in originals.items()}
        return cls(originals=dict(originals), _placeholders=placeholders, _counts=Counter(counts))

    def _personal(self, personal_kind: Personal, match: re.Match[str]) -> str:
        """The match with the value in it replaced, unless it is a placeholder or no such value."""
        group = match.lastindex or 0
        value = match.group(group)
        if _SHOWN.match(match.string, match.start(group)) or not personal_kind.holds(value):
            return match.group()
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        label = _NO_WORD.sub("", match.group()[:start]).casefold()
        if personal_kind.kind == PERSON and {label, value.casefold()} & self.services:
            return match.group()
        return (
            match.group()[:start]
            + self._reversible(personal_kind.kind, value)
            + match.group()[end:]
        )

    def _reversible(self, kind: str, value: str) -> str:
        placeholder = self._placeholder(kind, value)
        self.originals[placeholder] = value
        return placeholder

    def _secret(self, kind: str, secret: str) -> str:
        digest = hashlib.blake2b(
            # JSON may hold lone surrogates, which UTF-8 cannot encode.
            secret.encode(errors="surrogatepass"),
            key=self._key,
            digest_size=16,
        )
        return self._placeholder(kind, digest.hexdigest())

    def _placeholder(self, kind: str, identity: str) -> str:
        if (kind, identity) not in self._placeholders:
            self._counts[kind] += 1
            self._placeholders[kind, identity] = f"[{kind}_{self._counts[kind]}]"
        return self._placeholders[kind, identity]


MAX_FINDINGS = 40
FEW_FINDINGS = 10
"""For a model whose context holds no more."""
MAX_CAUSES = 5
MAX_GAPS = 20
MAX_RUNBOOKS = 3
MAX_RUNBOOK_LINES = 60
TEXT_LIMIT = 500
NAMED = 20
"""Services and labels of a list."""
FOREIGN_DETAILS = ("title", "reason")
"""Details of a finding that help to understand it, that somebody else wrote, and that its sentence
may lack."""
WORTH_TELLING_S = 5.0
"""A smaller uncertainty of an onset is left out."""
TIME = "%H:%M:%S"


def payload(
    diagnosis: Diagnosis,
    alert: Alert,
    gaps: Sequence[Gap],
    redactor: Redactor,
    runbooks: Sequence[AppliedRunbook] = (),
    most: int = MAX_FINDINGS,
) -> str:
    """The user message, with at most `most` findings. What it replaced by placeholders, `redactor`
    remembers."""
    lines = [
        *_alert(alert),
        f"verdict: {diagnosis.verdict.value}, confidence {diagnosis.confidence:.2f}",
        *_impact(diagnosis),
        *_causes(diagnosis),
        *_findings(diagnosis, most),
        *_missing(diagnosis, gaps),
        *_steps(diagnosis, alert),
        *_runbooks(runbooks[:MAX_RUNBOOKS]),
    ]
    return as_data(neutral(redactor.redact(line), TEXT_LIMIT) for line in lines)


def as_data(lines: Iterable[str]) -> str:
    """Lines as the one element of data, which nothing in them can close."""
    return (
        "<data>\n" + "\n".join(lines).replace("<", "\\u003c").replace(">", "\\u003e") + "\n</data>"
    )


def chosen_findings(diagnosis: Diagnosis) -> list[Finding]:
    """The findings behind the impact and the first causes, then the strongest others, up to the
    limit.

    What memory knows is not among them: code words it, and no model can take it
    for evidence.
    """
    first = [*diagnosis.impact.findings[:8]]
    for cause in sorted(diagnosis.causes, key=lambda c: c.rank)[:MAX_CAUSES]:
        first += [*cause.findings, *cause.contradicting]
    # Reversed, so that the first place of a finding that is cited twice counts.
    order = {finding_id: n for n, finding_id in reversed(list(enumerate(first)))}
    findings = [f for f in diagnosis.findings if not is_memory(f)]
    ranked = sorted(findings, key=lambda f: (order.get(f.id, len(order)), -f.strength, f.id))
    return ranked[:MAX_FINDINGS]


def _alert(alert: Alert) -> Iterator[str]:
    about = " ".join(
        f"{name}={value}"
        for name, value in (
            ("service", alert.service),
            ("signal", alert.signal),
            ("severity", alert.severity),
        )
        if value
    )
    yield (
        f'alert from {alert.source}, {alert.started_at:%Y-%m-%d %H:%M:%S} UTC: "{alert.title}" '
        f"{about}"
    )
    if alert.summary and alert.summary != alert.title:
        yield f'alert says: "{alert.summary}"'
    labels = ", ".join(f"{k}={str(v)[:60]}" for k, v in list(alert.labels.items())[:NAMED])
    if labels:
        yield f"alert labels: {labels}"


def _impact(diagnosis: Diagnosis) -> Iterator[str]:
    impact = diagnosis.impact
    if impact.sentence:
        ids = " ".join(impact.findings[:8])
        yield f"impact{_since(impact.since)}: {impact.sentence} [{ids}]"
    if impact.services:
        yield f"affected: {', '.join(impact.services[:NAMED])}"


def _causes(diagnosis: Diagnosis) -> Iterator[str]:
    ranked = sorted(diagnosis.causes, key=lambda cause: cause.rank)[:MAX_CAUSES]
    if ranked:
        yield "causes, ranked by code: rank, subject, onset, confidence, findings, findings against"
    for cause in ranked:
        yield _cause(cause)


def _cause(cause: Cause) -> str:
    change = f" change {cause.change}" if cause.change else ""
    against = f" against {' '.join(cause.contradicting[:8])}" if cause.contradicting else ""
    return (
        f"{cause.rank} {cause.subject}{change}{_since(cause.onset)} {cause.confidence:.2f} "
        f"{' '.join(cause.findings[:10])}{against}"
    )


def _findings(diagnosis: Diagnosis, most: int) -> Iterator[str]:
    chosen = chosen_findings(diagnosis)
    yield "findings, computed by code: id, onset, what it says, (subject, signal) where not named"
    for finding in chosen[:most]:
        yield _finding(finding)
    left = len(diagnosis.findings) - min(most, len(chosen))
    if left > 0:
        yield f"{left} more findings are left out"


def _finding(finding: Finding) -> str:
    onset = f" {finding.onset.strftime(TIME)}" if finding.onset else ""
    uncertain = finding.onset_uncertainty_s or 0.0
    if onset and uncertain >= WORTH_TELLING_S:
        onset += f"±{uncertain:.0f}s"
    sentence = finding.sentence
    about = [] if finding.subject in sentence else [finding.subject]
    # "p99 latency" says what "latency_p99" is called.
    if finding.signal and not all(part in sentence for part in finding.signal.split("_")):
        about.append(finding.signal)
    named = f" ({', '.join(about)})" if about else ""
    written = finding.details.written()
    foreign = [
        f'{key} "{text}"'
        for key in FOREIGN_DETAILS
        if isinstance(text := written.get(key), str) and text and text not in sentence
    ]
    return " ".join([f"{finding.id}{onset} {sentence}{named}", *foreign])


def _missing(diagnosis: Diagnosis, gaps: Sequence[Gap]) -> Iterator[str]:
    # The relation `missing` counts them in the same order.
    for number, sentence in enumerate(diagnosis.missing, start=1):
        yield f"M{number} missing: {sentence}"
    for gap in gaps[:MAX_GAPS]:
        yield f"{gap.id} {gap.source} gave no {gap.kind}: {gap.reason}"


def _steps(diagnosis: Diagnosis, alert: Alert) -> Iterator[str]:
    for step in offered_steps(diagnosis, alert):
        yield f"{step.id} step: {step.text}"


def _runbooks(runbooks: Sequence[AppliedRunbook]) -> Iterator[str]:
    for runbook in runbooks:
        yield (
            f"runbook {runbook.name} ({runbook.why}), written by the operator; advice, no evidence:"
        )
        yield from (f"- {step}" for step in runbook.next_steps)
        yield from (line for line in runbook.text.splitlines()[:MAX_RUNBOOK_LINES] if line.strip())


def _since(time: datetime | None) -> str:
    return f" since {time.strftime(TIME)}" if time else ""


def clean(value: Any, redactor: Redactor) -> Any:
    """A JSON value with redacted and harmless texts, everywhere; empty parts are left out."""
    if isinstance(value, str):
        return neutral(redactor.redact(value), TEXT_LIMIT)
    if isinstance(value, Mapping):
        pairs = ((k, v) for k, v in value.items() if v not in (None, "", [], {}))
        return {clean(str(k), redactor): clean(v, redactor) for k, v in pairs}
    return [clean(v, redactor) for v in value] if isinstance(value, Iterable) else value
