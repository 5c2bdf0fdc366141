"""All connectors: one line each. Adding one is one new file with a `build`, and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connectors import (
    alertmanager,
    aws,
    azure_monitor,
    datadog,
    github,
    gitlab,
    grafana,
    jaeger,
    kubernetes,
    loki,
    pagerduty,
    prometheus,
    recorded,
    sentry,
    slack,
    tempo,
    training_traces,
    wandb,
)
from connectors.base import Connector

CONNECTORS: Mapping[str, Callable[[Any], Connector | None]] = {
    "recorded": recorded.build,
    "prometheus": prometheus.build,
    "alertmanager": alertmanager.build,
    "loki": loki.build,
    "tempo": tempo.build,
    "jaeger": jaeger.build,
    "grafana": grafana.build,
    "datadog": datadog.build,
    "aws": aws.build,
    "pagerduty": pagerduty.build,
    "wandb": wandb.build,
    "sentry": sentry.build,
    "azure_monitor": azure_monitor.build,
    "github": github.build,
    "gitlab": gitlab.build,
    "kubernetes": kubernetes.build,
    "slack": slack.build,
    "traces": training_traces.build,
}
"""Name, as of its settings section, to builder. A builder takes the settings, and gives None where not configured."""


def build_connectors(settings: Any) -> tuple[Connector, ...]:
    """The configured connectors, in the order above. Raises SettingsError naming the key."""
    return tuple(c for build in CONNECTORS.values() if (c := build(settings)) is not None)
