"""Volume claims of pods that are not bound, lost or missing."""

from __future__ import annotations

from collections.abc import Iterable

from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.vendors.kubernetes.answers import Pod
from faultline.connectors.vendors.kubernetes.object_answers import VolumeClaim
from faultline.connectors.vendors.kubernetes.state_rows import NamespaceContents

WAITS_FOR_POD = "WaitForFirstConsumer"
"""A claim whose class binds late waits for its pod to be placed, not the pod for the claim
(kubernetes.io, "Storage Classes", volume binding mode)."""
KIND = "PersistentVolumeClaim"


def claim_facts(contents: NamespaceContents, claims: Iterable[VolumeClaim]) -> list[StateRow]:
    """Rows for the claims of pods in scope that cannot be used."""
    by_name = {claim.metadata.name: claim for claim in claims}
    rows: dict[tuple[str, str], StateRow] = {}
    for service, pod in contents.pods.values():
        claim_names = []
        for volume in (pod.spec.volumes if pod.spec else None) or ():
            if volume.persistent_volume_claim is not None:
                claim_names.append(volume.persistent_volume_claim.claim_name)
        for name in claim_names:
            row = _row(contents, service, name, by_name.get(name), pod)
            if row is not None:
                rows.setdefault((name, service), row)
    return list(rows.values())


def _row(
    contents: NamespaceContents, service: str, name: str, claim: VolumeClaim | None, pod: Pod
) -> StateRow | None:
    since = claim.metadata.created if claim else pod.metadata.created
    phase = (claim.status.phase if claim and claim.status else None) or "Pending"
    value = phase if claim else "not there"
    if claim is not None and phase == "Bound":
        return None
    events = contents.events_of(KIND, name)
    reasons = {event.reason for event in events}
    if phase == "Pending" and claim is not None and reasons == {WAITS_FOR_POD}:
        return None
    for event in events:
        if event.reason != WAITS_FOR_POD:
            value = f"{phase}: {event.text}"
            since = event.first or since
    return contents.row(
        KIND,
        name,
        "volume_unavailable",
        service=service,
        field="status.phase",
        value=value,
        expected="Bound",
        since=since,
    )
