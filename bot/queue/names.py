"""What the engine's queues and workflows are called, and the version kept with their work."""

from __future__ import annotations

INVESTIGATIONS = "investigations"
URGENT_INVESTIGATIONS = "investigations-urgent"
WORKFLOW_INVESTIGATE = "investigate"
WORKFLOW_REPLY = "reply"
APPLICATION = "faultline"
APPLICATION_VERSION = "1"
"""Pinned: DBOS's default is a hash of the source, which strands running work at every upgrade.
Raise it only when a change to a workflow's steps makes half-done work of the older version
unreadable."""


def reply_queue(place: str) -> str:
    """The queue of one place's replies: a place that is down keeps no other's waiting."""
    return f"replies-{place}"
