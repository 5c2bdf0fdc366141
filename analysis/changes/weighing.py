"""How far one change speaks for itself: when it came, where, what it can do, and what its text
shares with what fails.

A change that came long before a sudden onset did no harm for so long, unless its effect needs time
to build up. Where something other than a change explains the failure, a change counts only as far
as its text bears on what fails.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from analysis.analyzers import CAUSE_KINDS, fault_kind
from analysis.changes.mechanisms import Match, best_match
from analysis.changes.onsets import Climb
from analysis.changes.reading import Reading
from analysis.changes.shipping import Shipped
from analysis.changes.symptoms import Symptoms, plain_name
from analysis.changes.text import relevance, service_words
from analysis.kinds.finding_details import JobDetails
from analysis.requests.topology import Topology
from analysis.suspects.explanations import Suspect
from analysis.vocabulary import Finding

HALF_LIFE_MIN = 30.0
"""How fast a change grows unlikely with the minutes between it and a sudden onset."""
DELAYED_HALF_LIFE_MIN = 180.0
"""The same for what builds up: leaks, caches that expire, logs that fill a disk."""
KIND_WEIGHTS = {
    "deploy": 1.0,
    "config": 1.0,
    "migration": 1.0,
    "flag": 0.8,
    "scale": 0.7,
    "merge": 0.4,
}
PLACE_WEIGHTS = {
    "itself": 1.0,
    "shared": 0.7,
    "job": 0.7,
    "callee": 0.6,
    "caller": 0.3,
    "unknown": 0.3,
    "elsewhere": 0.2,
}
SAID = 0.5
"""A word of the title or a path counts this much of a word that the diff takes out or puts in."""
UNREAD, LISTED, NAMED, READ = 0.6, 0.5, 0.4, 0.3
"""What a change keeps of its weight when nothing matches: with a title only that says little, with
a diff more; a flag's name is to say what it does."""
READ_AND_BEARS = 0.65
"""With a diff that names exactly what fails: more than one that could not be read."""
ONE_NAME = 0.6
"""How far one exact name that is changed and that a failing line quotes speaks for a change."""
ONE_FRAME = 0.6
"""How far a changed source file that a stack trace names speaks for it."""
SMALL_RELEASE = 0.6
"""A change of versions only, of dependencies that no failing line names, keeps this much."""
BY_NAME = 0.5
"""A mechanism that only a name tells of, or a version of what no failing line names, speaks
half."""
BEARS = 0.4
"""From here on the text bears on what fails."""
HARMLESS_AFTER_MIN = 60.0
"""Two half-lives: so long without any effect is a reason by itself."""


@dataclass(frozen=True)
class Onset:
    """When what is to be explained began, in words: the first suspect's onset, or the climb that
    led to it."""

    time: datetime
    slack: timedelta
    since: str
    climb: Climb | None = None


@dataclass(frozen=True)
class Bearing:
    """How far a change's text bears on what fails, in [0, 1]."""

    score: float
    exact: float
    """The part of it that exact names, source files and, by half, mechanisms have: words go with
    any topic."""
    match: Match
    quoted: tuple[str, ...] = ()
    """Exact names that it changes and that failing lines quote."""


@dataclass(frozen=True)
class Weighed:
    """A change with its strength in [0, 1], and the reasons why it is not to blame."""

    change: Shipped
    place: str
    lead_min: float
    strength: float
    bearing: Bearing
    reasons: tuple[str, ...]

    def preferred_to(self, other: Weighed) -> bool:
        """Whether it speaks more for the change than the other, of the same change."""
        return (not self.reasons, self.strength) > (not other.reasons, other.strength)


