"""The part of the settings that every connector may read: services, training jobs, sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import Field

from connectors.aws.settings import ServiceAwsSettings
from connectors.settings_types import Locations, Names, Section

if TYPE_CHECKING:
    from connectors.connector_type import ConnectorType

S = TypeVar("S", bound=Section)


class ServiceSettings(Section):
    """One entry of the service catalogue."""

    aliases: Names = ()
    """Other names alerts use for it."""
    depends_on: Names = ()
    """Services it calls; they are looked at too."""
    slack_channel: str | None = None
    """Channel id for replies about this service, instead of `slack.channel`."""
    slo_objective: float | None = Field(default=None, ge=50, lt=100)
    """The share of good requests it promises, in percent: 99.9. Then the impact tells its error
    budget."""
    training_job: str | None = None
    """Name of the training job it runs, as in `traces.locations`."""
    pagerduty_service: str | None = None
    """Its id or name in PagerDuty, if another."""
    datadog_service: str | None = None
    """Its name in Datadog, if another."""
    aws: ServiceAwsSettings | None = None
    """What it is made of in AWS, as a table of its own: docs/connectors/aws.md."""
    github_repository: Names = ()
    """Its repositories at GitHub, each `owner/repository`."""
    gitlab_project: Names = ()
    """Its projects at GitLab, each `group/project` or a number."""
    sentry_project: str | None = None
    """The slug or id of its project in Sentry."""
    kubernetes: Names = ()
    """Its workloads in Kubernetes, a list of `namespace/kind/name` and `namespace/label=value`."""
    azure_role_name: str | None = None
    """Its role's name in Application Insights (`cloud_RoleName`), if another."""


class JobLocations(Section):
    """How a training job is recognised, and where its files lie."""

    aliases: Names = ()
    """Other names that alerts use for it; `*` stands for anything."""
    pods: Names = ()
    """Its pods, for alerts that name a pod only; `*` stands for anything."""
    traces: Locations = ()
    """Where its profiler traces, memory snapshots and telemetry come to lie."""
    dumps: Locations = ()
    """Where its flight-recorder dumps come to lie, under any name that ends with the rank."""
    logs: Locations = ()
    """Where its logs come to lie."""


class SharedSettings(Section):
    """The service catalogue, the training jobs, and one section for each connector."""

    plugins: ClassVar[Mapping[str, ConnectorType[Any]]] = {}
    """Connectors of other packages that have a section in these settings, by section."""

    services: Mapping[str, ServiceSettings] = Field(default_factory=dict)
    jobs: Mapping[str, JobLocations] = Field(default_factory=dict)

    def section(self, of: type[S]) -> S:
        """The section of that type, with its defaults where the settings have none."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if type(value) is of:
                return value
        return of()
