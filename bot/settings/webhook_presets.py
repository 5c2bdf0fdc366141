"""Ready expressions for the generic webhook: one table for each system that sends a fixed body.

Each is written from the sender's own documentation, and docs/connectors/webhook.md says how to set
the sender up. A state is given as `firing`, `resolved` or `update` where the sender's own words are
more than the settings' lists know.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

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
# docs.newrelic.com, "Notification message templates": the webhook's default template.
NEW_RELIC = {
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
"""Expressions by preset and field."""
