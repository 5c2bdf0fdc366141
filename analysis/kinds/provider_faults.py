"""Providers outside: what their own status pages report."""

from __future__ import annotations

from faultline.analysis.kinds.state_fault import Depth, state_fault

STEP = (
    "Follow the incident on the status page. Until it is over, fail over or switch off what needs "
    "{subject}."
)

PROVIDERS = (
    state_fault(
        "provider_outage",
        0.45,
        Depth.SETTING,
        "reports an outage on its status page",
        "{object} reports an outage: {value}",
        less="{object} reports an outage",
        step=STEP,
    ),
    state_fault(
        "provider_degraded",
        0.3,
        Depth.SETTING,
        "reports a smaller incident on its status page",
        "{object} reports an incident: {value}",
        less="{object} reports an incident",
        step=STEP,
    ),
)
"""A status page speaks for a whole provider, and most of its users notice nothing. That is why both
weigh less than a cloud's own word about one account (`provider_incident`): a service that shows a
fault itself comes first, and a provider only where failing lines name it."""
