"""How far one change speaks for itself: when it came, where, what it can do, and what its text
shares with what fails.

A change that came long before a sudden onset did no harm until then, unless its effect needs time
to build up. Where something other than a change explains the failure, a change counts by how much
its text bears on what fails.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import polars as pl

from faultline.analysis.analyzers import cause_kinds, fault_kind, fault_of
from faultline.analysis.case.folder import Case
from faultline.analysis.changes.mechanisms import MechanismMatch, strongest_match
from faultline.analysis.changes.onsets import Climb
from faultline.analysis.changes.reading import Reading
from faultline.analysis.changes.shipping import Shipped
from faultline.analysis.changes.symptoms import Symptoms, plain_name
from faultline.analysis.changes.text import relevance, service_words
from faultline.analysis.kinds.finding_details import JobDetails
from faultline.analysis.requests.topology import Topology
from faultline.analysis.suspects.accounting import THROUGHPUT
from faultline.analysis.suspects.suspect import Suspect
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import plain

# How often a service is changed anyway: that a change came just before proves nothing by itself.
#
# Of a service that is deployed every half hour there is always a deploy near any onset.

LEAST_HISTORY_MIN = 120.0
"""Of a shorter past nothing can be said of how often changes come."""
FALLS_OFF_MIN = 43.0
"""Mean minutes between a guilty change and its sudden onset: a half-life of half an hour."""
RECENT = timedelta(days=2)
"""Most sources tell of changes since a day before the baseline. What is older stems from the few
that keep more, as Kubernetes keeps ten revisions, and says nothing about the others' services."""
GUILTY = 0.5
"""Where a service is the cause and one of its changes is near, before anything else is known: in
half of all incidents a change did it (our choice; published post-mortems say 40 to 70 %)."""


@dataclass(frozen=True)
class ChangeHistory:
    """How many changes each service had, in how many minutes before the onset."""

    minutes: float
    counts: Mapping[str, int]
    long_rates: Mapping[str, float] = field(default_factory=dict)
    """Changes a minute of those services whose history is longer than `RECENT`."""

    def guilty(self, change: Shipped, ahead_min: float) -> float:
        """In [0, 1]: how much likelier such a change is near because it did it, beside one of the
        usual that is near by chance. 1 where the past is too short to tell."""
        rate, ahead = self._rate(change.service or ""), max(ahead_min, 0.0)
        if rate <= 0:
            return 1.0
        # Probability densities of the delay: for a guilty change, and at the usual rate.
        did_it = GUILTY * math.exp(-ahead / FALLS_OFF_MIN) / FALLS_OFF_MIN
        by_chance = (1 - GUILTY) * rate * math.exp(-rate * ahead)
        return did_it / (did_it + by_chance)

    def _rate(self, service: str) -> float:
        """Changes a minute beside the one that is weighed. A service that is changed more often now
        than it used to be has the rate of now."""
        rate = self.long_rates.get(service, 0.0)
        other_changes = self.counts.get(service, 0) - 1
        if self.minutes >= LEAST_HISTORY_MIN:
            rate = max(rate, other_changes / self.minutes)
        return rate


def change_history(case: Case, near: Collection[Shipped], onset: datetime) -> ChangeHistory:
    """From the changes table up to the onset. A change of several services counts for each."""
    requested_services = [change.service for change in near if change.service]
    # A merge reaches production with a deploy, which is counted itself.
    before = case.changes.filter(pl.col("time") <= onset, pl.col("kind") != "merge")
    recent = before.filter(pl.col("time") >= onset - RECENT)
    first = recent["time"].min()
    minutes, counts = 0.0, Counter[str]()
    if isinstance(first, datetime):
        minutes = (onset - first).total_seconds() / 60
        services = recent.filter(pl.col("service").is_in(requested_services))["service"]
        counts.update(services.to_list())
    changes = before.filter(pl.col("service").is_in(requested_services))
    return ChangeHistory(minutes, counts, _long_rates(changes, onset))


def _long_rates(changes: pl.DataFrame, onset: datetime) -> dict[str, float]:
    rates = {}
    spans = changes.group_by("service").agg(pl.col("time").min(), pl.len().alias("count"))
    for service, first, count in spans.iter_rows():
        # The first one begins the span, so it is not counted in it.
        if first < onset - RECENT:
            rates[service] = (count - 1) / ((onset - first).total_seconds() / 60)
    return rates


