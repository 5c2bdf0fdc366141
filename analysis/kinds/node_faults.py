"""Nodes of a cluster."""

from __future__ import annotations

from faultline.analysis.kinds.state_fault import Depth, state_fault

NODES = (
    state_fault(
        "node_not_ready",
        0.97,
        Depth.SETTING,
        "is not ready",
        "{object} is not ready: {value}",
        less="{object} is not ready",
        step="Drain {subject}, then look at its kubelet, its network and its machine.",
        logged_as=("node_not_ready",),
    ),
    state_fault(
        "node_under_pressure",
        0.9,
        Depth.SETTING,
        "is running out of a resource",
        "{object} has {value}",
        less="{object} is running out of a resource",
        step="Find out what uses up the resource of {subject}, and move pods off it.",
        logged_as=("disk_pressure", "memory_pressure"),
    ),
    state_fault(
        "node_cordoned",
        0.9,
        Depth.SETTING,
        "takes no new pods",
        "{object} takes no new pods: it was cordoned or tainted ({value})",
        less="{object} takes no new pods: it was cordoned or tainted",
        step="Find out who cordoned {subject} and why, and uncordon it if that is over.",
    ),
    state_fault(
        "node_drained",
        0.9,
        Depth.SETTING,
        "is drained",
        "{object} is drained and takes no new jobs: {value}",
        less="{object} is drained and takes no new jobs",
        step="Read why {subject} was drained, and keep the job off it until that is mended.",
    ),
)
