"""Changes near the onset of what they could have caused, and the ones ruled out, each with its reason.

A change is judged by when it reached production (a merge travels with the next deploy of the service it touches),
where (the suspect itself, a callee, a caller), and what its text shares with the symptoms.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from analysis.case_folder import Case
from analysis.change_text import ChangeText, rarity, read_change_text, relevance, service_words, touches, words_of
from analysis.explanations import Suspect
from analysis.topology import Topology
from analysis.vocabulary import Alert, Finding
from analysis.wording import number, plain, rounded

NEAR, RULED_OUT = "change_near", "change_ruled_out"
LONGEST_LEAD = timedelta(hours=6)
"""A change older than this is not listed: its effect would have been seen before."""
HALF_LIFE_MIN = 30.0
"""How fast a change grows unlikely with the minutes between it and the onset."""
KIND_WEIGHTS = {"deploy": 1.0, "config": 1.0, "migration": 1.0, "flag": 0.8, "scale": 0.7, "merge": 0.4}
PLACE_WEIGHTS = {"itself": 1.0, "callee": 0.6, "caller": 0.3, "job": 0.7, "elsewhere": 0.2}
LIKELY = 0.3
"""Below this a change is listed as ruled out."""
SAID = 0.4
"""A word of the title or a path counts this much of a word the diff takes out or puts in."""
UNALTERED = 0.4
"""A change that only moves code, or takes a patch release of a dependency, keeps this much."""
SUSPECTS_CONSIDERED = 3
MAX_RULED_OUT = 12
TITLE_LENGTH = 70


@dataclass(frozen=True)
class Shipped:
    """A change as it reached production: `time` is its deploy's where it travelled with one."""

    id: str
    kind: str
    service: str | None
    time: datetime
    text: ChangeText
    link: str | None = None

    @property
    def label(self) -> str:
        """Short name: the first 12 characters of a hash, a flag's name as it is."""
        return plain(self.id[:12] if len(self.id) >= 32 and self.id.isalnum() else self.id, 60)


def nearby_changes(case: Case, suspects: Sequence[Suspect], topology: Topology) -> list[Finding]:
    """Findings `change_near` (strength >= 0.25) and `change_ruled_out` for changes up to six hours before the onset."""
    shipped = shipped_changes(case)
    onset = _onset(case.alert, suspects)
    if not shipped or onset is None:
        return []
    weights = rarity(c.text.words for c in shipped)
    symptoms = symptom_words(case.alert, suspects)
    end = max(case.scope.incident.end, onset)
    evidence = case.evidence_ids("changes")
    found = [
        _judge(change, suspects, topology, onset, symptoms, weights, evidence)
        for change in shipped
        if onset - LONGEST_LEAD <= change.time <= end
    ]
    near = [f for f in found if f.kind == NEAR]
    ruled_out = sorted((f for f in found if f.kind == RULED_OUT), key=lambda f: (-f.strength, f.sentence))
    return near + ruled_out[:MAX_RULED_OUT]


def shipped_changes(case: Case) -> list[Shipped]:
    """The changes table as shipped changes in time order; a deploy takes over the text of the merge it names."""
    rows = case.changes.sort("time", "kind", "id").to_dicts()
    merges = {r["id"]: r for r in rows if r["kind"] == "merge"}
    out: list[Shipped] = []
    deployed = {r["id"] for r in rows if r["kind"] != "merge"}
    for row in rows:
        if row["kind"] == "merge" and row["id"] in deployed:
            continue
        out.append(_shipped(row, merges.get(row["id"], row) if row["kind"] != "merge" else row))
    deploys = [c for c in out if c.kind == "deploy"]
    return [_with_its_deploy(c, deploys) if c.kind == "merge" else c for c in out]


def symptom_words(alert: Alert, suspects: Sequence[Suspect]) -> frozenset[str]:
    """Words of the alert and of the first suspects' signals and log templates, without the services' names."""
    texts = [alert.title, alert.summary or "", alert.signal or ""]
    for suspect in suspects[:SUSPECTS_CONSIDERED]:
        for finding in suspect.findings[:8]:
            texts += [finding.signal or "", str(finding.details.get("template", ""))]
    named = {w for s in suspects[:SUSPECTS_CONSIDERED] for w in words_of(service_words(s.subject))}
    return words_of(texts) - named


def _shipped(row: dict[str, object], text: dict[str, object]) -> Shipped:
    title = str(text["title"] or row["title"] or "")
    time = row["time"]
    assert isinstance(time, datetime)
    return Shipped(
        id=str(row["id"]),
        kind=str(row["kind"]),
        service=_text(row["service"]),
        time=time,
        text=read_change_text(title, _text(text["files"]), _text(text["diff"])),
        link=_text(row["link"]),
    )


def _with_its_deploy(merge: Shipped, deploys: Sequence[Shipped]) -> Shipped:
    """A merge reached production with the first later deploy of the service it is of, or of one that it touches."""
    for deploy in deploys:
        if not deploy.service or deploy.time < merge.time:
            continue
        if merge.service == deploy.service or touches(merge.text, deploy.service):
            return Shipped(merge.id, "deploy", deploy.service, deploy.time, merge.text, merge.link)
    return merge


