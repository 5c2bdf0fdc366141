"""What an alert is about, and whether two alerts belong to one incident. Pure and symmetric:
decided by what they are about, and how far they are apart.

A wrong join hides an incident behind another, so every way to be related needs a fact beside the
time: the same service, job or machine, a known call, or the same words about the same
place. Alerts that say different environments, clusters or regions are never related.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import product

from faultline.analysis.alert_signal.deriving import reading_of, with_query
from faultline.analysis.alert_signal.subjects import scraped_service
from faultline.analysis.kinds.place_names import PLACE_LABELS, job_namespace, object_namespace
from faultline.analysis.kinds.signals import AlertQuery, QueryLanguage
from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.job_identity import identify_job
from faultline.bot.policy.services import ServiceTopology
from faultline.bot.policy.words import words_of
from faultline.bot.settings import Settings

HOST_LABELS = ("node", "Hostname", "hostname", "host", "kubernetes_node", "exported_node")
"""Labels that name a machine. Not `instance`: that of kube-state-metrics or of a black-box
exporter, which many alerts share, is the exporter's."""
MAX_HOSTS = 4
MAX_VALUE = 120
_PORT = re.compile(r":\d{1,5}\Z")
_DIGIT = re.compile(r"\d")
PRODUCTION = "production"
NAMED_AFTER: Mapping[str, str] = {
    **dict.fromkeys(("prod", "prd", "production", "live"), PRODUCTION),
    **dict.fromkeys(("staging", "stage", "stg", "preprod"), "staging"),
    **dict.fromkeys(("dev", "develop", "development"), "development"),
    **dict.fromkeys(("test", "testing", "qa", "uat"), "test"),
    "sandbox": "sandbox",
    "preview": "preview",
}
"""Words of namespaces that are named after environments. Kubernetes' own tutorial splits a cluster
so ("Share a Cluster with Namespaces": `development` and `production`)."""
LONGEST_CODE = 3
"""`p99`, `5xx` and `h2` are words; longer ones with digits are numbers, pods and versions."""


@dataclass(frozen=True)
class Traits:
    """One alert's. `words` are those of its title and signal without names, machines and
    numbers."""

    fingerprint: str
    source: str
    started_at: datetime
    service: str | None
    job: str | None
    hosts: frozenset[str]
    places: Mapping[str, str]
    words: frozenset[str]
    namespace: str = ""
    blamed: str | None = None
    """What the answer of its investigation names as the cause, once there is one."""
    suspects: frozenset[str] = frozenset()
    """Where that answer says no more than that the alerting service fails: services that fail at
    least as many requests, and that it may call."""

    @property
    def wording(self) -> str:
        """Equal for alerts of the same words at the same vendor; "" where there are too few to mean
        anything."""
        if len(self.words) < 2:
            return ""
        return hashlib.sha256("\x00".join((self.source, *sorted(self.words))).encode()).hexdigest()[
            :16
        ]


def service_of(alert: Alert, topology: ServiceTopology) -> str | None:
    """The alert's service as the catalogue has it."""
    return topology.name(_short(alert.service))


def traits_of(alert: Alert, settings: Settings, topology: ServiceTopology) -> Traits:
    """An alert's traits; names as the catalogue has them."""
    service = service_of(alert, topology)
    entry = settings.services.get(service) if service else None
    job = identify_job(alert, settings, entry.training_job if entry else None)
    # A machine's label may end with the exporter's port.
    named = [_PORT.sub("", _short(alert.labels.get(name))).casefold() for name in HOST_LABELS]
    named.append(_short(alert.host).casefold())
    hosts = frozenset([host for host in dict.fromkeys(named) if host][:MAX_HOSTS])
    labels = with_rule_labels(alert)
    # Where it runs: two alerts that say different places are not of one incident.
    places = {}
    for place, label_names in PLACE_LABELS.items():
        values = (_short(labels.get(label)).casefold() for label in label_names)
        if value := next(filter(None, values), ""):
            places[place] = value
    return Traits(
        fingerprint=alert.fingerprint,
        source=alert.source,
        started_at=alert.started_at,
        service=service,
        job=job.name if job else None,
        hosts=hosts,
        places=places,
        words=_words(alert, service, job.name if job else None, hosts),
        namespace=_short(measured_namespace(labels, alert.service)).casefold(),
    )


def measured_namespace(labels: Mapping[str, str], service: str | None) -> str:
    """The namespace of what is measured; "" where nothing names it."""
    namespace = object_namespace(labels)
    # The job of an exporter, such as `integrations/kafka`, says nothing of where its object runs.
    if namespace or not service or scraped_service(labels.get("job", "")) != service:
        return namespace
    return job_namespace(labels["job"])


