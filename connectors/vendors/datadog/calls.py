"""The calls of Datadog's API that are read: each by its class and method in datadog-api-client, and
what it sends.

Searching takes POST at Datadog, so what may be sent is this list and nothing else;
`datadog_session` refuses the rest. Methods and paths are those of the OpenAPI specification
(DataDog/documentation, v1 and v2 of "full_spec.yaml").
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Call:
    """One reading call. `{}` in `path` stands for one identifier.

    `allowance` names what the organisation has few of; see `datadog_session.ALLOWANCES`.
    """

    api: str
    name: str
    method: str
    path: str
    allowance: str | None = None

    @property
    def text(self) -> str:
        """The call in an error's words."""
        return f"{self.method} {self.path}"


VALIDATE = Call("v1.authentication_api.AuthenticationApi", "validate", "GET", "/api/v1/validate")
CURRENT_USER = Call("v2.users_api.UsersApi", "get_current_user", "GET", "/api/v2/current_user")
USER_PERMISSIONS = Call(
    "v2.users_api.UsersApi", "list_user_permissions", "GET", "/api/v2/users/{}/permissions"
)
CURRENT_USER_KEYS = Call(
    "v2.key_management_api.KeyManagementApi",
    "list_current_user_application_keys",
    "GET",
    "/api/v2/current_user/application_keys",
)

MONITOR = Call("v1.monitors_api.MonitorsApi", "get_monitor", "GET", "/api/v1/monitor/{}")
MONITORS = Call("v1.monitors_api.MonitorsApi", "list_monitors", "GET", "/api/v1/monitor")
ACTIVE_METRICS = Call("v1.metrics_api.MetricsApi", "list_active_metrics", "GET", "/api/v1/metrics")
QUERY = Call("v1.metrics_api.MetricsApi", "query_metrics", "GET", "/api/v1/query")
TIMESERIES = Call(
    "v2.metrics_api.MetricsApi", "query_timeseries_data", "POST", "/api/v2/query/timeseries"
)
LOGS = Call("v2.logs_api.LogsApi", "list_logs", "POST", "/api/v2/logs/events/search")
LOG_COUNTS = Call(
    "v2.logs_api.LogsApi", "aggregate_logs", "POST", "/api/v2/logs/analytics/aggregate"
)
SPANS = Call("v2.spans_api.SpansApi", "list_spans", "POST", "/api/v2/spans/events/search", "spans")
TRACE = Call("v2.apm_trace_api.APMTraceApi", "get_trace_by_id", "GET", "/api/v2/trace/{}", "traces")
EVENTS = Call("v2.events_api.EventsApi", "search_events", "POST", "/api/v2/events/search")
ISSUES = Call(
    "v2.error_tracking_api.ErrorTrackingApi",
    "search_issues",
    "POST",
    "/api/v2/error-tracking/issues/search",
)
RELATIONS = Call(
    "v2.software_catalog_api.SoftwareCatalogApi",
    "list_catalog_relation",
    "GET",
    "/api/v2/catalog/relation",
)
DEPLOYMENTS = Call(
    "v2.dora_metrics_api.DORAMetricsApi",
    "list_dora_deployments",
    "POST",
    "/api/v2/dora/deployments",
)
PIPELINES = Call(
    "v2.ci_visibility_pipelines_api.CIVisibilityPipelinesApi",
    "search_ci_app_pipeline_events",
    "POST",
    "/api/v2/ci/pipelines/events/search",
)

CALLS = (
    VALIDATE, CURRENT_USER, USER_PERMISSIONS, CURRENT_USER_KEYS, MONITOR, MONITORS, ACTIVE_METRICS,
    QUERY, TIMESERIES, LOGS, LOG_COUNTS, SPANS, TRACE, EVENTS, ISSUES, RELATIONS,
    DEPLOYMENTS, PIPELINES,
)  # fmt: skip

# No slash and no dot: an identifier must not lead to another path.
_IDENTIFIER = r"[A-Za-z0-9_-]{1,64}"
# Compare whole paths, so that nothing can follow a listed one.
_PATHS = {(c.method, re.compile(re.escape(c.path).replace(r"\{\}", _IDENTIFIER))): c for c in CALLS}


def call_of(method: str, path: str) -> Call | None:
    """The call that sends this, or None where none does."""
    return next(
        (
            c
            for (call_method, pattern), c in _PATHS.items()
            if call_method == method and pattern.fullmatch(path)
        ),
        None,
    )
