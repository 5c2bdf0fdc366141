"""Settings: one TOML file, and secrets from the environment or files that it names alone.

`load_settings` reads `faultline.toml` (or the file named), then the environment:
`FAULTLINE_<SECTION>__<KEY>`, and for secrets also `FAULTLINE_<SECTION>__<KEY>_FILE`, the path of a
file that holds the value, as Docker and Kubernetes mount them. A connector's section may be given
several times (`faultline.bot.settings.instances`). A secret in the file, an unknown key or a wrong
value stops the start with one line naming the key.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, SupportsIndex

from pydantic import (
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo

from faultline.analysis.errors import SettingsError
from faultline.analysis.secrets.redaction import use_rules
from faultline.bot.settings import did_you_mean
from faultline.bot.settings.alert_sources import sections_of_alert_sources
from faultline.bot.settings.alerts import AlertSettings
from faultline.bot.settings.chats import (
    AnswerWebhookSettings,
    DiscordSettings,
    EmailSettings,
    MattermostSettings,
    MsTeamsSettings,
)
from faultline.bot.settings.environment import ENV_PREFIX, sections_of_environment, variables
from faultline.bot.settings.extras import EXTRA_OF_SECTION, refuse_missing
from faultline.bot.settings.incident_webhooks import IncidentIoSettings, RootlySettings
from faultline.bot.settings.instances import (
    INSTANCE_KEYS,
    add_variable,
    instances_of,
    problem_in,
    refuse_secrets,
    take_instances,
)
from faultline.bot.settings.intake import HeartbeatSettings, SpoolSettings
from faultline.bot.settings.jobs import JobSettings, TrainingSettings
from faultline.bot.settings.login import LoginSettings
from faultline.bot.settings.model import ModelSettings
from faultline.bot.settings.people import PeopleSettings
from faultline.bot.settings.redaction import RedactionSettings
from faultline.bot.settings.reply_targets import SectionOwner, sections_of_reply_targets
from faultline.bot.settings.reported_changes import ReportedChangesSettings
from faultline.bot.settings.retention import RetentionSettings
from faultline.bot.settings.runbooks import RunbookSettings
from faultline.bot.settings.slack_workspaces import refuse_unknown_workspaces
from faultline.bot.settings.teams import TeamSettings, claimed_twice
from faultline.bot.settings.telemetry import TelemetrySettings
from faultline.bot.settings.tickets import (
    GitHubIssuesSettings,
    GitHubRevertsSettings,
    GitLabIssuesSettings,
    GitLabRevertsSettings,
    JiraIssuesSettings,
    LinearIssuesSettings,
)
from faultline.bot.settings.watches import WatchSettings, watches_by_name
from faultline.bot.settings.webhook import WebhookSettings
from faultline.connectors.registry import CONNECTORS, ConnectorSections, plugin_connectors
from faultline.connectors.shared.settings.settings_types import (
    BuiltByNeed,
    Location,
    Networks,
    Section,
    Url,
    unset,
)
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

DEFAULT_FILE = "faultline.toml"


class ServerSettings(Section):
    """Where the bot listens, and how others reach it."""

    host: str = "127.0.0.1"
    """Address to listen on. On any other than loopback the pages need `access_token` or a
    `login`."""
    port: int = Field(default=8080, ge=0, le=65535)
    """Port to listen on."""
    public_url: Url = "http://127.0.0.1:8080"
    """Base of the links in replies. Unset: this machine, with `port`."""
    max_body_bytes: int = Field(default=1_048_576, ge=1024)
    """A larger webhook body is refused with 413."""
    connections_per_address: int = Field(default=256, ge=4)
    """Open connections from one address (of IPv6 from one /64). With more, the one that has been
    without a complete request for longest is closed. `trusted_proxies` have no such limit."""
    access_token: SecretStr | None = None
    """Secret. Web pages ask for it. Without it and without a `login`, only this machine can open
    them, and nobody can if `public_url` is not a loopback address, because behind a proxy every
    visitor seems to be this machine."""
    trusted_proxies: Networks = ()
    """Addresses or networks of proxies whose `X-Forwarded-For` is believed. Name the proxies alone:
    every client in a network that stands here can claim any address."""
    drain_s: float = Field(default=0, ge=0, le=600)
    """On SIGTERM, seconds for which `/readyz` answers 503 before the server closes, so that a load
    balancer sends nothing more. Set it to a little more than its health checks take to notice."""

    @model_validator(mode="before")
    @classmethod
    def _is_here(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "public_url" in values:
            return values
        port = str(values.get("port", ""))
        # Port 0 is any free one, which is known only once the server listens.
        has_port = port.isdecimal() and int(port) > 0
        return {**values, "public_url": f"http://127.0.0.1:{port}"} if has_port else values


class StoreSettings(Section):
    """Where durable data is stored."""

    directory: Path = Path(".faultline")
    """Holds the embedded databases and, unless `cases` says otherwise, the case folders."""
    database: SecretStr | None = None
    """`postgresql://...`, from the environment if it holds a password. Unset: embedded SQLite."""
    cases: Location | None = None
    """`s3://bucket/prefix` or a directory for the case folders. Unset: `directory`/cases."""

    @field_validator("database")
    @classmethod
    def _is_postgresql(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith("postgresql://"):
            raise ValueError("must begin with postgresql://")
        return value


class WorkerSettings(Section):
    """The processes that investigate."""

    concurrency: int = Field(default=8, ge=1, le=100)
    """Investigations at once in one worker process."""
    niceness: int = Field(default=10, ge=0, le=19)
    """Added to the worker's nice value, so that webhooks are answered first."""
    polling_interval_s: float = Field(default=0.25, gt=0, le=10)
    """How often a worker looks for new work while there is some, or where nothing tells it of new
    work."""
    grace_s: float = Field(default=20, ge=0, le=3600)
    """On SIGTERM a worker stops taking work and waits up to this many seconds for running work to
    finish. Another worker continues the rest at once. Orchestrators kill after 30 s by default,
    of which the server needs up to 5."""
    trace_processes: int | None = Field(default=None, ge=1, le=256)
    """Traces of large training jobs read at once in one worker process. Unset: one per core."""
    trace_deadline_s: float = Field(default=300, gt=0)
    """A trace that takes longer to read is reported as unreadable, and the other ranks are compared
    without it."""
    trace_memory_mb: int = Field(default=4096, ge=256)
    """Memory for reading one trace. One that needs more is reported as unreadable. A trace of 1 GB
    needs 0.5 GB."""


