"""Leads: services, nodes and volumes to which the evidence points and about which nobody was asked
yet.

The scope is fixed before anything is known. Once metrics and calls are there, the changes, logs and
states of the leading suspects, and of what those call, say more than those of the alerting service.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from faultline.analysis.case.alert_place import namespace_of
from faultline.analysis.case.calls import ServiceCall
from faultline.analysis.case.folder import Case
from faultline.analysis.case.rounds import REPOSITORY_OF, FollowedKind, Lead
from faultline.analysis.kinds.finding_details import StateFactDetails
from faultline.analysis.vocabulary import Diagnosis, Verdict
from faultline.analysis.wording.phrases import plain

SUSPECTS = 3
"""Causes about which the sources are asked themselves."""
CALLERS = 2
"""Causes whose callees are asked about: what they call may explain them."""
OF_ALERT = "the alert is about it"
CLAIM = "PersistentVolumeClaim "
"""How facts call a volume."""
CLAIM_LABELS = ("persistentvolumeclaim", "pvc", "exported_persistentvolumeclaim")
LINKS = 5
"""Changes of a service whose links are passed on: more of them rarely name another repository."""
SCALED = 2
"""Scaled workloads of one round: a round asks about six services."""
SETTLED = 0.9
"""A change that explains the first cause so surely needs no callee."""


def leads_of(case: Case, diagnosis: Diagnosis, calls: Sequence[ServiceCall]) -> list[Lead]:
    """The leads, those that matter most first; none of a training job, and none where nothing is
    wrong."""
    if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT or case.scope.job:
        return []
    asked_about = {case.alert.service, *case.scope.services, *case.rounds.subjects}
    leads = [
        pointer
        for pointer in (
            *service_leads(case, diagnosis, calls),
            *scaled_leads(case),
            *repository_leads(case, diagnosis),
            *object_leads(case, diagnosis),
        )
        if pointer.subject not in asked_about
    ]
    # What the alert itself is about comes first.
    return sorted(leads, key=lambda pointer: pointer.because != OF_ALERT)


def service_leads(case: Case, diagnosis: Diagnosis, calls: Sequence[ServiceCall]) -> Iterator[Lead]:
    """The leading causes, and what the first of them and the alerting service call."""
    causes = sorted(diagnosis.causes, key=lambda cause: cause.rank)[:SUSPECTS]
    reasons: dict[str, str] = {}
    for cause in causes:
        reasons.setdefault(cause.subject, f"cause {cause.rank} by the evidence so far")
    if not any(cause.change and cause.confidence >= SETTLED for cause in causes[:1]):
        callers = [cause.subject for cause in causes[:CALLERS]] + [case.alert.service or ""]
        for caller in callers:
            for call in calls:
                if call.caller == caller:
                    reasons.setdefault(call.callee, f"called by {plain(caller)}")
    for subject, because in reasons.items():
        # Of objects below services ("persistentvolumeclaim/data") the sources know their service.
        if "/" not in subject:
            yield Lead(subject=subject, because=because, links=change_links(case, subject))


def scaled_leads(case: Case) -> Iterator[Lead]:
    """Workloads beside those asked about whose replicas were set within the incident, before the
    alert: whether it waits for them, or they take what it needs, their own objects tell."""
    scalings = case.changes.filter(
        pl.col("kind") == "scale",
        pl.col("time").is_between(case.scope.incident.start, case.alert.started_at),
    )
    services = scalings.sort("time", descending=True)["service"].drop_nulls()
    for service in services.unique(maintain_order=True).head(SCALED):
        yield Lead(subject=service, because="its replicas were set shortly before the alert")


def change_links(case: Case, service: str) -> tuple[str, ...]:
    """Links of the service's latest changes, each once."""
    changes = case.changes.filter(pl.col("service") == service).sort("time", "id", descending=True)
    return tuple(changes["link"].drop_nulls().unique(maintain_order=True).head(LINKS).to_list())


def repository_leads(case: Case, diagnosis: Diagnosis) -> Iterator[Lead]:
    """Repositories that the workloads of the alerting service and of the leading causes name."""
    causes = sorted(diagnosis.causes, key=lambda cause: cause.rank)[:SUSPECTS]
    services = {case.alert.service, *(cause.subject for cause in causes)} - {None}
    for item in case.evidence:
        for name, address in item.details.items():
            service = name.removeprefix(REPOSITORY_OF)
            if name.startswith(REPOSITORY_OF) and service in services:
                yield Lead(
                    kind="repository",
                    subject=address,
                    because=f"{plain(service)}'s workload names it",
                    links=(address,),
                    service=service,
                )


def object_leads(case: Case, diagnosis: Diagnosis) -> list[Lead]:
    """Nodes and volumes: the alert's own, and those of objects that are in trouble."""
    reasons = dict.fromkeys(alert_objects(case), OF_ALERT)
    monitored = " ".join(case.monitors["monitor"].drop_nulls().unique().sort().to_list())
    for finding in diagnosis.findings:
        details = StateFactDetails.of(finding)
        if details is None or details.is_history:
            continue
        for node in details.places:
            # The nodes of pods that a cluster listed have been read with them.
            if node not in monitored:
                reasons.setdefault(("node", node), f"{plain(finding.subject)} is there")
        for name in details.objects:
            if name.startswith(CLAIM) and "/" in name:
                because = f"{plain(finding.subject)} mounts it"
                reasons.setdefault(("volume", name.removeprefix(CLAIM)), because)
    return [
        Lead(kind=kind, subject=subject, because=because)
        for (kind, subject), because in reasons.items()
    ]


def alert_objects(case: Case) -> Iterator[tuple[FollowedKind, str]]:
    """The alert's host, unless it is a mere address, and its volume."""
    host, namespace = case.alert.host, namespace_of(case.alert)
    if host and not host.replace(".", "").isdecimal():
        yield "node", host
    claim = next(
        (case.alert.labels[name] for name in CLAIM_LABELS if name in case.alert.labels), ""
    )
    if claim and namespace:
        yield "volume", f"{namespace}/{claim}"
