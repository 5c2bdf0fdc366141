"""The lists of one collection: workloads with their pods and revisions, then their namespaces, then
their nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import quote

import polars as pl

from analysis.case.tables import SCHEMAS
from analysis.errors import ConnectorError, FaultlineError
from analysis.vocabulary import EvidenceKind, Scope, Window
from connectors.base import Collected, Item, Missing
from connectors.evidence_rows import ChangeRow, LogRow
from connectors.kubernetes import events, pods, rollouts
from connectors.kubernetes.answers import (
    ControllerRevision,
    KubernetesEvent,
    Named,
    Node,
    Pod,
    Scaler,
    Workload,
)
from connectors.kubernetes.pod_templates import config_maps_of
from connectors.kubernetes.session import NO_SELECTION, ObjectLists, replayed
from connectors.kubernetes.state_inquiry import StateInquiry
from connectors.kubernetes.state_rows import NamespaceContents
from connectors.kubernetes.workloads import PATHS, FoundWorkload, Ref, of_job

T = TypeVar("T")

EVENTS = ("apis/events.k8s.io/v1", "api/v1")
"""The newer group, then the older one for servers that do not know it."""
AUTOSCALERS = "apis/autoscaling/v2"
LOOKBACK = timedelta(hours=24)
"""Rollouts are read from that long before the earliest window: one may take a day to do harm."""
SKEW = timedelta(minutes=1)
MOST_PODS, MOST_NODES = 500, 20
_SELECTED = ("Deployment", "StatefulSet", "DaemonSet", "Job")


class ClusterInquiry:
    """One collection. Rows come together in `tables`; a list that cannot be read is in
    `missing`."""

    def __init__(self, reads: ObjectLists, scope: Scope, page: str | None) -> None:
        start = scope.events_from - SKEW
        self._window = Window(start=start, end=scope.incident.end + SKEW)
        self._changes = Window(start=start - LOOKBACK, end=scope.incident.end + SKEW)
        self._scope = scope
        self._reads = reads
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
        self._found: list[FoundWorkload] = []
        self._revisions: list[tuple[FoundWorkload, list[Any]]] = []
        self._pods: dict[tuple[str, str], pods.ObservedPod] = {}
        self._objects: dict[tuple[str, str, str], str] = {}
        self._events_of: dict[str, list[KubernetesEvent]] = {}
        self._scalers_of: dict[str, list[Scaler]] = {}
        self._nodes: list[Node] = []

    def collected(self) -> Collected:
        """Everything that was brought."""
        tables = {}
        for name, rows in self._tables.items():
            each_once = list(dict.fromkeys(rows))
            tables[name] = pl.DataFrame(each_once, schema=SCHEMAS[name].columns, orient="row")
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
        found = await self._workloads(ref, ref.kind, selection)
        if found is None:
            return
        await asyncio.gather(*(self._pods_and_revisions(one) for one in found if one.selector))
        # A name that was only guessed from the service's says nothing by not being there.
        if not found and not ref.guessed:
            query = replayed(named_path(PATHS[ref.kind][1], ref.namespace), selection)
            self._missing.append(Missing("monitors", query, f"there is no {ref.label}"))

    async def _workloads_by_label(self, ref: Ref) -> None:
        selection = {"labelSelector": ref.selector}
        lists = await asyncio.gather(*(self._workloads(ref, kind, selection) for kind in _SELECTED))
        found = [one for listed in lists for one in listed or ()]
        calls = [self._pods_and_revisions(one) for one in found if one.selector]
        if ref.selector:
            # Pods may carry the label without a workload that does.
            calls.append(self._list_pods(ref, selection))
        await asyncio.gather(*calls)

    async def _workloads(
        self, ref: Ref, kind: str, selection: dict[str, str]
    ) -> list[FoundWorkload] | None:
        path = named_path(PATHS[kind][1], ref.namespace)
        listed = await self._list("changes", path, Workload, selection, silent=ref.guessed)
        if listed is None:
            return None
        found = [FoundWorkload(ref, kind, one) for one in listed[0]]
        for one in found:
            self._objects[ref.namespace, kind, one.meta.name] = ref.service
            self._tables["changes"] += rollouts.scaled_by_hand(
                one, self._link(ref.namespace, kind, one.meta.name), self._window
            )
        self._found += found
        return found

    async def _pods_and_revisions(self, found: FoundWorkload) -> None:
        listing = self._list_pods(found.ref, {"labelSelector": found.selector}, found)
        if found.kind == "Job":
            await listing
            return
        if found.kind == "Deployment":
            history = self._history(found, "replicasets", Workload)
        else:
            history = self._history(found, "controllerrevisions", ControllerRevision)
        await asyncio.gather(listing, history)

    async def _history(self, found: FoundWorkload, resource: str, type: type[Any]) -> None:
        path = named_path(resource, found.ref.namespace)
        listed = await self._list("changes", path, type, {"labelSelector": found.selector})
        if listed is None:
            return
        revisions, cut = listed
        for one in revisions:
            if resource == "replicasets" and one.metadata.owned_by("Deployment", found.meta.name):
                key = (found.ref.namespace, "ReplicaSet", one.metadata.name)
                self._objects[key] = found.ref.service
        self._revisions.append((found, revisions))
        query = replayed(path, {"labelSelector": found.selector})
        link = self._link_of(found)
        count = len(revisions)
        self._items.append(Item("changes", query, self._changes, link, rows=count, cut=cut))

    async def _list_pods(
        self, ref: Ref, selection: dict[str, str], found: FoundWorkload | None = None
    ) -> None:
        path = named_path("pods", ref.namespace)
        silent = ref.guessed and ref.kind == "Pod"
        listed = await self._list("monitors", path, Pod, selection, silent=silent)
        if listed is None:
            return
        if found is not None:
            link = self._link_of(found)
        else:
            link = self._link(ref.namespace, ref.kind or "Pod", ref.name)
        self._take(ref, listed[0], listed[1], replayed(path, selection), link)

    async def _training(self, ref: Ref) -> None:
        """A training job's pods, by their names or by the label of their job."""
        path = named_path("pods", ref.namespace)
        listed = await self._list("monitors", path, Pod)
        if listed is not None:
            own = [pod for pod in listed[0] if of_job(pod.metadata, ref.patterns)]
            self._take(ref, own, listed[1], replayed(path), self._link(ref.namespace, "Pod", ""))

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
        for one in new:
            self._pods[ref.namespace, one.pod.metadata.name] = one
            self._objects[ref.namespace, "Pod", one.pod.metadata.name] = one.service
            self._add_logs(pods.pod_logs(one))
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
        self._items.append(item)

    def _add_logs(self, rows: Iterable[LogRow]) -> None:
        """The rows that lie in the window."""
        for row in rows:
            if self._window.start <= row.time <= self._window.end:
                self._tables["logs"].append(row)

    def _add_states(self, states: Iterable[tuple[Any, ...]], link: str | None) -> None:
        self._tables["monitors"] += [(*state[:4], link) for state in states]

    async def namespace(self, space: str) -> None:
        """A namespace's events, autoscalers and config maps, as far as they are about the workloads
        that were found."""
        path = f"/{AUTOSCALERS}/namespaces/{space}/horizontalpodautoscalers"
        (found, query, cut), scalers, _ = await asyncio.gather(
            self._events(space), self._list("changes", path, Scaler), self._config_maps(space)
        )
        self._events_of[space] = found
        self._scalers_of[space] = scalers[0] if scalers else []
        scaled = self._scaled(space, self._scalers_of[space], found)
        self._rollouts(space, events.scaled_up(found))
        before = len(self._tables["logs"])
        for event in found:
            service = events.service_of(event, self._objects)
            if service is not None:
                self._tables["logs"] += events.log_rows(event, (service,), self._window)
        rows = len(self._tables["logs"]) - before
        if query:
            link = self._link(space, "Event", "")
            self._items.append(Item("logs", query, self._window, link, rows=rows, cut=cut))
        if scalers is not None:
            query, cut = replayed(path), scalers[1]
            self._items.append(Item("changes", query, self._window, None, rows=scaled, cut=cut))

    def _scaled(
        self, space: str, scalers: Iterable[Scaler], found: Iterable[KubernetesEvent]
    ) -> int:
        """Add what autoscalers did, by their events; by their state where the event is gone."""
        ours = self._our_scalers(space, scalers)
        rows: list[ChangeRow] = []
        with_events: set[str | None] = set()
        for event in found:
            service = events.service_of(event, self._objects)
            if not service:
                continue
            link = self._scaler_link(space, event.about.name)
            row = events.scale_row(event, service, link, self._window)
            if row is not None:
                rows.append(row)
                with_events.add(event.about.name)
        for scaler, service in ours:
            name = scaler.metadata.name
            if name in with_events:
                continue
            row = events.scaler_row(scaler, service, self._scaler_link(space, name), self._window)
            if row is not None:
                rows.append(row)
        self._tables["changes"] += rows
        return len(rows)

    def _our_scalers(self, space: str, scalers: Iterable[Scaler]) -> list[tuple[Scaler, str]]:
        """The autoscalers of workloads that were found, with the service."""
        ours = []
        for scaler in scalers:
            target = scaler.spec.scale_target_ref if scaler.spec else None
            if target is None:
                continue
            service = self._objects.get((space, target.kind or "", target.name or ""))
            if service is not None:
                self._objects[space, "HorizontalPodAutoscaler", scaler.metadata.name] = service
                ours.append((scaler, service))
        return ours

    def _rollouts(self, space: str, scaled_up: dict[str, Any]) -> None:
        for found, listed in self._revisions:
            if found.ref.namespace != space:
                continue
            if found.kind == "Deployment":
                revisions = rollouts.deployment_revisions(found, listed, scaled_up)
            else:
                revisions = rollouts.controller_revisions(found, listed)
            link = self._link_of(found)
            self._tables["changes"] += rollouts.rollout_rows(found, revisions, link, self._changes)

    async def _config_maps(self, space: str) -> None:
        """When the config maps that the workloads read were written. Their content is not asked
        for."""
        services = self._services_by_config_map(space)
        if not services:
            return
        path = f"/api/v1/namespaces/{space}/configmaps"
        listed = await self._list("changes", path, Named, names_only=True)
        if listed is not None:
            rows = rollouts.config_rows(listed[0], services, space, self._changes)
            self._tables["changes"] += rows
            query, cut = replayed(path), listed[1]
            item = Item("changes", query, self._changes, None, rows=len(rows), cut=cut)
            self._items.append(item)

    def _services_by_config_map(self, space: str) -> dict[str, list[str]]:
        services: dict[str, list[str]] = {}
        for one in self._found:
            spec = one.object.spec
            if one.ref.namespace != space or spec is None:
                continue
            for name in config_maps_of(spec.template):
                _add_once(services.setdefault(name, []), one.ref.service)
        return services

    async def nodes(self) -> None:
        """Conditions and events of the nodes that the pods run on."""
        on: dict[str, list[str]] = {}
        for seen in self._pods.values():
            if seen.pod.node:
                _add_once(on.setdefault(seen.pod.node, []), seen.service)
        if not on:
            return
        names = list(on)[:MOST_NODES]
        left_out = len(on) - MOST_NODES
        cut = f"{left_out} of {len(on)} nodes left out" if left_out > 0 else None
        (found, query, events_cut), listed = await asyncio.gather(
            self._events("default", kind="Node"),
            asyncio.gather(*(self._node(name, on[name]) for name in names)),
        )
        rows = []
        for event in found:
            rows += events.log_rows(event, on.get(event.about.name or "", ()), self._window)
        self._tables["logs"] += rows
        if query:
            item = Item("logs", query, self._window, None, rows=len(rows), cut=events_cut)
            self._items.append(item)
        counts = [count for count in listed if count is not None]
        if counts:
            query = replayed("/api/v1/nodes")
            link = self._link("", "Node", names[0])
            item = Item("monitors", query, self._window, link, rows=sum(counts), cut=cut)
            self._items.append(item)

    async def _node(self, name: str, services: list[str]) -> int | None:
        listed = await self._list(
            "monitors", "/api/v1/nodes", Node, {"fieldSelector": f"metadata.name={name}"}
        )
        if listed is None:
            return None
        states: list[tuple[Any, ...]] = []
        for node in listed[0]:
            self._nodes.append(node)
            states += pods.node_states(node, services)
            self._add_logs(pods.node_logs(node, services))
        self._add_states(states, self._link("", "Node", name))
        return len(states)

    async def states(self) -> None:
        """What the objects around the workloads show by themselves; asked once all else is
        known."""
        spaces = {space for space, _ in self._pods} | {one.ref.namespace for one in self._found}
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

    def _contents(self, space: str) -> NamespaceContents:
        pods_there = {}
        for (namespace, name), one in self._pods.items():
            if namespace == space:
                pods_there[name] = (one.service, one.pod)
        services = {}
        for (namespace, kind, name), service in self._objects.items():
            if namespace == space:
                services[kind, name] = service
        return NamespaceContents(
            name=space,
            pods=pods_there,
            workloads=[one for one in self._found if one.ref.namespace == space],
            services=services,
            events=self._events_of.get(space, ()),
            calls=self._scope.calls,
            end=self._scope.incident.end,
        )

    async def _events(
        self, space: str, kind: str = ""
    ) -> tuple[list[KubernetesEvent], str, str | None]:
        """A namespace's events, by the older group where the server does not know the newer one."""
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
        try:
            return await self._reads.all(path, type, selection=selection, names_only=names_only)
        except ConnectorError as error:
            if error.status == 401:
                raise
            if not (silent and error.status == 404):
                self._missing.append(Missing(kind, replayed(path, selection), str(error)))
        except FaultlineError as error:
            self._missing.append(Missing(kind, replayed(path, selection), str(error)))
        return None

    def _link_of(self, found: FoundWorkload) -> str | None:
        return self._link(found.ref.namespace, found.kind, found.meta.name)

    def _scaler_link(self, space: str, name: str | None) -> str | None:
        return self._link(space, "HorizontalPodAutoscaler", name or "")

    def _link(self, namespace: str, kind: str, name: str) -> str | None:
        """The object's page of the dashboard that the settings name."""
        if not self._page:
            return None
        given = {"{kind}": kind.lower(), "{namespace}": namespace, "{name}": name}
        page = self._page
        for key, value in given.items():
            page = page.replace(key, quote(value, safe=""))
        return page


def named_path(resource: str, namespace: str) -> str:
    """Where a resource is listed."""
    groups = {plural: group for group, plural in PATHS.values()}
    return f"/{groups.get(resource, 'apis/apps/v1')}/namespaces/{namespace}/{resource}"


def _add_once(services: list[str], service: str) -> None:
    if service not in services:
        services.append(service)


def _phases(seen: list[pods.ObservedPod]) -> dict[str, str]:
    """How many pods are in which phase."""
    counted: dict[str, int] = {}
    for one in seen:
        phase = (one.pod.status.phase if one.pod.status else None) or "Unknown"
        counted[phase] = counted.get(phase, 0) + 1
    return {f"pods {phase[:40]}": str(n) for phase, n in sorted(counted.items())}
