"""Kubernetes: events, rollouts, scaling, states of pods, of the nodes they run on, and of what
routes to them or limits them, of the services in scope.

Lists of the API server over GET, and nothing else. No client library: one role that may only `list`
is all it needs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from analysis.errors import FaultlineError
from analysis.vocabulary import EvidenceKind
from connectors.base import Check, Collected, Missing, Request
from connectors.kubernetes.inquiry import AUTOSCALERS, EVENTS, ClusterInquiry, named_path
from connectors.kubernetes.session import VENDOR, Cluster, ClusterAccess, ClusterLogin
from connectors.kubernetes.settings import KubernetesSettings
from connectors.kubernetes.state_inquiry import NAMESPACES, NODES, state_paths
from connectors.kubernetes.workloads import Ref, parsed, refs_of
from connectors.limits import Limits
from connectors.shared_settings import SharedSettings
from connectors.vendor_text import plain_url

LIMITS = Limits(deadline_s=20, max_bytes=64 * 1024 * 1024, requests_per_s=20, concurrency=6)
"""A list of 500 pods is some 5 MB. The API server queues what is too much at once (kubernetes.io,
"API Priority and Fairness"); this stays far below what kubectl itself allows (50 a second)."""
MOST_CHECKED = 3
RESOURCES = (
    "pods",
    "deployments",
    "statefulsets",
    "daemonsets",
    "jobs",
    "replicasets",
    "controllerrevisions",
)
_NOTHING = (
    "no service in scope names its workload: set services.NAME.kubernetes, or kubernetes.namespaces"
)


def build(own: KubernetesSettings, settings: SharedSettings) -> KubernetesConnector | None:
    """The configured connector, or None without an address. Raises SettingsError."""
    access = _access_of(own)
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
        namespaces=own.namespaces,
        page=own.page,
        limits=own.limits(LIMITS),
    )


def _access_of(own: KubernetesSettings) -> ClusterLogin | None:
    if own.kubeconfig is not None:
        # Late: YAML is read by nobody who has no such file.
        from connectors.kubernetes.kubeconfig import read_kubeconfig

        return read_kubeconfig(own.kubeconfig, own.context)
    if own.url is None:
        return None
    return ClusterAccess(plain_url(own.url, VENDOR), own.token, own.token_file, own.ca_file)


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

    def __init__(
        self,
        access: ClusterLogin,
        *,
        workloads: Mapping[str, Sequence[Ref]] | None = None,
        jobs: Mapping[str, Sequence[str]] | None = None,
        namespaces: Sequence[str] = (),
        page: str | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._access = access
        self._workloads = dict(workloads or {})
        self._jobs = dict(jobs or {})
        self._namespaces = tuple(namespaces)
        self._page = page
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """What the cluster knows of the workloads in scope; a list that fails is a gap, the rest
        stands."""
        refs = refs_of(request.alert, request.scope, self._workloads, self._jobs, self._namespaces)
        if not refs:
            return Collected(missing=(Missing("logs", "workloads", _NOTHING),))
        async with Cluster(self._access, self.limits).open() as reads:
            inquiry = ClusterInquiry(reads, request.scope, self._page)
            await asyncio.gather(*(inquiry.workload(ref) for ref in refs))
            spaces = list(dict.fromkeys(ref.namespace for ref in refs))
            await asyncio.gather(*(inquiry.namespace(space) for space in spaces), inquiry.nodes())
            await inquiry.states()
            return inquiry.collected()

    async def check(self) -> Check:
        """Which of the lists can be read with this token?"""
        spaces = self._spaces()
        wanted = _wanted(spaces[:MOST_CHECKED] or ["default"])
        try:
            async with Cluster(self._access, self.limits).open() as reads:
                asked = [reads.refusal(p, names_only="configmaps" in p) for p in wanted.values()]
                refusals = await asyncio.gather(*asked)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        readable: list[str] = []
        refused: list[str] = []
        for what, reason in zip(wanted, refusals, strict=True):
            if reason is None:
                readable.append(what)
            else:
                refused.append(f"{what} cannot be listed ({reason})")
        said = [f"{', '.join(readable)} can be listed"] if readable else []
        said += refused
        if not spaces:
            said.append("no service names its workload: only what alerts name is read")
        line = f"Kubernetes at {self._access.url}: {'; '.join(said)}; only GET is sent"
        line += (
            "; whether the token could also write cannot be told by reading: "
            "bind it to read-only-rbac.yaml alone"
        )
        return Check(self.name, any(what.startswith("pods") for what in readable), line)

    def _spaces(self) -> list[str]:
        """The namespaces that the settings name."""
        spaces = [ref.namespace for own in self._workloads.values() for ref in own]
        return list(dict.fromkeys((*spaces, *self._namespaces)))


def _wanted(spaces: Sequence[str]) -> dict[str, str]:
    """Everything that is listed, by words."""
    calls: dict[str, str] = {}
    for space in spaces:
        for resource in RESOURCES:
            calls[f"{resource} in {space}"] = named_path(resource, space)
        calls[f"events in {space}"] = f"/{EVENTS[0]}/namespaces/{space}/events"
        calls[f"autoscalers in {space}"] = (
            f"/{AUTOSCALERS}/namespaces/{space}/horizontalpodautoscalers"
        )
        calls[f"config maps in {space}"] = f"/api/v1/namespaces/{space}/configmaps"
        for what, path in state_paths(space).items():
            calls[f"{what} in {space}"] = path
    return {
        **calls,
        "nodes": NODES,
        "namespaces": NAMESPACES,
        "events of nodes": f"/{EVENTS[0]}/namespaces/default/events",
    }
