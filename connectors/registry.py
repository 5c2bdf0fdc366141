"""All connectors: one line each. Adding one is one new file with a `build`, and one line here.

A connector's module is imported when its section of the settings holds something: importing all of
them takes longer than starting the bot with two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from connectors.base import Connector


@dataclass(frozen=True)
class Builder:
    """Builds one connector from the settings: None where it is not configured."""

    module: str
    sections: tuple[str, ...]
    """Sections of the settings; where all are empty the connector is not configured."""

    def __call__(self, settings: Any) -> Connector | None:
        """The connector. Raises SettingsError naming the key."""
        if not any(_filled(getattr(settings, section)) for section in self.sections):
            return None
        build: Callable[[Any], Connector | None] = import_module(self.module).build
        return build(settings)


CONNECTORS: Mapping[str, Builder] = {
    "recorded": Builder("connectors.recorded", ("recorded",)),
    "prometheus": Builder("connectors.prometheus.connector", ("prometheus",)),
    "alertmanager": Builder("connectors.alertmanager", ("alertmanager",)),
    "loki": Builder("connectors.loki.connector", ("loki",)),
    "tempo": Builder("connectors.tempo.connector", ("tempo",)),
    "jaeger": Builder("connectors.jaeger.connector", ("jaeger",)),
    "grafana": Builder("connectors.grafana.connector", ("grafana",)),
    "datadog": Builder("connectors.datadog.connector", ("datadog",)),
    "aws": Builder("connectors.aws.connector", ("aws",)),
    "pagerduty": Builder("connectors.pagerduty.connector", ("pagerduty",)),
    "wandb": Builder("connectors.wandb.connector", ("wandb",)),
    "sentry": Builder("connectors.sentry.connector", ("sentry",)),
    "azure_monitor": Builder("connectors.azure.connector", ("azure_monitor",)),
    "github": Builder("connectors.github.connector", ("github",)),
    "gitlab": Builder("connectors.gitlab.connector", ("gitlab",)),
    "kubernetes": Builder("connectors.kubernetes.connector", ("kubernetes",)),
    "slack": Builder("connectors.slack.connector", ("slack",)),
    "traces": Builder("connectors.traces.connector", ("traces", "jobs")),
}
"""Name, as of its settings section, to builder."""


def build_connectors(settings: Any) -> tuple[Connector, ...]:
    """The configured connectors, in the order above. Raises SettingsError naming the key."""
    return tuple(c for build in CONNECTORS.values() if (c := build(settings)) is not None)


def _filled(section: Any) -> bool:
    """Whether a section of the settings differs from its defaults."""
    return bool(section) if isinstance(section, Mapping) else section != type(section)()
