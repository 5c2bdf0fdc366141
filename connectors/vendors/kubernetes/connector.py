"""Kubernetes: events, rollouts, scaling, states of pods, of the nodes they run on, and of what
routes to them or limits them, of the services in scope.

Lists of the API server over GET, and nothing else. No client library: one role that may only `list`
is all it needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.contract.base import Check, Collected, Missing, Request
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import plain_url
from faultline.connectors.vendors.kubernetes import KubernetesSettings
from faultline.connectors.vendors.kubernetes.checking import (
    MOST_CHECKED,
    access_summary,
    parts_of,
    refusals_of,
)
from faultline.connectors.vendors.kubernetes.inquiry import ClusterInquiry
from faultline.connectors.vendors.kubernetes.session import (
    VENDOR,
    Cluster,
    ClusterAccess,
    ClusterLogin,
)
from faultline.connectors.vendors.kubernetes.workloads import Ref, parsed, refs_of

LIMITS = Limits(deadline_s=20, max_bytes=64 * 1024 * 1024, requests_per_s=20, concurrency=6)
"""A list of 500 pods is some 5 MB. The API server queues what is too much at once (kubernetes.io,
"API Priority and Fairness"); this stays far below what kubectl itself allows (50 a second)."""
_NOTHING = (
    "no service in scope names its workload: set services.NAME.kubernetes, or kubernetes.namespaces"
)


def build(
    kubernetes_settings: KubernetesSettings, settings: SharedSettings
) -> KubernetesConnector | None:
    """The configured connector, or None without an address. Raises SettingsError."""
    access = _access_of(kubernetes_settings)
    if access is None:
        return None
    workloads = {}
    for service, entry in settings.services.items():
        if entry.kubernetes:
            workloads[service] = [parsed(service, text) for text in entry.kubernetes]
    return KubernetesConnector(
        access,
        workloads=workloads,
        jobs={name: job.pods for name, job in settings.jobs.items()},
        namespaces=kubernetes_settings.namespaces,
        page=kubernetes_settings.page,
        with_logs=kubernetes_settings.logs,
        with_secrets=kubernetes_settings.secrets,
        with_helm=kubernetes_settings.helm,
        without=kubernetes_settings.without,
        limits=kubernetes_settings.limits(LIMITS),
    )


def _access_of(kubernetes_settings: KubernetesSettings) -> ClusterLogin | None:
    if kubernetes_settings.kubeconfig is not None:
        # Late: YAML is read by nobody who has no such file.
        from faultline.connectors.vendors.kubernetes.kubeconfig import read_kubeconfig

        return read_kubeconfig(kubernetes_settings.kubeconfig, kubernetes_settings.context)
    if kubernetes_settings.url is None:
        return None
    return ClusterAccess(
        plain_url(kubernetes_settings.url, VENDOR),
        kubernetes_settings.token,
        kubernetes_settings.token_file,
        kubernetes_settings.ca_file,
    )


class KubernetesConnector:
    """`workloads` by our name of the service; `jobs`: patterns of a training job's pods."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = (
        "logs",
        "changes",
        "monitors",
        "states",
        "topology",
    )
    follows = ("service", "node", "volume")

    def __init__(
        self,
        access: ClusterLogin,
        *,
        workloads: Mapping[str, Sequence[Ref]] | None = None,
        jobs: Mapping[str, Sequence[str]] | None = None,
        namespaces: Sequence[str] = (),
        page: str | None = None,
        with_logs: bool = True,
        with_secrets: bool = False,
        with_helm: bool = False,
        without: Sequence[str] = (),
        limits: Limits = LIMITS,
    ) -> None:
        self._access = access
        self._workloads = dict(workloads or {})
        self._jobs = dict(jobs or {})
        self._namespaces = tuple(namespaces)
        self._page = page
        self._with_logs = with_logs
        self._with_secrets = with_secrets
        self._with_helm = with_helm
        self._without = frozenset(without)
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """What the cluster knows of the workloads in scope; a list that fails is a gap, the rest
        stands."""
        refs = refs_of(request.alert, request.scope, self._workloads, self._jobs, self._namespaces)
        nodes, claims = request.subjects("node"), request.subjects("volume")
        if not (refs or nodes or claims):
            return Collected(missing=(Missing("logs", "workloads", _NOTHING),))
        async with Cluster(self._access, self.limits).open() as reads:
            inquiry = ClusterInquiry(
                reads,
                request.scope,
                self._page,
                with_secrets=self._with_secrets,
                with_helm=self._with_helm,
                without=self._without,
                logs=reads if self._with_logs else None,
            )
            # In this order: each step looks up what the steps before it found.
            await asyncio.gather(*(inquiry.workload(ref) for ref in refs))
            await asyncio.gather(
                *(inquiry.pods_on(node) for node in nodes),
                *(inquiry.pods_mounting(*claim.split("/", 1)) for claim in claims),
            )
            spaces = list(dict.fromkeys(ref.namespace for ref in refs))
            spaces += [claim.split("/", 1)[0] for claim in claims]
            spaces = list(dict.fromkeys(spaces))
            namespaces = (inquiry.namespace(space) for space in spaces)
            await asyncio.gather(*namespaces, inquiry.nodes(), inquiry.flux(), inquiry.helm())
            inquiry.node_changes()
            await asyncio.gather(inquiry.states(), inquiry.job_objects(), inquiry.container_logs())
            return inquiry.collected()

    async def check(self) -> Check:
        """What can be read with this token, and what to change where something cannot."""
        spaces = self._spaces()
        parts = parts_of(
            # Without a namespace in the settings, ask about one that every cluster has.
            spaces[:MOST_CHECKED] or ["default"],
            self._without,
            logs=self._with_logs,
            # Helm keeps its records in secrets.
            secrets=self._with_secrets or self._with_helm,
        )
        try:
            async with Cluster(self._access, self.limits).open() as reads:
                refusals = await refusals_of(reads, parts)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        notes = [access_summary(parts, refusals)]
        if not spaces:
            notes.append("no service names its workload: only what alerts name is read")
        line = f"Kubernetes at {self._access.url}: {'; '.join(notes)}; only GET is sent"
        line += (
            # To ask for the token's rights takes a POST, which is never sent.
            "; whether the token can also write is unknown: bind it to read-only-rbac.yaml alone"
        )
        return Check(self.name, not any(refusals), line)

    def _spaces(self) -> list[str]:
        """The namespaces that the settings name."""
        spaces = [ref.namespace for workload in self._workloads.values() for ref in workload]
        return list(dict.fromkeys((*spaces, *self._namespaces)))
