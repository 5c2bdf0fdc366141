"""Jobs of a scheduler of batch jobs: how they end other than by their own fault."""

from __future__ import annotations

from faultline.analysis.kinds.state_fault import Depth, state_fault

BATCH = (
    state_fault(
        "job_lost_node",
        0.85,
        Depth.INSTANCE,
        "lost one of its nodes",
        "{object} ended because its node {value} failed",
        less="{object} ended because one of its nodes failed",
        step="Read why the node of {subject} failed, and leave it out when you start the job "
        "again.",
    ),
    state_fault(
        "job_out_of_time",
        0.9,
        Depth.INSTANCE,
        "ran into its time limit",
        "{object} was ended at its time limit of {value}",
        less="{object} was ended at its time limit",
        step="Compare the time limit of {subject} with how long it needs, and resume from its "
        "last checkpoint.",
    ),
    state_fault(
        "job_preempted",
        0.85,
        Depth.SETTING,
        "was preempted by other work",
        "{object} was preempted: {value}",
        less="{object} was preempted",
        step="Find out which work took the place of {subject}, and whether its priority is right.",
    ),
    state_fault(
        "job_cancelled",
        0.8,
        Depth.SETTING,
        "was cancelled",
        "{object} was cancelled by {value}",
        less="{object} was cancelled",
        step="Ask who cancelled {subject} and why.",
    ),
    state_fault(
        "job_suspended",
        0.85,
        Depth.SETTING,
        "is suspended",
        "{object} is suspended: {value}",
        less="{object} is suspended",
        step="Find out who or what suspended {subject}, and resume it.",
    ),
    state_fault(
        "job_requeued",
        0.6,
        Depth.EFFECT,
        "was started again by its scheduler",
        "{object} was started again: {value}",
        less="{object} was started again",
        step="Read why the attempt of {subject} before this one ended.",
    ),
)