def with_rule_labels(alert: Alert) -> dict[str, str]:
    """The alert's labels, and those that its rule's selectors fix: a rule on `{env="prod"}` that
    sums by service alone names no place in its labels."""
    query = with_query(alert).query
    if query is None:
        return dict(alert.labels)
    return {**selectors_of(query.language, query.text), **alert.labels}


@lru_cache(maxsize=1_024)
def selectors_of(language: QueryLanguage, text: str) -> Mapping[str, str]:
    # Each alert of a storm is compared with others, and reading an expression takes a millisecond.
    reading = reading_of(AlertQuery(language=language, text=text))
    selectors: dict[str, str] = {}
    for selection in reading.measured if reading is not None else ():
        for label, value in selection.equal.items():
            selectors.setdefault(label, value)
    return selectors


def _words(
    alert: Alert, service: str | None, job: str | None, hosts: frozenset[str]
) -> frozenset[str]:
    names = set(words_of(alert.service or "", service or "", job or "", *sorted(hosts)))
    words = words_of(alert.title[:1_000], alert.signal or "")
    return frozenset(
        w
        for w in words
        if w not in names and (len(w) <= LONGEST_CODE or not _DIGIT.search(w)) and not w.isdigit()
    )


def _short(value: str | None) -> str:
    """A name as both databases take it."""
    plain = "".join(c if c.isprintable() else " " for c in (value or "")[:MAX_VALUE])
    return " ".join(plain.split())


ALIKE = 0.5
"""Share of the words of two alerts that they have in common, from which callers of one service are
taken to suffer from it: half, as for alerts of like words in the memory
(`faultline.bot.store.memory`)."""
COMMON_WORDS = 2
WEAK_SHARE = 0.5
"""Where nothing but words, or a ranking, says that two alerts belong together, they must be within
this share of the window."""
MAX_NAME = 60
SERVICE_KEY = "service:"
MAX_CALLEES = 50
"""Callees of one service that are compared with those of another."""
MAX_NEIGHBOURS = 200
"""Callers and callees whose alerts are looked for."""


BY_CALL = 2
"""Rank of a relation by a call; those by name and by blame are stronger."""


@dataclass(frozen=True)
class Relation:
    """Why two alerts belong together; a lower `rank` is a stronger reason."""

    rank: int
    why: str


def relate(
    new: Traits, old: Traits, topology: ServiceTopology, window: timedelta
) -> Relation | None:
    """Why the two belong together, or None."""
    apart = abs(new.started_at - old.started_at)
    if apart > window or elsewhere(new, old):
        return None
    # The strongest reason first.
    reason = (
        _by_name(new, old)
        or _by_blame(new, old)
        or _by_call(new, old, topology)
        or _by_host(new, old)
    )
    if reason is None and apart <= window * WEAK_SHARE:
        reason = (
            _by_shared_callee(new, old, topology) or _by_place(new, old) or _by_suspect(new, old)
        )
    return Relation(reason[0], f"{reason[1]}, {how_far(apart)}") if reason else None


def keys_of(traits: Traits, topology: ServiceTopology) -> tuple[str, ...]:
    """Keys under which an open alert can be found by related ones."""
    keys = [f"{SERVICE_KEY}{service}" for service in _involved(traits)]
    keys += [f"job:{traits.job}"] if traits.job else []
    keys += [f"host:{host}" for host in sorted(traits.hosts)]
    keys += [f"calls:{name}" for name in _callees(traits, topology)]
    keys += [f"words:{traits.wording}:{place}" for place in _named_places(traits)]
    return tuple(keys)


def sought_keys(traits: Traits, topology: ServiceTopology) -> tuple[str, ...]:
    """Keys of the alerts that may be related to this one."""
    keys = list(keys_of(traits, topology))
    for service in _involved(traits):
        neighbours = sorted(topology.called_by(service) | topology.callers_of(service))
        keys += [f"{SERVICE_KEY}{name}" for name in (service, *neighbours[:MAX_NEIGHBOURS])]
    keys += [f"{SERVICE_KEY}{name}" for name in sorted(traits.suspects)]
    return tuple(dict.fromkeys(keys))


def _involved(traits: Traits) -> tuple[str, ...]:
    """The service of an alert, and the one that its answer blames."""
    return tuple(dict.fromkeys(name for name in (traits.service, traits.blamed) if name))


def elsewhere(new: Traits, old: Traits) -> bool:
    """Whether the two say different places."""
    # A place that one of them does not name cannot differ.
    if any(old.places.get(place, value) != value for place, value in new.places.items()):
        return True
    if not new.namespace or not old.namespace or new.namespace == old.namespace:
        return False
    # What a service calls may be in another namespace, but its namesake there is another service.
    is_namesake = new.service is not None and new.service == old.service
    return is_namesake or environment_of(new.namespace) != environment_of(old.namespace)


