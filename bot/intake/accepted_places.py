"""Where an alert is from, by what its sender covers."""

from __future__ import annotations

from dataclasses import replace

from faultline.bot.policy.values import Arrival
from faultline.connectors.shared.settings.instances import Covers

IDENTITIES = ("fingerprint", "incident_key")
"""Labels by which `Alert.fingerprint` knows an alert again."""


def placed_arrival(arrival: Arrival, covers: Covers) -> Arrival:
    """An alert with the places that its sender covers, where it names none: then only what covers
    the same is asked about it."""
    alert = arrival.alert
    labels = covers.added_to(alert.labels)
    added = [f"{name}={labels[name]}" for name in labels if name not in alert.labels]
    if not added:
        return arrival
    for identity in IDENTITIES:
        if identity in labels:
            # Equal alerts of two clusters are two alerts.
            labels[identity] = " ".join((labels[identity], *sorted(added)))
    return replace(arrival, alert=alert.model_copy(update={"labels": labels}))
