"""The faults that objects' own states show: one entry per fact that a connector may report.

They stand by owner in the files beside: routing, workloads, batch jobs, resources, nodes,
databases, the cloud, providers outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from faultline.analysis.kinds.cluster_faults import (
    ENDS,
    LIMITS,
    NODES,
    PLACING,
    PROBES,
    ROUTES,
    SCALING,
    STARTS,
    VOLUMES,
)
from faultline.analysis.kinds.service_faults import BATCH, CLOUD, DATABASES, PROVIDERS, SATURATION
from faultline.analysis.kinds.state_fault import StateFault

FAMILIES: Mapping[str, tuple[StateFault, ...]] = {
    "route_state": ROUTES,
    "start_state": STARTS,
    "end_state": (*ENDS, *BATCH),
    "probe_state": PROBES,
    "placing_state": PLACING,
    "limit_state": LIMITS,
    "saturation_state": SATURATION,
    "volume_state": VOLUMES,
    "scaling_state": SCALING,
    "node_state": NODES,
    "database_state": DATABASES,
    "cloud_state": CLOUD,
    "provider_state": PROVIDERS,
}
"""By the kind of finding that tells of them."""


def _by_name(families: Iterable[tuple[StateFault, ...]]) -> dict[str, StateFault]:
    state_faults: dict[str, StateFault] = {}
    for facts in families:
        for fact in facts:
            state_faults[fact.name] = fact
    return state_faults


STATE_FAULTS: Mapping[str, StateFault] = _by_name(FAMILIES.values())
FAMILY_OF: Mapping[str, str] = {
    fact.name: family for family, facts in FAMILIES.items() for fact in facts
}
OF_NODES = frozenset(fact.name for fact in NODES)
OF_PROVIDERS = frozenset(fact.name for fact in PROVIDERS)
RESOLVER_FAILING = "name_resolution_failing"
"""Its subject is whoever serves names to the affected services."""
OF_USERS = frozenset({"takes_over_database"})
"""Their subject uses what the affected service is, such as a job a database."""
OF_NAMESPACES = frozenset(fact.name for fact in LIMITS)
"""Their subject is the namespace, whichever service is refused."""