HALF_LIFE_MIN = 30.0
"""How fast a change grows unlikely with the minutes between it and a sudden onset."""
DELAYED_HALF_LIFE_MIN = 180.0
"""The same for what builds up: leaks, caches that expire, logs that fill a disk."""
KIND_WEIGHTS = {
    "deploy": 1.0,
    "restart": 1.0,
    "config": 1.0,
    "migration": 1.0,
    "flag": 0.8,
    "scale": 0.7,
    "job": 0.7,
    "merge": 0.4,
}
PLACE_WEIGHTS = {
    "itself": 1.0,
    "shared": 0.7,
    "job": 0.7,
    "callee": 0.6,
    "sender": 0.7,
    # A caller that takes what the suspect is out of.
    "user": 1.0,
    "caller": 0.3,
    "unknown": 0.3,
    "elsewhere": 0.2,
}
TITLE_WORD_SHARE = 0.5
"""A word of the title or a path counts this much of a word that the diff takes out or puts in."""
UNREAD, LISTED, NAMED, READ = 0.6, 0.5, 0.4, 0.3
"""What a change keeps of its weight when nothing matches: with a title only that says little, with
a diff more; a flag's name is to say what it does."""
READ_AND_BEARS = 0.65
"""With a diff that names exactly what fails: more than one that could not be read."""
SINGLE_NAME = 0.6
"""How far one exact name that is changed and that a failing line quotes speaks for a change."""
SINGLE_FRAME = 0.6
"""How far a changed source file that a stack trace names speaks for it."""
SMALL_RELEASE = 0.6
"""A change of versions only, of dependencies that no failing line names, keeps this much."""
BY_NAME = 0.5
"""A mechanism that only a name suggests, or a version of what no failing line names, counts
half."""
USUAL = 0.5
"""From here on a change so near is as likely there by chance."""
BEARS = 0.4
"""From here on the text bears on what fails."""
FLOODED = 1.5
"""A rise that no day curve makes within minutes."""
HARMLESS_AFTER_MIN = 60.0
"""Two half-lives without any effect are a reason by themselves."""


@dataclass(frozen=True)
class SymptomOnset:
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
    match: MechanismMatch
    quoted: tuple[str, ...] = ()
    """Exact names that it changes and that failing lines quote."""