def may_share_incident(new: Traits, old: Traits, window: timedelta) -> bool:
    """Whether the two began about then, and nothing says that they are apart: the same namespace,
    or, where one names none, the same other place. Where they name no place in common, only what
    began within half the time counts."""
    apart = abs(new.started_at - old.started_at)
    if apart > window or elsewhere(new, old):
        return False
    if new.namespace and old.namespace:
        return new.namespace == old.namespace
    return bool(set(new.places) & set(old.places)) or apart <= window * WEAK_SHARE


def environment_of(namespace: str) -> str:
    """The environment that a namespace is named after; production where it names none."""
    words = re.split(r"[^a-z]+", namespace)
    return next((NAMED_AFTER[word] for word in words if word in NAMED_AFTER), PRODUCTION)


def how_far(apart: timedelta) -> str:
    """`at the same time`, `40 s apart`, `2 min apart`."""
    seconds = apart.total_seconds()
    if seconds < 1:
        return "at the same time"
    return f"{seconds:.0f} s apart" if seconds < 90 else f"{seconds / 60:.0f} min apart"


def _by_name(new: Traits, old: Traits) -> tuple[int, str] | None:
    if new.service and new.service == old.service:
        return 0, f"both are about {_named(new.service)}"
    if new.job and new.job == old.job:
        return 1, f"both are about the training job {_named(new.job)}"
    return None


def _by_blame(new: Traits, old: Traits) -> tuple[int, str] | None:
    """An answer names what the other alert, or the other's answer, is about."""
    for answered, other in ((new, old), (old, new)):
        if answered.blamed and answered.blamed in _involved(other):
            return 1, f"an answer names {_named(answered.blamed)} as the cause of both"
    return None


def _by_call(new: Traits, old: Traits, topology: ServiceTopology) -> tuple[int, str] | None:
    # Either may call the other: the relation is symmetric.
    for above, below in ((new, old), (old, new)):
        for caller, callee in product(_involved(above), _involved(below)):
            if callee in topology.called_by(caller):
                return BY_CALL, f"{_named(caller)} calls {_named(callee)}"
    return None


def _by_host(new: Traits, old: Traits) -> tuple[int, str] | None:
    """Of one machine: its own alert with anything on it, or two that read alike."""
    common = sorted(new.hosts & old.hosts)
    if not common or not (new.service is None or old.service is None or _alike(new, old)):
        return None
    return 3, f"both are on {_named(common[0])}"


def _by_shared_callee(
    new: Traits, old: Traits, topology: ServiceTopology
) -> tuple[int, str] | None:
    if not new.service or not old.service or not _alike(new, old):
        return None
    common = sorted(set(_callees(new, topology)) & set(_callees(old, topology)))
    return (4, f"both call {_named(common[0])} and read alike") if common else None


def _by_place(new: Traits, old: Traits) -> tuple[int, str] | None:
    if not new.wording or new.wording != old.wording:
        return None
    common = sorted(set(_named_places(new)) & set(_named_places(old)))
    return (5, f"the same words in {_named(common[0].partition('=')[2])}") if common else None


def _by_suspect(new: Traits, old: Traits) -> tuple[int, str] | None:
    """One has no reason for its alert but that it may call what the other's answer blames, in one
    namespace. People need one answer to both, then."""
    if not new.namespace or new.namespace != old.namespace:
        return None
    for answered, other in ((new, old), (old, new)):
        if answered.blamed in other.suspects and answered.blamed is not None:
            fails = f"{_named(answered.blamed)} fails more requests in {_named(new.namespace)}"
            return 6, f"{fails}, and nothing else explains {_named(other.service or 'it')}"
    return None


def _named_places(traits: Traits) -> Sequence[str]:
    """Places small enough to be of one incident: an environment alone is not."""
    if not traits.wording:
        return []
    places = [("namespace", traits.namespace)]
    places += [(place, traits.places.get(place, "")) for place in ("cluster", "region")]
    return [f"{place}={name}" for place, name in places if name]


def _callees(traits: Traits, topology: ServiceTopology) -> Sequence[str]:
    return sorted(topology.called_by(traits.service))[:MAX_CALLEES] if traits.service else ()


def _alike(new: Traits, old: Traits) -> bool:
    common = new.words & old.words
    return len(common) >= COMMON_WORDS and len(common) >= ALIKE * len(new.words | old.words)


def _named(name: str) -> str:
    plain = "".join(c if c.isprintable() else " " for c in name[: 2 * MAX_NAME])
    return " ".join(plain.split())[:MAX_NAME]
