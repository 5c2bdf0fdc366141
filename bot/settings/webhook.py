"""Settings of the generic webhook: where in anybody's JSON an alert's fields stand."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pydantic import Field, field_validator, model_validator

from faultline.connectors.shared.rows.expressions import Expression
from faultline.connectors.shared.settings.settings_types import Names, Secrets, Section

# The presets: ready expressions, one table for each system that sends a fixed body. Each is written
# from the sender's own documentation, and docs/connectors/webhook.md says how to set the sender up.
# A state is given as `firing`, `resolved` or `update` where the sender's own words are more than
# the settings' lists know.

# Supported macros of Zabbix 7.0, "Supported macros", and its own webhooks in templates/media.
ZABBIX = {
    "title": "name",
    "id": "event_id",
    "state": "(event_update_status == '1' && 'update') || event_value",
    "service": "[service, host]",
    "environment": "environment",
    "severity": "severity",
    "starts_at": "timestamp",
    "url": "url",
    "summary": "operational_data",
    "labels": "{host: host, trigger_id: trigger_id}",
}
# Nagios Core, "Standard Macros in Nagios": the values of $NOTIFICATIONTYPE$.
NAGIOS = {
    "title": "join(' ', [check || 'Host', 'on', host, 'is', state])",
    "id": "join('/', [host, check || ''])",
    "state": "type",
    "service": "[service, host]",
    "severity": "state",
    "summary": "output",
    "labels": "{host: host, check: check}",
}
# docs.opsgenie.com, "Marid Alert Action Data" and "Webhook Integration". `createdAt` is in ms.
OPSGENIE = {
    "title": "alert.message",
    "id": "alert.alertId",
    "state": (
        "(action == 'Create' && 'firing') || "
        "((action == 'Close' || action == 'Delete') && 'resolved') || 'update'"
    ),
    "service": "[alert.details.service, alert.entity]",
    "environment": "alert.details.environment",
    "severity": "alert.priority",
    "starts_at": "alert.createdAt",
    "summary": "alert.description",
    "labels": "merge(alert.details || `{}`, {alias: alert.alias, source: alert.source})",
}
# grafana.com/docs/oncall, "Outgoing webhooks": the body of *Forward all*. A group's labels are in
# `labels`, or in `commonLabels` where Alertmanager or Grafana sent it.
GRAFANA_ONCALL = {
    "title": "alert_group.title",
    "id": "alert_group_id",
    "state": (
        "(alert_group.state == 'resolved' && 'resolved') || "
        "(contains(['escalation', 'alert group created', 'unresolve'], event.type) && 'firing') || "
        "'update'"
    ),
    "service": "[alert_payload.labels.service, alert_payload.commonLabels.service]",
    "environment": "alert_payload.labels.environment || alert_payload.commonLabels.environment",
    "severity": "alert_payload.labels.severity || alert_payload.commonLabels.severity",
    "starts_at": "alert_group.created_at",
    "url": "alert_group.permalinks.web",
    "summary": (
        "alert_payload.annotations.description || alert_payload.commonAnnotations.description"
    ),
    "labels": (
        "merge(alert_payload.labels || alert_payload.commonLabels || `{}`, "
        "{integration: integration.name, team: integration.team})"
    ),
}
# docs.newrelic.com, "Notification message templates": the webhook's default template. A test of a
# workflow fills it with the page's own examples, a test of a channel has a separate body.
NEW_RELIC = {
    "test": "current_state == 'test' || contains(title || '', 'Some-Entity')",
    "title": "title",
    "id": "id",
    "state": (
        "(contains(['CREATED', 'ACTIVATED'], state) && 'firing') || "
        "(contains(['DEACTIVATED', 'CLOSED', 'RESOLVED'], state) && 'resolved') || 'update'"
    ),
    "service": "impactedEntities",
    "severity": "priority",
    "starts_at": "createdAt",
    "url": "issueUrl",
    "labels": (
        "{policy: alertPolicyNames[0], condition: alertConditionNames[0], workflow: workflowName}"
    ),
}
# docs.dynatrace.com, "Webhook integration": the placeholders of a problem notification. The body is
# the one that our page gives.
DYNATRACE = {
    "test": "contains(ProblemTitle || '', 'notification test run')",
    "title": "ProblemTitle",
    "id": "PID",
    "state": "(State == 'OPEN' && 'firing') || (State == 'RESOLVED' && 'resolved') || 'update'",
    "service": "ImpactedEntities[].name",
    "severity": "ProblemSeverity",
    "starts_at": "ProblemDetailsJSONv2.startTime",
    "url": "ProblemURL",
    "labels": (
        "{problem: ProblemID, impact: ProblemImpact, "
        "root_cause: ProblemDetailsJSONv2.rootCauseEntity.name}"
    ),
}
# help.victorops.com, "Custom Outgoing Webhooks": the body is the one that our page gives.
SPLUNK_ONCALL = {
    "title": "title || entity_id",
    "id": "entity_id",
    "state": (
        "(phase == 'UNACKED' && 'firing') || (phase == 'RESOLVED' && 'resolved') || 'update'"
    ),
    "service": "[service, host]",
    "severity": "severity",
    "starts_at": "started",
    "url": "url",
    "summary": "message",
    "labels": "{host: host, incident: incident, routing_key: routing_key}",
}
# cloud.google.com/monitoring/support/notification-options, "Schema structure", version 1.2.
GCP_MONITORING = {
    "test": "version == 'test'",
    "title": "incident.policy_name || incident.condition_name",
    "id": "incident.incident_id",
    "state": "incident.state",
    "service": (
        "incident.[policy_user_labels.service, metadata.user_labels.service, "
        "metadata.user_labels.app, resource.labels.service_name, resource.labels.container_name, "
        "resource_display_name]"
    ),
    "environment": "incident.policy_user_labels.environment",
    "severity": "incident.severity || incident.policy_user_labels.severity",
    "starts_at": "incident.started_at",
    "url": "incident.url",
    "summary": "incident.summary",
    "labels": (
        "incident.merge(resource.labels || `{}`, policy_user_labels || `{}`, "
        "{condition: condition_name, metric: metric.type, project: scoping_project_id})"
    ),
}

PRESETS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "dynatrace": DYNATRACE,
        "gcp_monitoring": GCP_MONITORING,
        "grafana_oncall": GRAFANA_ONCALL,
        "nagios": NAGIOS,
        "new_relic": NEW_RELIC,
        "opsgenie": OPSGENIE,
        "splunk_oncall": SPLUNK_ONCALL,
        "zabbix": ZABBIX,
    }
)
"""Expressions by preset and field; `test` is true for what the sender's test button posts."""