def _onset(alert: Alert, suspects: Sequence[Suspect]) -> datetime | None:
    onsets = [s.onset for s in suspects[:1] if s.onset is not None]
    return min(onsets, default=alert.started_at)


def _judge(
    change: Shipped,
    suspects: Sequence[Suspect],
    topology: Topology,
    onset: datetime,
    symptoms: frozenset[str],
    weights: object,
    evidence: tuple[str, ...],
) -> Finding:
    assert isinstance(weights, dict)
    first = suspects[0] if suspects else None
    slack = timedelta(
        seconds=max([60.0, *(f.onset_uncertainty_s or 0.0 for f in (first.findings[:3] if first else []))])
    )
    lead = (onset - change.time).total_seconds() / 60.0
    place = _place(change, suspects, topology)
    shared = max(
        relevance(change.text.altered_words, symptoms, weights), SAID * relevance(change.text.words, symptoms, weights)
    )
    since = "the onset" if first is not None and first.onset is not None else "the alert"
    strength, reasons = _weigh(change, lead, place, shared, since if change.time > onset + slack else "")
    kind = NEAR if strength >= LIKELY and not reasons else RULED_OUT
    return _finding(kind, change, lead, since, strength, place, reasons or ["little speaks for it"], evidence)


def _weigh(change: Shipped, lead: float, place: str, shared: float, after: str) -> tuple[float, list[str]]:
    reasons = list(_reasons(change, place, after))
    strength = 0.5 ** (max(lead, 0.0) / HALF_LIFE_MIN) * KIND_WEIGHTS.get(change.kind, 0.5) * PLACE_WEIGHTS[place]
    strength *= 0.45 + 0.55 * shared
    if change.text.moves_code_only or change.text.patches_dependency:
        strength *= UNALTERED
    elif change.text.changes_literals:
        strength *= 1.2
    return min(1.0, strength * (0.1 if reasons else 1.0)), reasons


def _reasons(change: Shipped, place: str, after: str) -> Iterator[str]:
    if after:
        yield f"it came after {after}"
    if change.text.harmless:
        yield "it touches only documentation, tests or styles"
    if place == "elsewhere" and change.service is not None:
        yield "it is on a service that the suspects do not call"
    if change.kind == "merge":
        yield "no deploy that carries it is known"


def _place(change: Shipped, suspects: Sequence[Suspect], topology: Topology) -> str:
    if not suspects:
        return "itself"
    first = suspects[0].subject
    if change.service == first or _names(change, suspects[0]):
        return "itself"
    if change.service in topology.downstream(first):
        return "callee"
    if change.service in topology.upstream(first):
        return "job" if suspects[0].leads else "caller"
    return "elsewhere"


def _names(change: Shipped, suspect: Suspect) -> bool:
    """Whether a change without a service, or on a host, names the suspect, its host or its rank in its text."""
    said = " ".join([change.service or "", change.text.title, *change.text.files, *change.text.added]).lower()
    wanted = [str(f.details[k]).lower() for f in suspect.findings for k in ("host", "node") if f.details.get(k)]
    if suspect.subject.startswith("rank "):
        wanted += [suspect.subject, suspect.subject.replace(" ", ""), suspect.subject.replace(" ", "-")]
    words = set(said.replace(",", " ").replace(":", " ").split())
    return any(w in words or (" " in w and f" {w} " in f" {said} ") for w in wanted)


def _finding(
    kind: str,
    change: Shipped,
    lead: float,
    since: str,
    strength: float,
    place: str,
    reasons: list[str],
    evidence: tuple[str, ...],
) -> Finding:
    in_minutes = abs(lead) >= 1
    distance = rounded(abs(lead), 2) if in_minutes else float(round(60 * abs(lead)))
    when = f"{number(distance)} {'min' if in_minutes else 's'} {'before' if lead >= 0 else 'after'} {since}"
    where = f" of {plain(change.service)}" if change.service else ""
    titled = plain(change.text.title, TITLE_LENGTH).replace('"', "'")
    called = f', "{titled}",' if titled and kind == NEAR else ""
    sentence = f"{change.kind.capitalize()} {change.label}{where}{called} came {when}"
    untold = [r for r in reasons if r != f"it came after {since}"]
    if kind == RULED_OUT and untold:
        sentence += f"; {' and '.join(untold)}"
    return Finding(
        id="",
        kind=kind,
        subject=change.service or "unknown service",
        signal=change.kind,
        onset=change.time,
        effect=rounded(lead, 2),
        effect_unit="min before onset",
        strength=round(strength if math.isfinite(strength) else 0.0, 4),
        sentence=sentence + ".",
        numbers={"minutes" if in_minutes else "seconds": distance},
        evidence=evidence,
        series={"table": "changes", "id": change.id},
        details={
            "change": change.id,
            "change_kind": change.kind,
            "title": plain(change.text.title, 160),
            "place": place,
            "link": change.link,
            "reason": None if kind == NEAR else " and ".join(reasons),
        },
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
