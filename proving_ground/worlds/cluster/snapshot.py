"""The cluster of a world at the time when it is looked at, and who is to blame in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from proving_ground.worlds.cluster import troubles
from proving_ground.worlds.cluster.objects import (
    BY_NAMESPACE,
    STORES,
    ClusterObjects,
    Object,
    object_name,
    time_text,
    well_cluster,
)
from proving_ground.worlds.cluster.troubles import TroubleSpan
from proving_ground.worlds.cluster_faults import CLUSTER_FAULTS
from proving_ground.worlds.graph import UnitKind
from proving_ground.worlds.world import World

HOUR_S, DAY_S = 3600.0, 86400.0
NO_ROOM = "0/9 nodes are available: 9 Insufficient cpu."


@dataclass(frozen=True)
class ClusterSnapshot:
    """Every list of the API by its path; `workloads` names each unit's, as
    "namespace/kind/name"."""

    lists: dict[str, list[Object]]
    workloads: dict[str, str]
    culprit: str | None
    """Whom a fault of the cluster is to blame on; None in worlds without one."""

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"lists": self.lists, "workloads": self.workloads}


def snapshot_of(world: World) -> ClusterSnapshot:
    """The cluster of a world when its incident window ends."""
    rng = world.seed.generator("cluster")
    made = well_cluster(world.graph, world.clock.at(0), rng)
    now_s = world.clock.at(world.window[1])
    _add_oddities(made, world, now_s)
    culprit = None
    fault = world.fault
    if fault is not None and fault.kind.name in CLUSTER_FAULTS:
        span = TroubleSpan(world.clock.at(fault.begins), now_s)
        culprit = _TRACES[fault.kind.name](made, world, span)
    workloads = {}
    for unit in world.graph.units:
        if unit.kind is not UnitKind.EXTERNAL:
            kind = "statefulset" if unit.kind in STORES else "deployment"
            workloads[unit.name] = f"{made.namespace}/{kind}/{object_name(unit.name)}"
    return ClusterSnapshot(_by_path(made), workloads, culprit)


def _by_path(made: ClusterObjects) -> dict[str, list[Object]]:
    lists_by_path: dict[str, list[Object]] = {"/api/v1/nodes": made.nodes}
    for resource, group in BY_NAMESPACE.items():
        path = f"{group}/namespaces/{made.namespace}/{resource}"
        lists_by_path[path] = made.lists.get(resource, [])
    lists_by_path["/api/v1/namespaces"] = [{"metadata": {"name": made.namespace}}]
    lists_by_path["/apis/events.k8s.io/v1/namespaces/default/events"] = []
    return lists_by_path


def _subject(world: World) -> str:
    assert world.fault is not None
    return world.fault.subject(world.graph)


def _some(made: ClusterObjects, unit: str, low: float) -> list[Object]:
    """Most of a unit's pods, at least one."""
    pods = made.pods_of(unit)
    count = max(1, round(len(pods) * float(made.rng.uniform(low, 1.0))))
    return pods[:count]


