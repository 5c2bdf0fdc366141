"""The lists of one collection: workloads with their pods and revisions, then their namespaces, then
their nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import quote

from faultline.analysis.alert_signal.subjects import pod_workload
from faultline.analysis.case.tables import SCHEMAS
from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Scope, Window
from faultline.connectors.shared.changes.same_rollouts import with_joined_rollouts
from faultline.connectors.shared.contract.base import Collected, Item, Missing
from faultline.connectors.shared.rows.collection_builder import LogRow, rows_table
from faultline.connectors.vendors.kubernetes import events, pods
from faultline.connectors.vendors.kubernetes.answers import (
    ControllerRevision,
    KubernetesEvent,
    Node,
    Pod,
    Scaler,
    Workload,
)
from faultline.connectors.vendors.kubernetes.change_inquiry import ChangeInquiry
from faultline.connectors.vendors.kubernetes.container_logs import LogInquiry, PodLogs, runs_to_read
from faultline.connectors.vendors.kubernetes.crash_states import with_crash_lines
from faultline.connectors.vendors.kubernetes.flux_changes import FluxInquiry
from faultline.connectors.vendors.kubernetes.helm_changes import HelmInquiry
from faultline.connectors.vendors.kubernetes.job_objects import job_object_lists
from faultline.connectors.vendors.kubernetes.node_facts import is_ready
from faultline.connectors.vendors.kubernetes.session import (
    GROUPS,
    NO_SELECTION,
    ObjectLists,
    replayed,
)
from faultline.connectors.vendors.kubernetes.state_inquiry import StateInquiry
from faultline.connectors.vendors.kubernetes.state_rows import NamespaceContents
from faultline.connectors.vendors.kubernetes.workloads import PATHS, ObservedWorkload, Ref, of_job

T = TypeVar("T")

EVENTS = ("apis/events.k8s.io/v1", "api/v1")
"""The newer group, then the older one for servers that do not know it."""
SKEW = timedelta(minutes=1)
MOST_PODS, MOST_NODES = 500, 20
_SELECTED = ("Deployment", "StatefulSet", "DaemonSet", "Job")


class ClusterInquiry:
    """One collection. Rows come together in `tables`; a list that cannot be read is in
    `missing`."""

    def __init__(
        self,
        reads: ObjectLists,
        scope: Scope,
        page: str | None,
        *,
        with_secrets: bool = False,
        with_helm: bool = False,
        without: Collection[str] = (),
        logs: PodLogs | None = None,
    ) -> None:
        # The cluster's clock may differ from ours.
        start = scope.events_from - SKEW
        self._window = Window(start=start, end=scope.incident.end + SKEW)
        self._scope = scope
        self._reads = reads
        self._without = without
        self._page = page
        self._tables: dict[str, list[tuple[Any, ...]]] = {
            "logs": [],
            "changes": [],
            "monitors": [],
            "states": [],
            "topology": [],
        }
        self._items: list[Item] = []
        self._missing: list[Missing] = []
        self._pods: dict[tuple[str, str], pods.ObservedPod] = {}
        self._objects: dict[tuple[str, str, str], str] = {}
        self._events_of: dict[str, list[KubernetesEvent]] = {}
        self._scalers_of: dict[str, list[Scaler]] = {}
        self._nodes: list[Node] = []
        self._node_events: list[KubernetesEvent] = []
        self._training_refs: list[Ref] = []
        self._changes = ChangeInquiry(
            self._list, self._link, self._window, self._objects, with_secrets
        )
        self._logs = LogInquiry(logs, self._link, self._window) if logs is not None else None
        self._flux = FluxInquiry(self._list, self._link, self._changes.window)
        window = self._changes.window
        self._helm = HelmInquiry(self._list, self._link, window) if with_helm else None

    def collected(self) -> Collected:
        """Everything that was brought."""
        self._tables["changes"] += self._changes.rows
        self._items += [*self._changes.items, *self._flux.items]
        applied = list(self._flux.rows)
        if self._helm is not None:
            self._items += self._helm.items
            applied += self._helm.rows
        if self._logs is not None:
            self._tables["logs"] += self._logs.rows
            self._items += self._logs.items
            self._missing += self._logs.missing
            rows = with_crash_lines(self._tables["states"], self._logs.crashes, self._link)
            self._tables["states"] = rows
        tables = {}
        for name, rows in self._tables.items():
            # Two selections may list the same object.
            distinct_rows = list(dict.fromkeys(rows))
            tables[name] = rows_table(distinct_rows, SCHEMAS[name].columns)
        if applied:
            schema = SCHEMAS["changes"].columns
            frame = rows_table(applied, schema)
            # What Flux or Helm applied is what the cluster then rolled out.
            tables["changes"] = with_joined_rollouts(tables["changes"], [frame])
        return Collected(tables, tuple(self._items), tuple(self._missing))

    async def workload(self, ref: Ref) -> None:
        """A workload, its pods and its revisions."""
        if ref.patterns:
            await self._training(ref)
            return
        if ref.kind == "Pod":
            await self._list_pods(ref, {"fieldSelector": f"metadata.name={ref.name}"})
            return
        if ref.kind:
            await self._workload_by_name(ref)
        else:
            await self._workloads_by_label(ref)

    async def _workload_by_name(self, ref: Ref) -> None:
        selection = {"fieldSelector": f"metadata.name={ref.name}"}
        workloads = await self._workloads(ref, ref.kind, selection)
        if workloads is None:
            return
        await asyncio.gather(
            *(self._pods_and_revisions(workload) for workload in workloads if workload.selector)
        )
        # A name that was only guessed from the service's says nothing by not being there.
        if not workloads and not ref.guessed:
            query = replayed(named_path(PATHS[ref.kind][1], ref.namespace), selection)
            self._missing.append(Missing("monitors", query, f"there is no {ref.label}"))

    async def _workloads_by_label(self, ref: Ref) -> None:
        selection = {"labelSelector": ref.selector}
        lists = await asyncio.gather(*(self._workloads(ref, kind, selection) for kind in _SELECTED))
        workloads = [workload for listed in lists for workload in listed or ()]
        calls = [self._pods_and_revisions(workload) for workload in workloads if workload.selector]
        if ref.selector:
            # Pods may carry the label without a workload that does.
            calls.append(self._list_pods(ref, selection))
        await asyncio.gather(*calls)

    async def _workloads(
        self, ref: Ref, kind: str, selection: dict[str, str]
    ) -> list[ObservedWorkload] | None:
        path = named_path(PATHS[kind][1], ref.namespace)
        listed = await self._list("changes", path, Workload, selection, silent=ref.guessed)
        if listed is None:
            return None
        workloads = [ObservedWorkload(ref, kind, manifest) for manifest in listed[0]]
        for workload in workloads:
            self._objects[ref.namespace, kind, workload.meta.name] = ref.service
        self._changes.add_workloads(workloads)
        return workloads

    async def _pods_and_revisions(self, workload: ObservedWorkload) -> None:
        listing = self._list_pods(workload.ref, {"labelSelector": workload.selector}, workload)
        # A Job keeps no revisions.
        if workload.kind == "Job":
            await listing
            return
        if workload.kind == "Deployment":
            history = self._history(workload, "replicasets", Workload)
        else:
            history = self._history(workload, "controllerrevisions", ControllerRevision)
        await asyncio.gather(listing, history)

    async def _history(self, workload: ObservedWorkload, resource: str, type: type[Any]) -> None:
        path = named_path(resource, workload.ref.namespace)
        listed = await self._list("changes", path, type, {"labelSelector": workload.selector})
        if listed is None:
            return
        revisions, cut = listed
        for revision in revisions:
            if resource == "replicasets" and revision.metadata.owned_by(
                "Deployment", workload.meta.name
            ):
                # Events name the ReplicaSet: this is how they find the service.
                key = (workload.ref.namespace, "ReplicaSet", revision.metadata.name)
                self._objects[key] = workload.ref.service
        query = replayed(path, {"labelSelector": workload.selector})
        self._changes.add_revisions(workload, revisions, query, cut)

    async def _list_pods(
        self, ref: Ref, selection: dict[str, str], workload: ObservedWorkload | None = None
    ) -> None:
        path = named_path("pods", ref.namespace)
        silent = ref.guessed and ref.kind == "Pod"
        listed = await self._list("monitors", path, Pod, selection, silent=silent)
        if listed is None:
            return
        if workload is not None:
            link = self._link_of(workload)
        else:
            link = self._link(ref.namespace, ref.kind or "Pod", ref.name)
        self._take(ref, listed[0], listed[1], replayed(path, selection), link)

    async def pods_on(self, node: str) -> None:
        """The pods that run on a node to which the evidence leads, in whatever namespace."""
        selection = {"fieldSelector": f"spec.nodeName={node}"}
        listed = await self._list("monitors", "/api/v1/pods", Pod, selection, silent=True)
        if listed is not None:
            self._take_all(listed[0], listed[1], replayed("/api/v1/pods", selection))

    async def pods_mounting(self, space: str, claim: str) -> None:
        """The pods that mount a volume's claim."""
        path = named_path("pods", space)
        listed = await self._list("monitors", path, Pod, silent=True)
        if listed is None:
            return
        mounting = []
        for pod in listed[0]:
            volumes = pod.spec.volumes if pod.spec is not None else None
            claims = [volume.persistent_volume_claim for volume in volumes or ()]
            if any(mounted is not None and mounted.claim_name == claim for mounted in claims):
                mounting.append(pod)
        self._take_all(mounting, listed[1], replayed(path))

    def _take_all(self, pods_of_any: Iterable[Pod], cut: str | None, query: str) -> None:
        """Pods of several workloads, each as its own service."""
        by_workload: dict[tuple[str, str], list[Pod]] = {}
        for pod in pods_of_any:
            key = pod.metadata.namespace or "default", pod_workload(pod.metadata.name)
            by_workload.setdefault(key, []).append(pod)
        for (space, workload), workload_pods in list(by_workload.items())[:MOST_PODS]:
            ref = Ref(workload, space, "Pod", workload_pods[0].metadata.name, guessed=True)
            link = self._link(space, "Pod", ref.name)
            self._take(ref, workload_pods, cut, query, link)

    async def _training(self, ref: Ref) -> None:
        """A training job's pods, by their names or by the label of their job."""
        self._training_refs.append(ref)
        path = named_path("pods", ref.namespace)
        listed = await self._list("monitors", path, Pod)
        if listed is not None:
            job_pods = [pod for pod in listed[0] if of_job(pod.metadata, ref.patterns)]
            self._take(
                ref, job_pods, listed[1], replayed(path), self._link(ref.namespace, "Pod", "")
            )

    def _take(
        self, ref: Ref, listed: list[Pod], cut: str | None, query: str, link: str | None
    ) -> None:
        left_out = len(listed) - MOST_PODS
        if not cut and left_out > 0:
            cut = f"{left_out} of {len(listed)} pods left out"
        new: list[pods.ObservedPod] = []
        for pod in listed[:MOST_PODS]:
            name = pod.metadata.name
            # Two selections may find the same pod; the first that did says whose it is.
            if (ref.namespace, name) not in self._pods:
                new.append(pods.ObservedPod(ref.service, pod))
        lines: list[LogRow] = []
        for observed_pod in new:
            self._pods[ref.namespace, observed_pod.pod.metadata.name] = observed_pod
            self._objects[ref.namespace, "Pod", observed_pod.pod.metadata.name] = (
                observed_pod.service
            )
            lines += self._in_window(pods.pod_logs(observed_pod))
        self._tables["logs"] += lines
        states = pods.pod_states(new)
        self._add_states(states, link)
        item = Item(
            "monitors",
            query,
            self._window,
            link,
            rows=len(states),
            cut=cut,
            details=_phases(new),
        )
        self._items.append(item.bringing("logs", lines))

    def _in_window(self, rows: Iterable[LogRow]) -> list[LogRow]:
        return [row for row in rows if self._window.start <= row.time <= self._window.end]

    def _add_states(self, states: Iterable[tuple[Any, ...]], link: str | None) -> None:
        self._tables["monitors"] += [(*state[:4], link) for state in states]

    async def namespace(self, space: str) -> None:
        """A namespace's events, autoscalers and config maps that are about the workloads found."""
        (namespace_events, query, cut), scalers, _ = await asyncio.gather(
            self._events(space),
            self._changes.autoscalers(space),
            self._changes.configuration(space),
        )
        self._events_of[space] = namespace_events
        self._scalers_of[space] = scalers
        self._changes.namespace(space, scalers, namespace_events)
        rows: list[LogRow] = []
        for event in namespace_events:
            service = events.service_of(event, self._objects)
            if service is not None:
                rows += events.log_rows(event, (service,), self._window)
        self._tables["logs"] += rows
        if query:
            link = self._link(space, "Event", "")
            item = Item("logs", query, self._window, link, rows=len(rows), cut=cut)
            self._items.append(item.holding(rows))

    async def flux(self) -> None:
        """What Flux applied, where labels of the workloads say that it did."""
        await self._flux.read(self._changes.workloads)

    async def helm(self) -> None:
        """What Helm released, where annotations of the workloads say so and the settings ask for
        it."""
        if self._helm is not None:
            await self._helm.read(self._changes.workloads)

    async def nodes(self) -> None:
        """Conditions and events of the nodes that the pods run on."""
        on: dict[str, list[str]] = {}
        for pod in self._pods.values():
            if pod.pod.node:
                _add_once(on.setdefault(pod.pod.node, []), pod.service)
        if not on:
            return
        names = list(on)[:MOST_NODES]
        left_out = len(on) - MOST_NODES
        cut = f"{left_out} of {len(on)} nodes left out" if left_out > 0 else None
        (node_events, query, events_cut), listed = await asyncio.gather(
            # Nodes have no namespace: their events are in `default`.
            self._events("default", kind="Node"),
            asyncio.gather(*(self._node(name, on[name]) for name in names)),
        )
        self._node_events = node_events
        rows: list[LogRow] = []
        for event in node_events:
            rows += events.log_rows(event, on.get(event.about.name or "", ()), self._window)
        self._tables["logs"] += rows
        if query:
            item = Item("logs", query, self._window, None, rows=len(rows), cut=events_cut)
            self._items.append(item.holding(rows))
        node_answers = [node_answer for node_answer in listed if node_answer is not None]
        if node_answers:
            query = replayed("/api/v1/nodes")
            link = self._link("", "Node", names[0])
            count = sum(states for states, _ in node_answers)
            item = Item("monitors", query, self._window, link, rows=count, cut=cut)
            lines = [line for _, node_lines in node_answers for line in node_lines]
            self._tables["logs"] += lines
            self._items.append(item.bringing("logs", lines))

    async def _node(self, name: str, services: list[str]) -> tuple[int, list[LogRow]] | None:
        """How many states it has, and the lines that its conditions make; None where it could not
        be read."""
        listed = await self._list(
            "monitors", "/api/v1/nodes", Node, {"fieldSelector": f"metadata.name={name}"}
        )
        if listed is None:
            return None
        states: list[tuple[Any, ...]] = []
        lines: list[LogRow] = []
        for node in listed[0]:
            self._nodes.append(node)
            states += pods.node_states(node, services)
            lines += self._in_window(pods.node_logs(node, services))
        self._add_states(states, self._link("", "Node", name))
        return len(states), lines

    def node_changes(self) -> None:
        """Nodes that joined or left; known once the pods' and the nodes' events are."""
        on: dict[str, list[str]] = {}
        for pod in self._pods.values():
            if pod.pod.node:
                _add_once(on.setdefault(pod.pod.node, []), pod.service)
        # Of the pods on a node that is gone the events remain.
        for namespace_events in self._events_of.values():
            for event in namespace_events:
                service = events.service_of(event, self._objects)
                if event.host and service is not None:
                    _add_once(on.setdefault(event.host, []), service)
        self._changes.nodes(self._nodes, self._node_events, on)

    async def container_logs(self) -> None:
        """What containers wrote, once the pods and their nodes are known."""
        if self._logs is None:
            return
        unwell, not_ready = set(), set()
        for node in self._nodes:
            if pods.node_logs(node, (node.metadata.name,)):
                unwell.add(node.metadata.name)
            if not is_ready(node):
                not_ready.add(node.metadata.name)
        runs = runs_to_read(self._pods.values(), frozenset(unwell), self._window)
        await self._logs.read(runs, frozenset(not_ready))

    async def states(self) -> None:
        """What the objects around the workloads show by themselves; asked once all else is
        known."""
        spaces = {space for space, _ in self._pods}
        spaces |= {workload.ref.namespace for workload in self._changes.workloads}
        inquiry = StateInquiry(self._list, self._nodes)
        contents = [self._contents(space) for space in sorted(spaces)]
        rows = await inquiry.rows(contents, self._scalers_of)
        for row in rows:
            link = self._link(row.namespace or "", row.kind, row.name)
            self._tables["states"].append(row._replace(link=link))
        self._items += inquiry.items(self._window)
        calls = inquiry.calls(self._scope.incident.end)
        if calls:
            self._tables["topology"] += calls
            query = "Services, ingresses, routes and addresses that containers are given"
            self._items.append(Item("topology", query, rows=len(calls)))

    async def job_objects(self) -> None:
        """What the operators of training jobs say of the job in scope."""
        if not self._training_refs:
            return
        try:
            groups = await self._reads.groups()
        except FaultlineError as error:
            self._missing.append(Missing("states", replayed(GROUPS), str(error)))
            return
        for job_object_list in await job_object_lists(self._list, groups, self._training_refs):
            for row in job_object_list.rows:
                link = self._link(row.namespace or "", row.kind, row.name)
                self._tables["states"].append(row._replace(link=link))
            item = Item(
                "states",
                job_object_list.query,
                self._window,
                rows=len(job_object_list.rows),
                cut=job_object_list.cut,
            )
            self._items.append(item)

    def _contents(self, space: str) -> NamespaceContents:
        pods_there = {}
        for (namespace, name), pod in self._pods.items():
            if namespace == space:
                pods_there[name] = (pod.service, pod.pod)
        services = {}
        for (namespace, kind, name), service in self._objects.items():
            if namespace == space:
                services[kind, name] = service
        return NamespaceContents(
            name=space,
            pods=pods_there,
            workloads=[
                workload for workload in self._changes.workloads if workload.ref.namespace == space
            ],
            services=services,
            events=self._events_of.get(space, ()),
            calls=self._scope.calls,
            end=self._scope.incident.end,
        )

    async def _events(
        self, space: str, kind: str = ""
    ) -> tuple[list[KubernetesEvent], str, str | None]:
        """A namespace's events, by the older group where the server does not know the newer one."""
        if "events" in self._without:
            return [], "", None
        for group, field in zip(EVENTS, ("regarding.kind", "involvedObject.kind"), strict=True):
            path = f"/{group}/namespaces/{space}/events"
            selection = {"fieldSelector": f"{field}={kind}"} if kind else {}
            try:
                listed, cut = await self._reads.all(path, KubernetesEvent, selection=selection)
            except FaultlineError as error:
                unknown = isinstance(error, ConnectorError) and error.status in (400, 404)
                if unknown and group == EVENTS[0]:
                    continue
                self._missing.append(Missing("logs", replayed(path, selection), str(error)))
                return [], "", None
            return listed, replayed(path, selection), cut
        raise AssertionError("the last group is answered or missing")

    async def _list(
        self,
        kind: EvidenceKind,
        path: str,
        type: type[T],
        selection: Mapping[str, str] = NO_SELECTION,
        *,
        names_only: bool = False,
        silent: bool = False,
    ) -> tuple[list[T], str | None] | None:
        if path.rpartition("/")[2] in self._without:
            return None
        try:
            return await self._reads.all(path, type, selection=selection, names_only=names_only)
        except ConnectorError as error:
            # The token is refused: every other list would fail as well.
            if error.status == 401:
                raise
            # What may be absent is asked for silently, so 404 is no gap.
            if not (silent and error.status == 404):
                self._missing.append(Missing(kind, replayed(path, selection), str(error)))
        except FaultlineError as error:
            self._missing.append(Missing(kind, replayed(path, selection), str(error)))
        return None

    def _link_of(self, workload: ObservedWorkload) -> str | None:
        return self._link(workload.ref.namespace, workload.kind, workload.meta.name)

    def _link(self, namespace: str, kind: str, name: str) -> str | None:
        """The object's page of the dashboard that the settings name."""
        if not self._page:
            return None
        replacements = {"{kind}": kind.lower(), "{namespace}": namespace, "{name}": name}
        page = self._page
        for key, value in replacements.items():
            # What has no namespace, as a node, has no such part in its page's address either.
            page = page.replace(key if value else f"{key}/", quote(value, safe=""))
        return page.replace("{name}", "").rstrip("/")


def named_path(resource: str, namespace: str) -> str:
    """Where a resource is listed."""
    groups = {plural: group for group, plural in PATHS.values()}
    return f"/{groups.get(resource, 'apis/apps/v1')}/namespaces/{namespace}/{resource}"


def _add_once(services: list[str], service: str) -> None:
    if service not in services:
        services.append(service)


def _phases(observed_pods: list[pods.ObservedPod]) -> dict[str, str]:
    """How many pods are in which phase."""
    counted: dict[str, int] = {}
    for observed_pod in observed_pods:
        phase = (observed_pod.pod.status.phase if observed_pod.pod.status else None) or "Unknown"
        counted[phase] = counted.get(phase, 0) + 1
    return {f"pods {phase[:40]}": str(n) for phase, n in sorted(counted.items())}
