"""Lists the objects around the workloads that were found, and says what is wrong with them.

Of each namespace in scope its Services, routes, policies, quotas, claims, budgets and certificates
are listed; of what they say only what concerns those workloads is kept. Secrets are never listed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol, TypeVar

from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import CallRow, StateRow
from faultline.connectors.vendors.kubernetes.answers import Named, Node, Scaler
from faultline.connectors.vendors.kubernetes.claim_facts import claim_facts
from faultline.connectors.vendors.kubernetes.node_facts import node_facts
from faultline.connectors.vendors.kubernetes.object_answers import (
    DisruptionBudget,
    EndpointSlice,
    HttpRoute,
    Ingress,
    KubernetesService,
    ManagedCertificate,
    NetworkPolicy,
    ResourceQuota,
    VolumeClaim,
)
from faultline.connectors.vendors.kubernetes.pod_facts import pod_facts
from faultline.connectors.vendors.kubernetes.policy_facts import (
    CallerPods,
    admitted_calls,
    policy_facts,
    with_services,
)
from faultline.connectors.vendors.kubernetes.route_facts import (
    Routes,
    certificate_facts,
    route_facts,
)
from faultline.connectors.vendors.kubernetes.service_references import (
    ReferringObjects,
    service_references,
)
from faultline.connectors.vendors.kubernetes.session import replayed
from faultline.connectors.vendors.kubernetes.state_rows import NamespaceContents
from faultline.connectors.vendors.kubernetes.workload_facts import (
    budget_facts,
    namespace_facts,
    quota_facts,
    refused_facts,
    scaler_facts,
    workload_facts,
)

T = TypeVar("T")

MOST_FACTS = 500
"""Of one namespace; beyond that they say the same of ever more pods."""
NODES = "/api/v1/nodes"
WAITS_FOR_NODE = frozenset({"unschedulable", "placement_impossible"})
NETWORKING = "apis/networking.k8s.io/v1"


class ListObjects(Protocol):
    """Lists objects; what cannot be listed becomes a gap, and None."""

    async def __call__(
        self,
        kind: EvidenceKind,
        path: str,
        type: type[T],
        selection: Mapping[str, str] = ...,
        *,
        names_only: bool = False,
        silent: bool = False,
    ) -> tuple[list[T], str | None] | None:
        """The objects, and what of them was left out."""


@dataclass(frozen=True)
class StateList:
    """One resource of a namespace. What is `optional` may be unknown to the cluster."""

    words: str
    group: str
    resource: str
    type: type[Any]
    kinds: tuple[str, ...]
    """Of the objects whose rows this list shows."""
    optional: bool = False

    def path(self, space: str) -> str:
        """Where it is listed."""
        return f"/{self.group}/namespaces/{space}/{self.resource}"


STATE_LISTS = (
    StateList("services", "api/v1", "services", KubernetesService, ("Service",)),
    StateList("endpoint slices", "apis/discovery.k8s.io/v1", "endpointslices", EndpointSlice, ()),
    StateList("ingresses", NETWORKING, "ingresses", Ingress, ("Ingress",)),
    StateList("network policies", NETWORKING, "networkpolicies", NetworkPolicy, ("NetworkPolicy",)),
    StateList("quotas", "api/v1", "resourcequotas", ResourceQuota, ("ResourceQuota",)),
    StateList(
        "volume claims",
        "api/v1",
        "persistentvolumeclaims",
        VolumeClaim,
        ("PersistentVolumeClaim",),
    ),
    StateList(
        "disruption budgets",
        "apis/policy/v1",
        "poddisruptionbudgets",
        DisruptionBudget,
        ("PodDisruptionBudget",),
    ),
    StateList(
        "routes",
        "apis/gateway.networking.k8s.io/v1",
        "httproutes",
        HttpRoute,
        ("HTTPRoute",),
        optional=True,
    ),
    StateList(
        "certificates",
        "apis/cert-manager.io/v1",
        "certificates",
        ManagedCertificate,
        ("Certificate",),
        optional=True,
    ),
)
NAMESPACES = "/api/v1/namespaces"


@dataclass
class StateInquiry:
    """The lists of one collection, and what was found in each."""

    fetch: ListObjects
    nodes: Sequence[Node]
    """Those that pods in scope run on, which were read already."""
    _referring: dict[str, ReferringObjects] = field(default_factory=dict)
    _counted: dict[str, int] = field(default_factory=dict)
    _cut: dict[str, str | None] = field(default_factory=dict)

    async def rows(
        self, contents: Sequence[NamespaceContents], scalers: Mapping[str, Sequence[Scaler]]
    ) -> list[StateRow]:
        """The facts about the objects of these namespaces and their nodes."""
        pods = _pods_by_service(contents)
        inquiries = [
            self._of_namespace(content, scalers.get(content.name, ()), pods) for content in contents
        ]
        rows: list[StateRow] = []
        for namespace_rows in await asyncio.gather(*inquiries):
            rows += namespace_rows
        # Last: the rows so far say which pods wait for a node.
        rows += await self._of_nodes(contents, rows)
        return list(dict.fromkeys(rows))

    def calls(self, end: datetime) -> list[CallRow]:
        """Who calls whom, as the objects that were listed declare it."""
        return service_references([objects for _, objects in sorted(self._referring.items())], end)

    def items(self, window: Window) -> list[Item]:
        """One item of evidence for each list."""
        evidence_items = []
        for query, rows in self._counted.items():
            evidence_items.append(
                Item("states", query, window, rows=rows, cut=self._cut.get(query))
            )
        return evidence_items

    async def _of_namespace(
        self,
        contents: NamespaceContents,
        scalers: Sequence[Scaler],
        pods: Mapping[str, CallerPods],
    ) -> list[StateRow]:
        space = contents.name
        lists = [self._listed(state_list, space) for state_list in STATE_LISTS]
        named = {"fieldSelector": f"metadata.name={space}"}
        spaces = self.fetch("states", NAMESPACES, Named, named, names_only=True)
        *answers, namespaces = await asyncio.gather(*lists, spaces)
        by_name: dict[str, Any] = {}
        for state_list, answer in zip(STATE_LISTS, answers, strict=True):
            # A list that is complete. In the rest of another may be what would seem to be missing.
            whole = None if answer is None or answer[1] is not None else answer[0]
            by_name[state_list.resource] = whole
        self._referring[space] = ReferringObjects(
            contents,
            by_name["services"] or (),
            by_name["ingresses"] or (),
            by_name["httproutes"] or (),
            admitted_calls(contents, by_name["networkpolicies"] or (), pods),
        )
        references = service_references([self._referring[space]], contents.end)
        calls = [(reference.caller, reference.callee) for reference in references]
        contents = replace(contents, calls=[*contents.calls, *calls])
        pods = with_services(pods, by_name["services"] or (), contents)
        rows = _facts(contents, by_name, scalers, pods)
        if namespaces is not None:
            rows += namespace_facts(contents, namespaces[0])
        namespace_rows = self._with_queries(rows, space)
        for row in namespace_rows[MOST_FACTS:]:
            self._cut[row.query or ""] = f"only {MOST_FACTS:,} facts of a namespace are kept"
        return namespace_rows[:MOST_FACTS]

    async def _listed(
        self, state_list: StateList, space: str
    ) -> tuple[list[Any], str | None] | None:
        path = state_list.path(space)
        answer = await self.fetch("states", path, state_list.type, silent=state_list.optional)
        if answer is not None:
            # A list that was answered is evidence even if it shows nothing.
            self._counted[replayed(path)] = 0
            self._cut[replayed(path)] = answer[1]
        return answer

    def _with_queries(self, rows: Sequence[StateRow], space: str) -> list[StateRow]:
        """The rows with the query whose list showed them."""
        queries = {}
        for state_list in STATE_LISTS:
            for kind in state_list.kinds:
                queries[kind] = replayed(state_list.path(space))
        rows_with_query = []
        for row in rows:
            query = queries.get(row.kind) or replayed(_path_of(row.kind, space))
            self._counted[query] = self._counted.get(query, 0) + 1
            rows_with_query.append(row._replace(query=query))
        return rows_with_query

    async def _of_nodes(
        self, contents: Sequence[NamespaceContents], rows: Sequence[StateRow]
    ) -> list[StateRow]:
        """Facts about the nodes that pods in scope run on, and about all where a pod waits for
        one."""
        on: dict[str, list[str]] = {}
        for content in contents:
            for service, pod in content.pods.values():
                if pod.node and service not in on.setdefault(pod.node, []):
                    on[pod.node].append(service)
        waiting = sorted(
            {row.service for row in rows if row.fact in WAITS_FOR_NODE and row.service}
        )
        nodes, query = self.nodes, replayed(NODES)
        # A pod that waits may fit on any node, so list them all.
        if waiting:
            answer = await self.fetch("states", NODES, Node)
            if answer is not None:
                nodes, self._cut[query] = answer
        node_rows = node_facts(nodes, on, waiting)[:MOST_FACTS]
        if nodes:
            self._counted[query] = len(node_rows)
        return [row._replace(query=query) for row in node_rows]


def _facts(
    contents: NamespaceContents,
    listed: Mapping[str, Any],
    scalers: Sequence[Scaler],
    pods: Mapping[str, CallerPods],
) -> list[StateRow]:
    rows = [*pod_facts(contents), *workload_facts(contents), *refused_facts(contents)]
    # After the rows above: a quota is judged by the instances that they show as missing.
    rows += quota_facts(contents, listed["resourcequotas"] or (), rows)
    rows += scaler_facts(contents, scalers)
    rows += budget_facts(contents, listed["poddisruptionbudgets"] or ())
    claims = listed["persistentvolumeclaims"]
    if claims is not None:
        # Without the list every claim would seem to be missing.
        rows += claim_facts(contents, claims)
    rows += policy_facts(contents, listed["networkpolicies"] or (), pods)
    if listed["services"] is not None:
        routes = Routes(
            listed["services"],
            listed["endpointslices"],
            listed["ingresses"] or (),
            listed["httproutes"] or (),
        )
        rows += route_facts(contents, routes)
        rows += certificate_facts(contents, listed["certificates"] or (), routes)
    return rows


def _pods_by_service(contents: Sequence[NamespaceContents]) -> dict[str, CallerPods]:
    caller_pods: dict[str, CallerPods] = {}
    for content in contents:
        for service in dict.fromkeys(service for service, _ in content.pods.values()):
            caller_pods.setdefault(service, CallerPods(content.name, content.pods_of(service)))
    return caller_pods


_OTHER_PATHS = {
    "Pod": "api/v1/namespaces/{space}/pods",
    "Deployment": "apis/apps/v1/namespaces/{space}/deployments",
    "StatefulSet": "apis/apps/v1/namespaces/{space}/statefulsets",
    "Job": "apis/batch/v1/namespaces/{space}/jobs",
    "HorizontalPodAutoscaler": ("apis/autoscaling/v2/namespaces/{space}/horizontalpodautoscalers"),
    "LimitRange": "apis/events.k8s.io/v1/namespaces/{space}/events",
    "Webhook": "apis/events.k8s.io/v1/namespaces/{space}/events",
    "Namespace": "api/v1/namespaces",
}


def _path_of(kind: str, space: str) -> str:
    return "/" + _OTHER_PATHS.get(kind, "api/v1/namespaces/{space}/events").format(space=space)