class InvestigationSettings(Section):
    """Windows and rules of every investigation."""

    incident_minutes: float = Field(default=30, gt=0)
    """How far the incident window reaches back before the alert."""
    incident_hours: float = Field(default=6, gt=0)
    """How far it reaches beyond the alert at most, for alerts that are investigated late."""
    baseline_minutes: float = Field(default=120, gt=0)
    """Length of the baseline window, which ends where the incident window begins. Both are shorter
    where metrics begin later."""
    history_days: int = Field(default=0, ge=0, le=14)
    """Days whose same hours are compared as well, so that what happens every night is discounted.
    Each day adds a window to every query for metrics."""
    join_hours: float = Field(default=12, gt=0)
    """How long a repeat of an open alert joins its investigation."""
    memory_days: float = Field(default=90, ge=0, le=36_500)
    """Age up to which earlier investigations are tested again on a new alert: docs/memory.md. 0:
    none are."""
    learned_calls_days: float = Field(default=30, ge=0, le=36_500)
    """Age up to which calls between services are remembered from earlier investigations, for pairs
    that nothing collected covers: docs/who-calls-whom.md. 0: none are remembered."""


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


def load_settings(file: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Read the settings file (it may be absent unless named) and the environment. Raises
    SettingsError."""
    environ = os.environ if environ is None else environ
    named = environ.get(ENV_PREFIX + "CONFIG")
    chosen = file or (Path(named) if named else None)
    if chosen is None and Path(DEFAULT_FILE).exists():
        chosen = Path(DEFAULT_FILE)
    settings = settings_of(_read_toml(chosen) if chosen else {}, environ)
    refuse_missing({name: _is_set(settings, name) for name in EXTRA_OF_SECTION})
    # Here and not where each process begins, so that no command runs without them.
    use_rules(settings.redaction.as_rules)
    return settings


def _is_set(settings: Settings, section: str) -> bool:
    section_settings = getattr(settings, section)
    return bool(settings.instances(section)) or section_settings != unset(type(section_settings))


def settings_of(values: dict[str, Any], environ: Mapping[str, str]) -> Settings:
    """Settings of what the file holds and of the environment. Raises SettingsError."""
    sections = {*values, *sections_of_environment(environ)}
    # Sorted, because the model is cached by this tuple.
    model = settings_model(tuple(sorted(sections - set(Settings.model_fields))))
    tables = {name: table for name, table in _tables_of(model).items() if name not in NAMED_TABLES}
    for name in values:
        if name not in model.model_fields:
            near = did_you_mean.for_section(name, tables, model.model_fields, values[name])
            raise SettingsError(name, "no such section of the settings" + near)
    # Before the validation, which knows watches by name alone.
    watches_by_name(values)
    several = sections_that_repeat(model)
    repeated = take_instances(values, several, model.model_fields)
    for name, table in values.items():
        if name in tables and isinstance(table, dict):
            refuse_secrets(name, table, tables[name])
    for variable in variables(environ, tables, repeated):
        if variable.section in repeated:
            add_variable(variable, repeated[variable.section])
            continue
        if variable.section not in tables:
            near = did_you_mean.suggestion(variable.section, tables)
            raise SettingsError(variable.name, "no such section of the settings" + near)
        # A section may be set by the environment alone.
        table = values.setdefault(variable.section, {})
        if not isinstance(table, dict):
            raise SettingsError(variable.section, "must be a table")
        table[variable.key] = variable.value
    try:
        settings = model.model_validate(values)
    except ValidationError as error:
        # `from None`: the original error quotes values, and secrets may be among them.
        raise problem_in(error, model) from None
    settings = settings.with_instances(instances_of(repeated, several))
    refuse_unknown_workspaces(settings)
    return settings


def sections_that_repeat(model: type[Settings]) -> Mapping[str, type[Section]]:
    """The sections that may be given several times, as `[[section]]`."""
    sections_by_name: dict[str, type[Section]] = {}
    tables = _tables_of(model)
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


def _tables_of(model: type[Settings]) -> Mapping[str, type[Section]]:
    tables_by_name: dict[str, type[Section]] = {}
    for name, field in model.model_fields.items():
        table = field.annotation
        if isinstance(table, type) and issubclass(table, Section):
            tables_by_name[name] = table
    return tables_by_name


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(
            str(path), f"the settings file cannot be read ({error.strerror})"
        ) from error
    except UnicodeDecodeError as error:
        raise SettingsError(str(path), "is not UTF-8 text") from error
    except RecursionError:
        raise SettingsError(str(path), "nested too deeply") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(str(path), f"is not valid TOML: {error}") from error
