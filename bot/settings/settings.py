"""The model of the settings: every section with its type, and which may be given several times."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, ClassVar, SupportsIndex

from pydantic import Field, ValidationInfo, create_model, field_validator
from pydantic.fields import FieldInfo

from faultline.bot.settings.alert_sources import (
    IncidentIoSettings,
    ReportedChangesSettings,
    RootlySettings,
    sections_of_alert_sources,
)
from faultline.bot.settings.alerts import AlertSettings, WatchSettings
from faultline.bot.settings.investigation import (
    InvestigationSettings,
    JobSettings,
    ModelSettings,
    RedactionSettings,
    RunbookSettings,
    TrainingSettings,
)
from faultline.bot.settings.people import LoginSettings, PeopleSettings, TeamSettings, claimed_twice
from faultline.bot.settings.processes import (
    HeartbeatSettings,
    RetentionSettings,
    ServerSettings,
    SpoolSettings,
    StoreSettings,
    TelemetrySettings,
    WorkerSettings,
)
from faultline.bot.settings.reply_targets import (
    AnswerWebhookSettings,
    DiscordSettings,
    EmailSettings,
    GitHubIssuesSettings,
    GitHubRevertsSettings,
    GitLabIssuesSettings,
    GitLabRevertsSettings,
    JiraIssuesSettings,
    LinearIssuesSettings,
    MattermostSettings,
    MsTeamsSettings,
    SectionOwner,
    sections_of_reply_targets,
)
from faultline.bot.settings.webhook import WebhookSettings
from faultline.connectors.registry import CONNECTORS, ConnectorSections, plugin_connectors
from faultline.connectors.shared.settings.settings_types import BuiltByNeed, Names, Section, unset
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from faultline.connectors.vendors.alertmanager import AlertmanagerSettings
from faultline.connectors.vendors.aws import AwsSettings
from faultline.connectors.vendors.datadog import DatadogSettings
from faultline.connectors.vendors.pagerduty import PagerDutySettings
from faultline.connectors.vendors.prometheus import PrometheusSettings
from faultline.connectors.vendors.recorded import RecordedSettings
from faultline.connectors.vendors.sentry import SentrySettings
from faultline.connectors.vendors.slack import SlackSettings
from faultline.connectors.vendors.traces import TracesSettings

NAME = r"[A-Za-z0-9]+(?:[-_.][A-Za-z0-9]+)*"
"""A name that can also stand in a variable, between two double underscores."""


class InstanceTable(Section):
    """The keys of an instance beside those of its section."""

    name: str = Field(pattern=f"^{NAME}$", max_length=40)
    """Its name in evidence and gaps."""
    covers: Mapping[str, Names] = Field(default_factory=dict)
    """What it covers: values of labels, such as `cluster`, and `services`. `*` stands for anything.
    Unset: everything."""


INSTANCE_KEYS = tuple(InstanceTable.model_fields)

NAMED_TABLES: Mapping[str, type[Section]] = {
    "services": ServiceSettings,
    "jobs": JobSettings,
    "teams": TeamSettings,
    "watch": WatchSettings,
}
"""Tables with a name of the operator's choice; they come from the file alone and hold no secret."""


