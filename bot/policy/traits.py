"""What an alert is about, where that decides which other alerts it belongs with: service, job,
machine, place, words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from faultline.analysis.kinds.place_names import PLACE_LABELS
from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.job_identity import identify_job
from faultline.bot.policy.topology import ServiceTopology
from faultline.bot.policy.words import words_of
from faultline.bot.settings import Settings

HOST_LABELS = ("node", "Hostname", "hostname", "host", "kubernetes_node", "exported_node")
"""Labels that name a machine. Not `instance`: that of kube-state-metrics or of a black-box
exporter, which many alerts share, is the exporter's."""
MAX_HOSTS = 4
MAX_VALUE = 120
_PORT = re.compile(r":\d{1,5}\Z")
_DIGIT = re.compile(r"\d")
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
    subs = (_PORT.sub("", _short(alert.labels.get(name))).casefold() for name in HOST_LABELS)
    hosts = frozenset([host for host in dict.fromkeys(subs) if host][:MAX_HOSTS])
    return Traits(
        fingerprint=alert.fingerprint,
        source=alert.source,
        started_at=alert.started_at,
        service=service,
        job=job.name if job else None,
        hosts=hosts,
        places=_places(alert.labels),
        words=_words(alert, service, job.name if job else None, hosts),
    )


def _places(labels: Mapping[str, str]) -> dict[str, str]:
    """Where it runs: two alerts that say different places are not of one incident."""
    places = {}
    for place, names in PLACE_LABELS.items():
        place_name = next(
            (value for name in names if (value := _short(labels.get(name)).casefold())), ""
        )
        if place_name:
            places[place] = place_name
    return places


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