Preset = Literal[
    "dynatrace",
    "gcp_monitoring",
    "grafana_oncall",
    "nagios",
    "new_relic",
    "opsgenie",
    "splunk_oncall",
    "zabbix",
]
"""The keys of `PRESETS`."""


class WebhookSettings(Section):
    """Alerts, or changes, of any system that can post JSON: docs/connectors/webhook.md."""

    tokens: Secrets = ()
    """Secret. Bearer tokens (or Basic `user:password`) of the sender, separated by commas. With
    `signature_header`, keys of its signature."""
    signature_header: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,80}$")
    """The header with the HMAC-SHA256 of the body in hexadecimal digits, for senders that sign."""
    signature_prefix: str = Field(default="", max_length=40)
    """What stands before the digits in that header, such as `sha256=`."""
    maps_to: Literal["alerts", "changes"] = "alerts"
    """`changes`: the sender reports changes, which become evidence of later investigations."""
    preset: Preset | None = None
    """Expressions that are ready; those given beside it replace its own."""
    items: Expression | None = None
    """JMESPath of the list of alerts in a body. Unset: the body is one alert."""
    only: Expression | None = None
    """JMESPath that is true, or finds something, for what counts. The rest is ignored. Unset:
    everything counts."""
    title: Expression | None = None
    """JMESPath of the title. Needed without `preset`."""
    id: Expression | None = None
    """JMESPath of what is the same for every repeat of an alert. Unset: title, service and
    environment. For changes it is needed: one with a known id replaces the earlier one."""
    state: Expression | None = None
    """JMESPath of the state. Unset: every alert fires."""
    firing: Names = ("firing", "problem", "1", "true", "alert", "open", "critical", "triggered")
    """Values of `state` that mean a firing alert, whatever their case."""
    resolved: Names = ("resolved", "recovery", "0", "false", "ok", "closed")
    """Values of `state` that mean its end."""
    ignored: Names = (
        "update",
        "acknowledgement",
        "flappingstart",
        "flappingstop",
        "flappingdisabled",
        "downtimestart",
        "downtimeend",
        "downtimecancelled",
        "custom",
    )
    """Values of `state` that are neither. Any other is refused."""
    service: Expression | None = None
    """JMESPath of the service, or of a list of names of which the first that the catalogue knows
    counts."""
    environment: Expression | None = None
    """JMESPath of the place, which becomes the label `environment`."""
    severity: Expression | None = None
    """JMESPath of the severity."""
    starts_at: Expression | None = None
    """JMESPath of the time at which the alert began, or the change took effect: ISO 8601, or
    seconds, milliseconds, microseconds or nanoseconds since 1970. Unset: on arrival."""
    url: Expression | None = None
    """JMESPath of a link to it."""
    summary: Expression | None = None
    """JMESPath of a longer text."""
    labels: Expression | None = None
    """JMESPath of an object of labels."""
    kind: Expression | None = None
    """For changes: JMESPath of `deploy`, `config`, `flag`, `migration`, `scale` or `merge`. Unset:
    `deploy`."""
    author: Expression | None = None
    """For changes: JMESPath of who made it."""
    files: Expression | None = None
    """For changes: JMESPath of a list of the paths that it touches."""
    before: Expression | None = None
    """For changes: JMESPath of the version, number of replicas or value that it replaced."""
    after: Expression | None = None
    """For changes: JMESPath of the new version, number of replicas or value."""

    @field_validator("firing", "resolved", "ignored")
    @classmethod
    def _folded(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(value.casefold() for value in values)

    @model_validator(mode="after")
    def _check_title(self) -> WebhookSettings:
        # Without tokens the source is off, and needs nothing.
        if self.tokens and not self.preset and not self.title:
            raise ValueError("title or preset must be set beside the tokens")
        if self.tokens and self.maps_to == "changes":
            if self.preset:
                raise ValueError("preset is for alerts, and maps_to is changes")
            if not (self.id and self.service):
                raise ValueError("id and service must be set where maps_to is changes")
        return self

    def expression(self, field: str) -> str | None:
        """The one that counts: given, of the preset, or none."""
        setting: str | None = getattr(self, field)
        return setting or PRESETS.get(self.preset or "", {}).get(field)