class Settings(ConnectorSections):
    """All settings. Each connector brings its own section, see `faultline.connectors.registry`; so
    do alert sources of other packages, see `faultline.bot.settings.alert_sources`."""

    plugin_sections: ClassVar[tuple[str, ...]] = ()
    """The sections that other packages bring."""
    reply_target_plugins: ClassVar[Mapping[str, SectionOwner]] = {}
    """The reply targets among what other packages bring, by section."""

    server: ServerSettings = ServerSettings()
    login: LoginSettings = LoginSettings()
    people: PeopleSettings = PeopleSettings()
    store: StoreSettings = StoreSettings()
    spool: SpoolSettings = SpoolSettings()
    worker: WorkerSettings = WorkerSettings()
    investigation: InvestigationSettings = InvestigationSettings()
    retention: RetentionSettings = RetentionSettings()
    alerts: AlertSettings = AlertSettings()
    changes: ReportedChangesSettings = ReportedChangesSettings()
    redaction: RedactionSettings = RedactionSettings()
    training: TrainingSettings = TrainingSettings()
    runbooks: RunbookSettings = RunbookSettings()
    model: ModelSettings = ModelSettings()
    telemetry: TelemetrySettings = TelemetrySettings()
    heartbeat: HeartbeatSettings = HeartbeatSettings()
    jobs: Mapping[str, JobSettings] = Field(default_factory=dict)
    teams: Mapping[str, TeamSettings] = Field(default_factory=dict)
    watch: Mapping[str, WatchSettings] = Field(default_factory=dict)

    # The sections that the bot itself reads, besides their connectors: named here for their types.
    pagerduty: Annotated[PagerDutySettings, BuiltByNeed()] = unset(PagerDutySettings)
    slack: Annotated[SlackSettings, BuiltByNeed()] = unset(SlackSettings)
    alertmanager: Annotated[AlertmanagerSettings, BuiltByNeed()] = unset(AlertmanagerSettings)
    prometheus: Annotated[PrometheusSettings, BuiltByNeed()] = unset(PrometheusSettings)
    datadog: Annotated[DatadogSettings, BuiltByNeed()] = unset(DatadogSettings)
    aws: Annotated[AwsSettings, BuiltByNeed()] = unset(AwsSettings)
    sentry: Annotated[SentrySettings, BuiltByNeed()] = unset(SentrySettings)
    webhook: Annotated[WebhookSettings, BuiltByNeed()] = unset(WebhookSettings)
    incident_io: Annotated[IncidentIoSettings, BuiltByNeed()] = unset(IncidentIoSettings)
    rootly: Annotated[RootlySettings, BuiltByNeed()] = unset(RootlySettings)
    jira_issues: Annotated[JiraIssuesSettings, BuiltByNeed()] = unset(JiraIssuesSettings)
    linear_issues: Annotated[LinearIssuesSettings, BuiltByNeed()] = unset(LinearIssuesSettings)
    github_issues: Annotated[GitHubIssuesSettings, BuiltByNeed()] = unset(GitHubIssuesSettings)
    gitlab_issues: Annotated[GitLabIssuesSettings, BuiltByNeed()] = unset(GitLabIssuesSettings)
    msteams: Annotated[MsTeamsSettings, BuiltByNeed()] = unset(MsTeamsSettings)
    mattermost: Annotated[MattermostSettings, BuiltByNeed()] = unset(MattermostSettings)
    discord: Annotated[DiscordSettings, BuiltByNeed()] = unset(DiscordSettings)
    answer_webhook: Annotated[AnswerWebhookSettings, BuiltByNeed()] = unset(AnswerWebhookSettings)
    email: Annotated[EmailSettings, BuiltByNeed()] = unset(EmailSettings)
    traces: Annotated[TracesSettings, BuiltByNeed()] = unset(TracesSettings)
    recorded: Annotated[RecordedSettings, BuiltByNeed()] = unset(RecordedSettings)
    github_reverts: Annotated[GitHubRevertsSettings, BuiltByNeed()] = unset(GitHubRevertsSettings)
    gitlab_reverts: Annotated[GitLabRevertsSettings, BuiltByNeed()] = unset(GitLabRevertsSettings)

    @field_validator("teams")
    @classmethod
    def _check_team_claims(
        cls, value: Mapping[str, TeamSettings], info: ValidationInfo
    ) -> Mapping[str, TeamSettings]:
        names: dict[str, str] = {}
        services: Mapping[str, ServiceSettings] = info.data.get("services", {})
        for name, entry in services.items():
            for word in (name, entry.pagerduty_service, *entry.aliases):
                if word:
                    names.setdefault(word.casefold(), name)
        problem = claimed_twice(value, names)
        if problem is not None:
            raise ValueError(problem)
        return value

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """With plug-ins the class is made while loading: another process has to make it too."""
        if not self.plugin_sections:
            return super().__reduce_ex__(protocol)
        return _revived, (self.plugin_sections, self.__getstate__())


@cache
def settings_model(unknown: tuple[str, ...] = ()) -> type[Settings]:
    """`Settings`, with those of the unknown sections that other packages bring: connectors, alert
    sources and reply targets.

    Raises SettingsError for a plug-in that cannot be used.
    """
    connectors = plugin_connectors(unknown)
    sections: dict[str, Any] = {
        name: (connector.settings, ...) for name, connector in connectors.items()
    }
    for name, section in sections_of_alert_sources(set(unknown) - set(sections)).items():
        # Every key of an alert source's section has a default.
        sections[name] = (section, section())
    targets = sections_of_reply_targets(set(unknown) - set(sections))
    for name, target in targets.items():
        sections[name] = (target.settings, ...)
    if not sections:
        return Settings
    model = create_model("Settings", __base__=Settings, __module__=__name__, **sections)
    model.plugins = connectors
    model.reply_target_plugins = targets
    model.plugin_sections = tuple(sections)
    return model


def _revived(plugin_names: tuple[str, ...], state: dict[Any, Any]) -> Settings:
    model = settings_model(plugin_names)
    settings = model.__new__(model)
    settings.__setstate__(state)
    return settings


def sections_in_order(model: type[Settings]) -> list[tuple[str, FieldInfo]]:
    """Every section as people look for it: the bot's own, those of connectors, tables with
    names."""

    def place(section: tuple[str, FieldInfo]) -> int:
        name, _ = section
        if name in NAMED_TABLES:
            return 2
        return 1 if name in CONNECTORS or name in model.plugins else 0

    return sorted(model.model_fields.items(), key=place)


def sections_that_repeat(model: type[Settings]) -> Mapping[str, type[Section]]:
    """The sections that may be given several times, as `[[section]]`."""
    sections_by_name: dict[str, type[Section]] = {}
    tables = tables_of(model)
    for connector in (*CONNECTORS.values(), *model.plugins.values()):
        section = tables[connector.name]
        # Where a section has such a key itself, a table could not tell the two apart.
        if connector.several and not set(INSTANCE_KEYS) & set(section.model_fields):
            sections_by_name[connector.name] = section
    chats: dict[str, type[Section]] = {
        "msteams": MsTeamsSettings,
        "mattermost": MattermostSettings,
        "discord": DiscordSettings,
        "answer_webhook": AnswerWebhookSettings,
    }
    sections_by_name |= chats
    # The one alert source without a connector that several systems send to.
    sections_by_name["webhook"] = WebhookSettings
    return sections_by_name


def tables_of(model: type[Settings]) -> Mapping[str, type[Section]]:
    """The sections that are one table, without those with names of the operator's choice."""
    tables_by_name: dict[str, type[Section]] = {}
    for name, field in model.model_fields.items():
        table = field.annotation
        if isinstance(table, type) and issubclass(table, Section):
            tables_by_name[name] = table
    return tables_by_name
