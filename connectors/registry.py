"""All connectors: one line each. Adding one is one new file with a `build`, and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connectors import alertmanager, recorded
from connectors.aws import connector as aws
from connectors.azure import connector as azure_monitor
from connectors.base import Connector
from connectors.datadog import connector as datadog
from connectors.github import connector as github
from connectors.gitlab import connector as gitlab
from connectors.grafana import connector as grafana
from connectors.jaeger import connector as jaeger
from connectors.kubernetes import connector as kubernetes
from connectors.loki import connector as loki
from connectors.pagerduty import connector as pagerduty
from connectors.prometheus import connector as prometheus
from connectors.sentry import connector as sentry
from connectors.slack import connector as slack
from connectors.tempo import connector as tempo
from connectors.traces import connector as training_traces
from connectors.wandb import connector as wandb

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
