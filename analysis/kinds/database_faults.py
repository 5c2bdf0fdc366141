"""Databases of a cloud."""

from __future__ import annotations

from analysis.kinds.state_fault import Depth, state_fault

DATABASES = (
    state_fault(
        "database_storage_full",
        0.97,
        Depth.SETTING,
        "is out of storage",
        "{object} is out of storage: {value}",
        less="{object} is out of storage",
        step="Give {subject} more storage, and find out what filled it.",
    ),
    state_fault(
        "database_unavailable",
        0.95,
        Depth.SETTING,
        "is not available",
        "{object} is not available: its status is {value}",
        less="{object} is not available",
        step="Read the events of {subject}, and start or restore it.",
    ),
    state_fault(
        "database_failed_over",
        0.9,
        Depth.SETTING,
        "failed over",
        "{object} failed over: {value}",
        less="{object} failed over",
        step="Check that clients of {subject} reconnect to the new writer, and why the old one "
        "failed.",
    ),
    state_fault(
        "database_restarted",
        0.85,
        Depth.SETTING,
        "was restarted",
        "{object} was restarted: {value}",
        less="{object} was restarted",
        step="Find out who or what restarted {subject}, and whether its clients reconnected.",
    ),
    state_fault(
        "database_in_maintenance",
        0.7,
        Depth.SETTING,
        "is under maintenance",
        "{object} is under maintenance: {value}",
        less="{object} is under maintenance",
        step="Wait for the maintenance of {subject}, or move its window.",
    ),
    state_fault(
        "database_access_changed",
        0.85,
        Depth.SETTING,
        "had its credentials or security group changed",
        "Access to {object} was changed: {value}",
        less="Access to {object} was changed",
        step="Compare the credentials and security groups of {subject} with what its clients use.",
    ),
    state_fault(
        "database_parameters_pending",
        0.5,
        Depth.SETTING,
        "does not run with the parameters it is set to",
        "{object} does not run with the parameters it is set to: {value}",
        less="{object} does not run with the parameters it is set to",
        step="Compare the parameter group of {subject} before and after, and restart it in a quiet "
        "hour.",
    ),
    state_fault(
        "database_lagging",
        0.75,
        Depth.SETTING,
        "has stopped replicating",
        "{object} has stopped replicating: {value}",
        less="{object} has stopped replicating",
        step="Find out what {subject} waits for, and read from the writer meanwhile.",
    ),
)