@dataclass(frozen=True)
class Scales:
    """What every change of a case is weighed against."""

    suspects: Sequence[Suspect]
    topology: Topology
    onset: Onset
    symptoms: Symptoms
    rare: Mapping[str, float]
    readings: Mapping[Shipped, Reading]
    common_names: frozenset[str]
    other_reason: Finding | None
    back: Collection[Shipped]

    def weigh(self, change: Shipped, share: float = 1.0) -> Weighed:
        """Strength, of which the change keeps `share`, and reasons of one change."""
        bearing = self.bearing(change)
        place = place_of(change, self.suspects, self.topology)
        lead = (self.onset.time - change.time).total_seconds() / 60.0
        out = list(self._out(change, place, bearing))
        delayed = bearing.match.mechanism is not None and bearing.match.mechanism.delayed
        half_life = DELAYED_HALF_LIFE_MIN if delayed and self.onset.climb is None else HALF_LIFE_MIN
        strength = 0.5 ** (max(lead, 0.0) / half_life) * KIND_WEIGHTS.get(change.kind, 0.5)
        strength *= max(
            PLACE_WEIGHTS[place],
            bearing.score * PLACE_WEIGHTS["shared"] if place == "unknown" else 0.0,
        )
        base = (
            READ_AND_BEARS
            if change.text.is_known and bearing.exact >= BEARS
            else self._base(change)
        )
        strength *= base + (1 - base) * bearing.score
        if change.text.changes_versions_only and bearing.score < BEARS:
            strength *= SMALL_RELEASE
        if self.other_reason is not None:
            strength *= 1 - self.other_reason.strength * (1 - bearing.exact)
        strength = min(1.0, share * strength * (0.1 if out else 1.0))
        return Weighed(change, place, lead, strength, bearing, tuple(out))

    def _base(self, change: Shipped) -> float:
        """What the change keeps where nothing matches; that a climb began with it is more than that
        it came before."""
        if change.rides:
            return 0.0
        if self.onset.climb is not None and not self.onset.climb.from_the_beginning:
            return UNREAD
        training = bool(self.suspects) and fault_kind(self.suspects[0].main_fault).training
        if (
            change.text.is_known and not training
        ):  # a loss that is no number does not say which setting made it so
            return READ
        return NAMED if change.kind == "flag" else LISTED if change.text.files else UNREAD

    def bearing(self, change: Shipped) -> Bearing:
        """Rare words, exact names and source files that the change shares with what fails, and what
        it can cause."""
        text, read, symptoms = change.text, self.readings[change], self.symptoms
        by_name = change.kind == "flag" and not text.is_known
        beside = 1 - relevance(read.beside, symptoms.words, self.rare)
        shared = 1 - (1 - relevance(read.altered, symptoms.words, self.rare)) * beside ** (
            1.0 if by_name else SAID
        )
        named = (
            n
            for n in read.names - self.common_names
            if n in symptoms.names or plain_name(n) in symptoms.pieces
        )
        quoted = sorted(named)
        match = best_match(read.shown, symptoms.effects)
        if not text.is_known or (text.changes_versions_only and not read.altered & symptoms.words):
            match = Match(BY_NAME * match.strength, match.mechanism)
        named_exactly = (1 - ONE_NAME) ** min(3, len(quoted)) * (
            1 - ONE_FRAME if read.files & symptoms.frames else 1.0
        )
        return Bearing(
            score=1 - (1 - shared) * (1 - match.strength) * named_exactly,
            exact=1 - (1 - match.strength / 2) * named_exactly,
            match=match,
            quoted=tuple(quoted[:3]),
        )

    def _out(self, change: Shipped, place: str, bearing: Bearing) -> list[str]:
        out = []
        text = change.text
        if change.time > self.onset.time + self.onset.slack:
            out.append(f"it came after {self.onset.since}")
        if change in self.back:
            out.append(
                "it was taken back before" if not change.goes_back else "it took back a change"
            )
        if change.by_autoscaler:
            out.append("the autoscaler did it, as an answer to the load")
        if text.harmless:
            out.append("it touches only documentation, tests or styles")
        elif text.only_for_other_stages:
            out.append("it is for another stage than production")
        elif text.only_comments:
            out.append("it changes only comments or blank space")
        elif text.moves_code_only and not bearing.quoted:
            out.append("it only moves code and keeps every value")
        elif text.patches_dependency and bearing.score < BEARS:
            out.append("it takes patch releases of what no failing line names")
        if place == "elsewhere":
            out.append("it is on a service that the suspects do not call")
        if change.kind == "merge" or (change.rides and bearing.score < BEARS):
            out.append("no deploy that carries it is known")
        return out


def why_weak(weighed: Weighed, other_reason: Finding | None) -> str:
    """Why a change that nothing excludes is not near all the same."""
    bears = weighed.bearing.exact >= BEARS
    if other_reason is not None and not bears:
        return (
            f"{CAUSE_KINDS[other_reason.kind].without_change}, and nothing in the change bears on "
            "that"
        )
    if weighed.lead_min >= HARMLESS_AFTER_MIN:
        return "so long it had done no harm"
    if weighed.place in ("caller", "unknown"):
        return "it is on a service that the suspects are not known to call"
    if weighed.change.kind == "flag" and not weighed.change.text.is_known:
        return "its name says nothing of what fails"
    if weighed.change.text.is_known and weighed.bearing.score < BEARS:
        return "nothing it changes appears in what fails"
    return "little speaks for it"


def place_of(change: Shipped, suspects: Sequence[Suspect], topology: Topology) -> str:
    """Where the change is, seen from the first suspect."""
    if not suspects:
        return "itself"
    first = suspects[0].subject
    if change.service == first or _names(change, suspects[0]):
        return "itself"
    if change.service is None or _of_the_suspect(change.service, first, topology):
        return "shared"
    if change.service in topology.downstream(first):
        return "callee"
    if change.service in topology.upstream(first):
        return "job" if suspects[0].is_root else "caller"
    return (
        "elsewhere"
        if change.service in topology.services and first in topology.services
        else "unknown"
    )


def _of_the_suspect(service: str, suspect: str, topology: Topology) -> bool:
    """Whether an unknown service is called after the suspect: `orders-db` is where the tables of
    `orders` are."""
    words = service_words(suspect)
    return service not in topology.services and bool(words) and words <= service_words(service)


def _names(change: Shipped, suspect: Suspect) -> bool:
    """Whether a change without a service, or on a host, names the suspect, its host or its rank in
    its text."""
    said = " ".join(
        [change.service or "", change.text.title, *change.text.files, *change.text.added]
    ).lower()
    wanted = []
    for finding in suspect.findings:
        details = JobDetails.of(finding)
        if details is not None:
            wanted += [name.lower() for name in (details.host, details.node) if name]
    if suspect.subject.startswith("rank "):
        wanted += [
            suspect.subject,
            suspect.subject.replace(" ", ""),
            suspect.subject.replace(" ", "-"),
        ]
    words = set(said.replace(",", " ").replace(":", " ").split())
    return any(w in words or (" " in w and f" {w} " in f" {said} ") for w in wanted)