@dataclass(frozen=True)
class Weighed:
    """A change with its strength in [0, 1], and the reasons why it is not to blame."""

    change: Shipped
    place: str
    ahead_min: float
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
    onset: SymptomOnset
    symptoms: Symptoms
    rare: Mapping[str, float]
    readings: Mapping[Shipped, Reading]
    common_names: frozenset[str]
    other_reason: Finding | None
    back: Collection[Shipped]
    history: ChangeHistory

    def weigh(self, change: Shipped, share: float = 1.0) -> Weighed:
        """Strength and reasons of one change. It keeps `share` of its strength."""
        bearing = self.bearing(change)
        place = place_of(change, self.suspects, self.topology)
        path = (self.onset.time - change.time).total_seconds() / 60.0
        reasons = self._reasons(change, place, bearing)
        strength = 0.5 ** (max(path, 0.0) / self._half_life(bearing))
        strength *= KIND_WEIGHTS.get(change.kind, 0.5)
        weight = PLACE_WEIGHTS[place]
        if place == "unknown":
            # Text that bears on what fails puts an unknown service among what all share.
            place_weight = max(weight, bearing.score * PLACE_WEIGHTS["shared"])
        else:
            place_weight = weight
        strength *= place_weight
        strength *= self._text_weight(change, bearing)
        if change.text.changes_versions_only and bearing.score < BEARS:
            strength *= SMALL_RELEASE
        # Text that bears on what fails is no chance.
        by_chance = 1 - self.history.guilty(change, path)
        strength *= 1 - by_chance * (1 - bearing.score)
        # Demand that a change may have made is no reason against it.
        if self.other_reason is not None and place not in ("sender", "user"):
            strength *= 1 - self.other_reason.strength * (1 - bearing.exact)
        # Keep a tenth: a change with a reason is still listed, behind the others.
        strength = min(1.0, share * strength * (0.1 if reasons else 1.0))
        return Weighed(change, place, path, strength, bearing, tuple(reasons))

    def _half_life(self, bearing: Bearing) -> float:
        """In minutes. A climb that led to the onset already tells when the effect began."""
        mechanism = bearing.match.mechanism
        builds_up = mechanism is not None and mechanism.delayed
        if builds_up and self.onset.climb is None:
            return DELAYED_HALF_LIFE_MIN
        return HALF_LIFE_MIN

    def _text_weight(self, change: Shipped, bearing: Bearing) -> float:
        """What its text leaves of its weight: all of it where it names what fails."""
        base = self._base(change)
        if change.text.has_diff and bearing.exact >= BEARS:
            base = READ_AND_BEARS
        return base + (1 - base) * bearing.score

    def _base(self, change: Shipped) -> float:
        """What the change keeps where nothing matches; that a climb began with it is more than that
        it came before."""
        if change.rides:
            return 0.0
        if self.onset.climb is not None and not self.onset.climb.from_the_beginning:
            return UNREAD
        # A loss that is not a number never names the setting that caused it.
        training = bool(self.suspects) and fault_kind(self.suspects[0].main_fault).training
        if change.text.brings_an_image:
            return UNREAD
        if change.text.has_diff and not training:
            return READ
        if change.kind == "flag":
            return NAMED
        return LISTED if change.text.files else UNREAD

    def bearing(self, change: Shipped) -> Bearing:
        """Rare words, exact names and source files that the change shares with what fails, and what
        it can cause."""
        reading = self.readings[change]
        match = self._match(change, reading)
        quoted = self._quoted(reading)
        # Each further name adds less, and beyond three none adds anything.
        not_named = (1 - SINGLE_NAME) ** min(3, len(quoted))
        if reading.files & self.symptoms.frames:
            not_named *= 1 - SINGLE_FRAME
        shared = self._shared_words(change, reading)
        return Bearing(
            score=1 - (1 - shared) * (1 - match.strength) * not_named,
            exact=1 - (1 - match.strength / 2) * not_named,
            match=match,
            quoted=tuple(quoted[:3]),
        )

    def _match(self, change: Shipped, reading: Reading) -> MechanismMatch:
        """What the change can cause of what is seen."""
        match = strongest_match(reading.shown, self.symptoms.effects)
        text = change.text
        only_versions = text.changes_versions_only and not reading.altered & self.symptoms.words
        if text.has_diff and not only_versions:
            return match
        return MechanismMatch(BY_NAME * match.strength, match.mechanism)

    def _quoted(self, reading: Reading) -> list[str]:
        """Exact names that it changes and failing lines quote, whole or as a part of a name."""
        quoted = []
        for name in reading.names - self.common_names:
            if name in self.symptoms.names or plain_name(name) in self.symptoms.pieces:
                quoted.append(name)
        return sorted(quoted)

    def _shared_words(self, change: Shipped, reading: Reading) -> float:
        """How much of the rare words of what fails the change shares, in [0, 1]."""
        words = self.symptoms.words
        beside = 1 - relevance(reading.beside, words, self.rare)
        # All that is known of a flag is its name, so its words count fully.
        only_a_name = change.kind == "flag" and not change.text.has_diff
        if not only_a_name:
            beside **= TITLE_WORD_SHARE
        return 1 - (1 - relevance(reading.altered, words, self.rare)) * beside

    def _reasons(self, change: Shipped, place: str, bearing: Bearing) -> list[str]:
        """Why the change is not to blame."""
        reasons = []
        if change.time > self.onset.time + self.onset.slack:
            reasons.append(f"it came after {self.onset.since}")
        if change in self.back:
            reasons.append(
                "it took back a change" if change.goes_back else "it was taken back before"
            )
        if change.by_autoscaler:
            reasons.append("the autoscaler did it, as an answer to the load")
        no_effect = _no_effect(change, bearing)
        if no_effect is not None:
            reasons.append(no_effect)
        if place == "elsewhere":
            reasons.append("it is on a service that the suspects do not call")
        if change.kind == "merge" or (change.rides and bearing.score < BEARS):
            reasons.append("no deploy that carries it is known")
        return reasons


