"""What changed in a cluster, as the cluster knows it: rollouts, scalings, written config maps and
secrets, node pools."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from faultline.analysis.case.rounds import REPOSITORY_OF
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import ChangeRow
from faultline.connectors.vendors.kubernetes import events, rollouts
from faultline.connectors.vendors.kubernetes.answers import KubernetesEvent, Named, Node, Scaler
from faultline.connectors.vendors.kubernetes.node_changes import joined_rows, left_rows
from faultline.connectors.vendors.kubernetes.pod_templates import config_maps_of, secrets_of
from faultline.connectors.vendors.kubernetes.replica_changes import neighbour_rows, replica_rows
from faultline.connectors.vendors.kubernetes.rollouts import Revision
from faultline.connectors.vendors.kubernetes.session import replayed
from faultline.connectors.vendors.kubernetes.state_inquiry import ListObjects
from faultline.connectors.vendors.kubernetes.workloads import ObservedWorkload, source_repository

AUTOSCALERS = "apis/autoscaling/v2"
LOOKBACK = timedelta(hours=24)
"""Changes other than rollouts are read from that long before the earliest window: one may take a
day to do harm."""
CONFIGURATION = {"configmaps": ("ConfigMap", config_maps_of), "secrets": ("Secret", secrets_of)}
"""Resource to its kind, and how a pod template names the objects that it reads."""

Link = Callable[[str, str, str], str | None]
"""The page of an object by namespace, kind and name."""


@dataclass
class ChangeInquiry:
    """The changes of one collection."""

    fetch: ListObjects
    link: Link
    around: Window
    """Before and in the incident."""
    objects: dict[tuple[str, str, str], str]
    """Our name of the service by namespace, kind and name of an object; autoscalers are added."""
    with_secrets: bool = False
    rows: list[ChangeRow] = field(default_factory=list)
    workloads: list[ObservedWorkload] = field(default_factory=list)
    _revisions: list[tuple[ObservedWorkload, list[Any]]] = field(default_factory=list)
    _items: list[Item] = field(default_factory=list)
    _listed: list[tuple[Item, frozenset[str]]] = field(default_factory=list)
    """Those of which only the end shows which rows they became, with the services."""

    @property
    def items(self) -> list[Item]:
        """What was listed, once all rows are there."""
        every = list(self._items)
        for item, services in self._listed:
            every.append(item.holding([row for row in self.rows if row.service in services]))
        return every

    @property
    def window(self) -> Window:
        """In which changes are reported."""
        return Window(start=self.around.start - LOOKBACK, end=self.around.end)

    def add_workloads(self, workloads: Sequence[ObservedWorkload]) -> None:
        """Workloads, and who set their replicas."""
        self.workloads += workloads
        for workload in workloads:
            self.rows += rollouts.scaled_by_hand(workload, self._link_of(workload), self.around)

    def add_revisions(
        self, workload: ObservedWorkload, revisions: list[Any], query: str, cut: str | None
    ) -> None:
        """A workload's revisions as they were listed."""
        self._revisions.append((workload, revisions))
        link, count = self._link_of(workload), len(revisions)
        address = source_repository(workload)
        details = {f"{REPOSITORY_OF}{workload.ref.service}": address} if address else {}
        item = Item("changes", query, self.window, link, rows=count, cut=cut, details=details)
        self._listed.append((item, frozenset({workload.ref.service})))

    async def autoscalers(self, space: str) -> list[Scaler]:
        """A namespace's autoscalers."""
        path = f"/{AUTOSCALERS}/namespaces/{space}/horizontalpodautoscalers"
        listed = await self.fetch("changes", path, Scaler)
        if listed is None:
            return []
        ours = self._our_scalers(space, listed[0])
        for scaler, service in ours:
            # Events name the autoscaler: this is how they find the service.
            self.objects[space, "HorizontalPodAutoscaler", scaler.metadata.name] = service
        item = Item("changes", replayed(path), self.around, None, rows=len(ours), cut=listed[1])
        self._listed.append((item, frozenset(service for _, service in ours)))
        return listed[0]

    def _our_scalers(self, space: str, scalers: Iterable[Scaler]) -> list[tuple[Scaler, str]]:
        """The autoscalers of workloads that were found, with the service."""
        ours = []
        for scaler in scalers:
            service = self.objects.get(_target(space, scaler))
            if service is not None:
                ours.append((scaler, service))
        return ours

    def namespace(
        self, space: str, scalers: Sequence[Scaler], kubernetes_events: Sequence[KubernetesEvent]
    ) -> None:
        """Rollouts and scalings, once the namespace's events are known."""
        self._scaled(space, scalers, kubernetes_events)
        scaled_up = events.scaled_up(kubernetes_events)
        automatic = {_target(space, scaler) for scaler in scalers}
        for workload, listed in self._revisions:
            if workload.ref.namespace != space:
                continue
            if workload.kind != "Deployment":
                revisions = rollouts.controller_revisions(workload, listed)
                self._rollouts(workload, revisions)
                continue
            revisions = rollouts.deployment_revisions(workload, listed, scaled_up)
            self._rollouts(workload, revisions)
            # What an autoscaler sets, its own events tell.
            if (space, workload.kind, workload.meta.name) not in automatic:
                self._replicas(workload, revisions, kubernetes_events)
        neighbours: dict[str, list[KubernetesEvent]] = {}
        for event in kubernetes_events:
            key = space, "Deployment", event.about.name or ""
            if event.about.kind == key[1] and key not in automatic and key not in self.objects:
                neighbours.setdefault(key[2], []).append(event)
        self.rows += neighbour_rows(neighbours, space, self.around)

    def _rollouts(self, workload: ObservedWorkload, revisions: Sequence[Revision]) -> None:
        link = self._link_of(workload)
        self.rows += rollouts.rollout_rows(workload, revisions, link, self.around.end)

    def _replicas(
        self,
        workload: ObservedWorkload,
        revisions: Sequence[Revision],
        kubernetes_events: Sequence[KubernetesEvent],
    ) -> None:
        workload_events = [
            event for event in kubernetes_events if event.about.name == workload.meta.name
        ]
        # Known scalings: an event must not repeat them.
        rows = [row for row in self.rows if row.service == workload.ref.service]
        link = self._link_of(workload)
        self.rows += replica_rows(workload, revisions, workload_events, rows, link, self.around)

    def _scaled(
        self, space: str, scalers: Iterable[Scaler], kubernetes_events: Iterable[KubernetesEvent]
    ) -> None:
        """Add what autoscalers did, by their events; by their state where the event is gone."""
        with_events: set[str | None] = set()
        for event in kubernetes_events:
            service = events.service_of(event, self.objects)
            if not service:
                continue
            link = self._scaler_link(space, event.about.name)
            row = events.scale_row(event, service, link, self.around)
            if row is not None:
                self.rows.append(row)
                with_events.add(event.about.name)
        # Events expire, by default after an hour. The autoscaler's state outlives them.
        for scaler, service in self._our_scalers(space, scalers):
            name = scaler.metadata.name
            if name in with_events:
                continue
            row = events.scaler_row(scaler, service, self._scaler_link(space, name), self.around)
            if row is not None:
                self.rows.append(row)

    async def configuration(self, space: str) -> None:
        """When the config maps, and the secrets where that is asked for, that the workloads read
        were written. Their content is not asked for."""
        for resource, (kind, names_of) in CONFIGURATION.items():
            if resource == "secrets" and not self.with_secrets:
                continue
            services = self._readers(space, names_of)
            if not services:
                continue
            path = f"/api/v1/namespaces/{space}/{resource}"
            # Metadata alone: the content of config maps and secrets stays in the cluster.
            listed = await self.fetch("changes", path, Named, names_only=True)
            if listed is None:
                continue
            rows = rollouts.config_rows(kind, listed[0], services, space, self.window)
            self.rows += rows
            query, cut = replayed(path), listed[1]
            item = Item("changes", query, self.window, None, rows=len(rows), cut=cut)
            self._items.append(item.holding(rows))

    def _readers(
        self, space: str, names_of: Callable[[Mapping[str, Any] | None], set[str]]
    ) -> dict[str, list[str]]:
        """The services whose workloads read an object, by its name."""
        services: dict[str, list[str]] = {}
        for workload in self.workloads:
            spec = workload.object.spec
            if workload.ref.namespace != space or spec is None:
                continue
            for name in names_of(spec.template):
                service = services.setdefault(name, [])
                if workload.ref.service not in service:
                    service.append(workload.ref.service)
        return services

    def nodes(
        self,
        nodes: Sequence[Node],
        node_events: Iterable[KubernetesEvent],
        services: Mapping[str, Sequence[str]],
    ) -> None:
        """Nodes that joined or left. `services` are those whose pods run, or ran, on a node."""
        names = [node.metadata.name for node in nodes]
        link = self.link("", "Node", names[0]) if names else None
        self.rows += joined_rows(nodes, services, link, self.window)
        self.rows += left_rows(node_events, services, self.window)

    def _link_of(self, workload: ObservedWorkload) -> str | None:
        return self.link(workload.ref.namespace, workload.kind, workload.meta.name)

    def _scaler_link(self, space: str, name: str | None) -> str | None:
        return self.link(space, "HorizontalPodAutoscaler", name or "")


def _target(space: str, scaler: Scaler) -> tuple[str, str, str]:
    """The workload that an autoscaler scales, as a key of `objects`."""
    target = scaler.spec.scale_target_ref if scaler.spec else None
    if target is None:
        return space, "", ""
    return space, target.kind or "", target.name or ""
