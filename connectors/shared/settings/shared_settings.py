"""The part of the settings that every connector may read: services, training jobs, sections."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from pydantic import Field, PrivateAttr

from faultline.connectors.shared.settings.settings_types import Locations, Names, Section

if TYPE_CHECKING:
    from typing import Self

S = TypeVar("S", bound=Section)


class ServiceAwsSettings(Section):
    """What a service is made of in AWS, for the table `[services.NAME.aws]`:
    docs/connectors/aws.md."""

    account: str | None = None
    """The account's `name`. Unset: all accounts are looked at."""
    region: str | None = None
    """Unset: all regions of the account."""
    ecs: Names = ()
    """`cluster/service`."""
    target_groups: Names = ()
    """`targetgroup/name/0123456789abcdef`, as in the metrics of its load balancer."""
    lambdas: Names = ()
    """Names of functions."""
    databases: Names = ()
    """Identifiers of RDS instances."""
    queues: Names = ()
    """Names of SQS queues."""
    apis: Names = ()
    """API Gateway: names of REST APIs, ids of HTTP APIs."""
    tables: Names = ()
    """Names of DynamoDB tables."""
    caches: Names = ()
    """Ids of ElastiCache clusters, those of a replication group one by one (`cart-001`)."""
    auto_scaling_groups: Names = ()
    """Names of EC2 Auto Scaling groups."""
    instances: Names = ()
    """Ids of EC2 instances outside such groups."""
    streams: Names = ()
    """Names of Kinesis data streams."""
    state_machines: Names = ()
    """ARNs of Step Functions state machines."""
    nat_gateways: Names = ()
    """Ids of the NAT gateways that it leaves its network by."""
    db_clusters: Names = ()
    """Identifiers of Aurora clusters."""
    eks_clusters: Names = ()
    """Names of the EKS clusters that it runs in."""
    codedeploy: Names = ()
    """`application/deployment-group`."""
    log_groups: Names = ()
    """Log groups beside those of its functions and tasks."""
    xray: Names = ()
    """Its names in X-Ray, if others than its own and its aliases."""


class ServiceSettings(Section):
    """One entry of the service catalogue."""

    aliases: Names = ()
    """Other names alerts use for it."""
    depends_on: Names = ()
    """Services it calls. They are investigated too."""
    slack_channel: str | None = None
    """Channel id for replies about this service, instead of `slack.channel`. With several
    workspaces `NAME:ID`."""
    slo_objective: float | None = Field(default=None, ge=50, lt=100)
    """The share of good requests it promises, in percent, such as 99.9. The impact then includes
    its error budget."""
    training_job: str | None = None
    """Name of the training job it runs, as in `traces.locations`."""
    pagerduty_service: str | None = None
    """Its id or name in PagerDuty, if another."""
    datadog_service: str | None = None
    """Its name in Datadog, if another."""
    aws: ServiceAwsSettings | None = None
    """Its resources in AWS, as a table: docs/connectors/aws.md."""
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
    """Other names that alerts use for it. `*` stands for anything."""
    pods: Names = ()
    """Its pods, for alerts that only name a pod. `*` stands for anything."""
    traces: Locations = ()
    """Where its profiler traces, memory snapshots and telemetry are written."""
    dumps: Locations = ()
    """Where its flight-recorder dumps are written, with any name that ends with the rank."""
    logs: Locations = ()
    """Where its logs are written."""


class PluginConnector(Protocol):
    """What settings know about a connector of another package: see
    `faultline.connectors.shared.contract.connector_type.ConnectorType`."""

    @property
    def name(self) -> str:
        """The name of its section."""

    @property
    def several(self) -> bool:
        """Whether its section can be given several times."""

    def is_set(self, settings: SharedSettings) -> bool:
        """Whether anything in the settings is for it."""


class SharedSettings(Section):
    """The service catalogue, the training jobs, and one section for each connector."""

    plugins: ClassVar[Mapping[str, PluginConnector]] = {}
    """Connectors of other packages that have a section in these settings, by section."""

    services: Mapping[str, ServiceSettings] = Field(default_factory=dict)
    jobs: Mapping[str, JobLocations] = Field(default_factory=dict)

    _repeated: Mapping[str, tuple[Section, ...]] = PrivateAttr(default_factory=dict)
    """The tables of each `[[section]]`. The section's field then has its defaults: it names no
    server."""

    def section(self, of: type[S]) -> S:
        """The section of that type, with its defaults where the settings have none."""
        for name in type(self).model_fields:
            value = getattr(self, name)
            if type(value) is of:
                return value
        return of()

    def instances(self, section: str) -> tuple[Section, ...]:
        """Every table of a section. Each says which it is by its `instance`, also a single one."""
        single = getattr(self, section, None)
        return self._repeated.get(section) or ((single,) if isinstance(single, Section) else ())

    def per_instance(self, section: str) -> tuple[Self, ...]:
        """These settings as each instance of a section sees them: with its table as the section."""
        tables = self.instances(section)
        return tuple(self.model_copy(update={section: table}) for table in tables) or (self,)

    def with_instances(self, tables: Mapping[str, tuple[Section, ...]]) -> Self:
        """These settings with the tables of sections that were given several times."""
        # The settings are frozen, so what is private is set on a copy.
        copy = self.model_copy()
        copy._repeated = dict(tables)
        return copy