def _no_effect(change: Shipped, bearing: Bearing) -> str | None:
    """Why what the change touches cannot do any harm."""
    text = change.text
    if text.harmless:
        return "it touches only documentation, tests or styles"
    if text.only_for_other_stages:
        return "it is for another stage than production"
    if text.only_comments:
        return "it changes only comments or blank space"
    if text.moves_code_only and not bearing.quoted:
        return "it only moves code and keeps every value"
    if text.patches_dependency and bearing.score < BEARS:
        return "it takes patch releases of what no failing line names"
    return None


def why_weak(weighed: Weighed, other_reason: Finding | None, by_chance: float = 0.0) -> str:
    """Why a change that nothing excludes is not near all the same; `by_chance` in [0, 1] says how
    far one so near is usual."""
    change, bearing = weighed.change, weighed.bearing
    if other_reason is not None and bearing.exact < BEARS:
        without_change = cause_kinds()[other_reason.kind].without_change
        return f"{without_change}, and nothing in the change bears on that"
    if weighed.ahead_min >= HARMLESS_AFTER_MIN:
        return "so long it had done no harm"
    if weighed.place == "caller":
        return "it is on a caller, and nothing shows that it asks more or otherwise since then"
    if weighed.place == "unknown":
        return "it is on a service that the suspects are not known to call"
    if change.service and by_chance >= USUAL:
        return f"{plain(change.service)} is changed so often that one this near is no sign"
    if change.kind == "flag" and not change.text.has_diff:
        return "its name says nothing of what fails"
    is_read = change.text.has_diff and not change.text.brings_an_image
    if is_read and bearing.score < BEARS:
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
    if change.service in topology.callers(first) and adds_connections(change, suspects[0]):
        return "user"
    if change.service in topology.upstream(first):
        return "job" if suspects[0].is_root else "caller"
    if is_flooded(suspects[0]) and not topology.callers(first):
        return "sender"
    both_in_topology = change.service in topology.services and first in topology.services
    return "elsewhere" if both_in_topology else "unknown"


def is_flooded(suspect: Suspect) -> bool:
    """Whether a queue or a store handles clearly more than before. What is asked of a front door
    comes from outside, what is asked of these comes from one of the services."""
    for finding in suspect.findings:
        ratio = finding.numbers.get("ratio", 0.0)
        if THROUGHPUT in (finding.signal or "") and ratio >= FLOODED:
            return True
    return False


def adds_connections(change: Shipped, suspect: Suspect) -> bool:
    """Whether a caller got more instances, and what it calls has no connection left: each instance
    opens a pool of its own (HikariCP, "About Pool Sizing")."""
    before, after = change.step.before, change.step.after
    if change.kind != "scale" or not (before.isdecimal() and after.isdecimal()):
        return False
    exhausted = any(
        fault.name == "pool_exhausted"
        for finding in suspect.findings
        if (fault := fault_of(finding)) is not None
    )
    return exhausted and int(after) > int(before)


def _of_the_suspect(service: str, suspect: str, topology: Topology) -> bool:
    """Whether an unknown service is called after the suspect: `orders-db` is where the tables of
    `orders` are."""
    words = service_words(suspect)
    return service not in topology.services and bool(words) and words <= service_words(service)


def _names(change: Shipped, suspect: Suspect) -> bool:
    """Whether a change without a service, or on a host, names the suspect, its host or its rank in
    its text."""
    parts = [change.service or "", change.text.title, *change.text.files, *change.text.added]
    text = " ".join(parts).lower()
    words = set(text.replace(",", " ").replace(":", " ").split())
    # What a text may call the suspect's hosts and, of a rank, itself.
    names = []
    for finding in suspect.findings:
        details = JobDetails.of(finding)
        if details is not None:
            names += [name.lower() for name in (details.host, details.node) if name]
    rank = suspect.subject
    if rank.startswith("rank "):
        names += [rank, rank.replace(" ", ""), rank.replace(" ", "-")]
    for name in names:
        if name in words:
            return True
        # A name of several words is looked for in the text as it stands.
        if " " in name and f" {name} " in f" {text} ":
            return True
    return False
