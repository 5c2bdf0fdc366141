"""What bounds each table and each directory that the bot writes: nothing grows for ever.

A test walks the tables of the store and of the engine, so a new one needs its line here.
"""

from __future__ import annotations

SWEPT = {
    "investigations": "retention.investigations_days",
    "deliveries": "retention.deliveries_days",
    "progress": "retention.progress_days",
    "captures": "retention.investigations_days",
    "questions": "retention.conversations_days",
    "quiet_threads": "retention.investigations_days",
    "reported_changes": "retention.changes_days",
    "learned_calls": "retention.calls_days",
    "mutes": "retention.investigations_days",
    "held_alerts": "30 days",
    "visits": "login.audit_days",
    "visitors": "login.audit_days",
    "sessions": "their end",
    "api_tokens": "login.audit_days after their end",
    "asked_requests": "retention.deliveries_days",
    "deploy_checks": "retention.deliveries_days",
    "slack_channels": "no investigation came from there",
    "executors": "7 days",
    "last_times": "30 days",
    "person_acts": "2 days",
    "model_spending": "31 days",
    "workflow_status": "retention.engine_days",
}
"""Tables from which `faultline.bot.operating.sweep` deletes, and by which age or condition."""

FOLLOW = {
    "posts": "investigations",
    "labels": "investigations",
    "remembered": "investigations",
    "remembered_services": "remembered",
    "fleet_hosts": "investigations",
    "grouped_alerts": "investigations",
    "alert_keys": "investigations",
    "further_investigations": "investigations",
    "question_posts": "questions",
    "workflow_input": "workflow_status",
    "workflow_output": "workflow_status",
    "operation_outputs": "workflow_status",
    "notifications": "workflow_status",
    "workflow_events": "workflow_status",
    "workflow_events_history": "workflow_status",
    "streams": "workflow_status",
}
"""Tables whose rows go with those of another one."""

BY_NATURE = {
    "watches": "one row for each name that a [[watch]] ever had",
    "application_versions": "one row for each version of the program",
    "queues": "one row for each queue",
    "workflow_schedules": "one row for each schedule; the bot has none",
}
