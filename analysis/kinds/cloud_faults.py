"""Machines, node groups and services of a cloud."""

from __future__ import annotations

from faultline.analysis.kinds.state_fault import Depth, state_fault

CLOUD = (
    state_fault(
        "machine_impaired",
        0.9,
        Depth.SETTING,
        "runs on a machine that fails its checks",
        "{object} fails its checks: {value}",
        less="{object} fails its checks",
        step="Replace the machine of {subject}, and read its system log.",
    ),
    state_fault(
        "machine_lost",
        0.85,
        Depth.SETTING,
        "lost a machine",
        "{object} lost a machine: {value}",
        less="{object} lost a machine",
        step="Find out who or what stopped the machine of {subject}, and whether it was replaced.",
    ),
    state_fault(
        "launch_failed",
        0.9,
        Depth.SETTING,
        "cannot start new machines",
        "{object} cannot start a new machine: {value}",
        less="{object} cannot start new machines",
        step="Check the quotas, the launch template and the capacity of the zones of {subject}.",
    ),
    state_fault(
        "node_group_degraded",
        0.85,
        Depth.SETTING,
        "has an unhealthy cluster or node group",
        "{object} is unhealthy: {value}",
        less="{object} is unhealthy",
        step="Repair what the health issue of {subject} names: its roles, subnets, quotas, "
        "templates.",
    ),
    state_fault(
        "provider_incident",
        0.8,
        Depth.SETTING,
        "uses a cloud service with an open incident",
        "{object} is open: {value}",
        less="{object} is open",
        step="Follow the event on the provider's page, and move {subject} to another zone or "
        "region if it can run there.",
    ),
)