def _selector(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    troubles.wrong_selector(made, _subject(world), span)
    return _subject(world)


def _port(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    troubles.wrong_port(made, _subject(world), span)
    return _subject(world)


def _policy(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    troubles.closed_policy(made, _subject(world), span)
    return _subject(world)


def _backend(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    troubles.missing_backend(made, _subject(world), span)
    return _subject(world)


def _quota(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    unit = _subject(world)
    troubles.used_up(made, unit, _some(made, unit, 0.6), span)
    return f"namespace/{made.namespace}"


def _unschedulable(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    unit = _subject(world)
    troubles.unplaced(made, unit, _some(made, unit, 0.6), span, NO_ROOM)
    return unit


def _image(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    unit = _subject(world)
    troubles.no_image(made, unit, _some(made, unit, 0.6), span)
    return unit


def _config(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    unit = _subject(world)
    troubles.no_config(made, unit, _some(made, unit, 0.6), span)
    return unit


def _probe(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    unit = _subject(world)
    troubles.wrong_probe(made, unit, _some(made, unit, 0.6), span)
    return unit


def _claim(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    troubles.claim_pending(made, _subject(world), span)
    return _subject(world)


def _scaling(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    troubles.capped(made, _subject(world), span)
    return _subject(world)


def _memory(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    unit = _subject(world)
    troubles.crashes(made, unit, _some(made, unit, 0.5), span, for_memory=True)
    return unit


def _crash(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    unit = _subject(world)
    troubles.crashes(made, unit, _some(made, unit, 0.5), span, for_memory=False)
    return unit


def _lost(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    troubles.lost_node(made, _subject(world), span)
    return _subject(world)


def _pressure(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    troubles.pressed_node(made, _subject(world), span)
    return _subject(world)


def _zone(made: ClusterObjects, world: World, span: TroubleSpan) -> str:
    zone = _subject(world)
    names = [machine.name for machine in world.graph.machines if machine.zone == zone]
    troubles.drained(made, names, span)
    # A zone with one node is no more than that node.
    return zone if len(set(names)) > 1 else names[0]


Traces = Callable[[ClusterObjects, World, TroubleSpan], str]
_TRACES: dict[str, Traces] = {
    "wrong_selector": _selector,
    "wrong_port": _port,
    "network_policy": _policy,
    "missing_backend": _backend,
    "quota_used_up": _quota,
    "unschedulable_pods": _unschedulable,
    "image_missing": _image,
    "config_missing": _config,
    "wrong_probe": _probe,
    "claim_pending": _claim,
    "scaling_capped": _scaling,
    "out_of_memory": _memory,
    "crash_looping": _crash,
    "node_lost": _lost,
    "node_pressure": _pressure,
    "zone_cordoned": _zone,
}


def _add_oddities(made: ClusterObjects, world: World, now_s: float) -> None:
    """Two to six things that are odd and harm nobody: most for days, some that just happened."""
    rng = world.seed.generator("oddities")
    concerned = set() if world.fault is None else world.fault.units_hit(world.graph)
    units = []
    for number, unit in enumerate(world.graph.units):
        if unit.kind in (UnitKind.FRONT, UnitKind.SERVICE) and number not in concerned:
            units.append(unit.name)
    if not units:
        return
    for _ in range(int(rng.integers(2, 7))):
        chosen = str(rng.choice(units))
        oddity = _ODDITIES[int(rng.integers(len(_ODDITIES)))]
        oddity(made, chosen, now_s, rng)


def _days(now_s: float, rng: np.random.Generator) -> TroubleSpan:
    return TroubleSpan(now_s - float(rng.uniform(2, 30)) * DAY_S, now_s)


def _last_healthy_pod(made: ClusterObjects, unit: str) -> list[Object]:
    """The last pod that is well, of a unit that has others."""
    pods = [pod for pod in made.pods_of(unit) if pod["status"]["phase"] == "Running"]
    return pods[-1:] if len(pods) > 1 else []


def _old_crash(made: ClusterObjects, unit: str, now_s: float, rng: np.random.Generator) -> None:
    troubles.crashes(made, unit, _last_healthy_pod(made, unit), _days(now_s, rng), for_memory=False)


def _old_pending(made: ClusterObjects, unit: str, now_s: float, rng: np.random.Generator) -> None:
    troubles.unplaced(made, unit, _last_healthy_pod(made, unit), _days(now_s, rng), NO_ROOM)


def _old_backend(made: ClusterObjects, unit: str, now_s: float, rng: np.random.Generator) -> None:
    if not any(
        ingress["metadata"]["name"] == f"{object_name(unit)}-public"
        for ingress in made.lists.get("ingresses", ())
    ):
        troubles.missing_backend(made, unit, _days(now_s, rng))


def _old_cap(made: ClusterObjects, unit: str, now_s: float, rng: np.random.Generator) -> None:
    troubles.capped(made, unit, _days(now_s, rng))


def _new_cap(made: ClusterObjects, unit: str, now_s: float, rng: np.random.Generator) -> None:
    """At its maximum for a while, which the service bears."""
    troubles.capped(made, unit, TroubleSpan(now_s - float(rng.uniform(0.2, 4)) * HOUR_S, now_s))


def _cordon(made: ClusterObjects, unit: str, now_s: float, rng: np.random.Generator) -> None:
    """A node is taken out of use, and nobody waits for it."""
    name = str(rng.choice([node["metadata"]["name"] for node in made.nodes]))
    troubles.cordoned(made, name, TroubleSpan(now_s - float(rng.uniform(0.5, 40)) * HOUR_S, now_s))


def _single_restart(
    made: ClusterObjects, unit: str, now_s: float, rng: np.random.Generator
) -> None:
    """A container was killed once and runs again since."""
    ended_s = now_s - float(rng.uniform(0.4, 6)) * HOUR_S
    for pod in _last_healthy_pod(made, unit):
        ended = {
            "exitCode": 137,
            "reason": "OOMKilled",
            "finishedAt": time_text(ended_s),
        }
        status = pod["status"].get("containerStatuses", [{}])[0]
        status |= {"restartCount": 1, "lastState": {"terminated": ended}}


def _probe_noise(made: ClusterObjects, unit: str, now_s: float, rng: np.random.Generator) -> None:
    """Probes that fail now and then, all day."""
    for pod in made.pods_of(unit)[:2]:
        note = "Readiness probe failed: context deadline exceeded"
        made.event(
            "Pod",
            pod["metadata"]["name"],
            "Unhealthy",
            note,
            now_s - float(rng.uniform(5, 40)) * HOUR_S,
            now_s - float(rng.uniform(10, 3000)),
            int(rng.integers(3, 60)),
        )


def _strange_port(made: ClusterObjects, unit: str, now_s: float, rng: np.random.Generator) -> None:
    """A Service with a port that its containers do not declare, and serve nevertheless."""
    for service in made.lists["services"]:
        if service["metadata"]["name"] == object_name(unit):
            service["spec"]["ports"].append({"name": "debug", "port": 6060, "targetPort": 6060})


_ODDITIES = (
    _old_crash,
    _old_crash,
    _old_pending,
    _old_backend,
    _old_cap,
    _new_cap,
    _cordon,
    _single_restart,
    _probe_noise,
    _strange_port,
)
