"""Google Cloud: golden signals of Cloud Run, load balancers, containers and databases, log lines,
traces, groups of errors, and what was changed, of one project.

REST with reading calls alone; specifications: the discovery documents of google-api-python-client
2.202.0. A series in PromQL is the matter of the Prometheus connector, which speaks to Managed
Service for Prometheus, except where an alerting policy of the project computes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from urllib.parse import quote

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert, EvidenceKind, Window
from faultline.connectors.shared.auth.google_token import GoogleToken
from faultline.connectors.shared.contract.base import Check, Collected, Missing, Request
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.vendors.google_cloud import (
    GoogleCloudSettings,
    errors,
    logs,
    operations,
    revisions,
    traces,
)
from faultline.connectors.vendors.google_cloud.collecting import GoogleProject, ProjectCollection
from faultline.connectors.vendors.google_cloud.logs import EntriesAnswer
from faultline.connectors.vendors.google_cloud.metrics import METRICS, SeriesAnswer
from faultline.connectors.vendors.google_cloud.policies import (
    NamedPolicy,
    PoliciesAnswer,
    PolicyCondition,
    evaluated_condition,
    named_policy,
    query_of_condition,
)
from faultline.connectors.vendors.google_cloud.session import (
    VENDOR,
    ApiDisabledError,
    GoogleApi,
    GoogleSession,
)

LIMITS = Limits(deadline_s=30, max_bytes=64 * 1024 * 1024, requests_per_s=10, concurrency=6)
MOST_SERVICES = 5
NEEDS = {
    "monitoring": "monitoring.timeSeries.list",
    "logging": "logging.logEntries.list",
    "cloudtrace": "cloudtrace.traces.list",
    "clouderrorreporting": "errorreporting.groups.list",
    "container": "container.operations.list",
    "sqladmin": "cloudsql.instances.get",
    "run": "run.revisions.list",
}
"""The permission for each API."""
KINDS: Mapping[str, EvidenceKind] = {
    "monitoring": "metrics",
    "logging": "logs",
    "cloudtrace": "spans",
    "clouderrorreporting": "logs",
    "container": "changes",
    "sqladmin": "changes",
    "run": "changes",
}
NO_CONDITION = (
    "no single policy of that name has a condition that compares something "
    "(it needs monitoring.alertPolicies.list)"
)
ANYWHERE = ("-", "us-central1")
"""Any service of one region: enough to learn whether revisions can be listed."""


def build(
    google_settings: GoogleCloudSettings, settings: SharedSettings
) -> GoogleCloudConnector | None:
    """The configured connector, or None without a project. Raises SettingsError."""
    if google_settings.project is None:
        return None
    auth = GoogleToken(VENDOR, google_settings.identity_url, google_settings.credentials_file)
    # A file that cannot be used stops the start.
    auth.read()
    limits = google_settings.limits(LIMITS)
    names = ServiceNames.of_catalogue(settings.services)
    project = GoogleProject(
        google_settings.project, google_settings.console_url, names, google_settings.trace_label
    )
    apis = {name: GoogleApi(name, google_settings.api_url, auth, limits) for name in NEEDS}
    return GoogleCloudConnector(project, apis, limits)


class GoogleCloudConnector:
    """`apis`: by the first part of their host's name."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("metrics", "logs", "spans", "changes")
    follows = ("service",)

    def __init__(
        self, project: GoogleProject, apis: Mapping[str, GoogleApi], limits: Limits = LIMITS
    ) -> None:
        self._project = project
        self._apis = apis
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Every API side by side; one that fails is a gap, the rest stands."""
        services, more = in_scope(request, MOST_SERVICES)
        asking = ProjectCollection(self._project, request, services)
        missing = asking.collection.missing
        if more:
            reason = f"{more} more services were not asked about"
            missing.append(Missing("metrics", "services in scope", reason))
        deadline, budget = self._allowance()
        parts: dict[str, list[Callable[[GoogleSession], Awaitable[None]]]] = {
            "logging": [asking.changes],
            "container": [asking.cluster_operations],
            "sqladmin": [asking.database_operations],
        }
        if services:
            parts["monitoring"] = [asking.metrics, asking.line_counts]
            parts["logging"].append(asking.lines)
            parts["cloudtrace"] = [asking.spans]
            parts["clouderrorreporting"] = [asking.error_groups]
        else:
            missing.append(
                Missing("metrics", "services", "the alert names no service to ask about")
            )

        async def of_api(name: str) -> None:
            try:
                async with self._apis[name].open(deadline, budget) as session:
                    await asyncio.gather(*(part(session) for part in parts[name]))
            except FaultlineError as error:
                missing.append(Missing(KINDS[name], name, str(error)))

        await asyncio.gather(*(of_api(name) for name in parts))
        # The other calls have found the regions in which the services run.
        if asking.run_places:
            parts["run"] = [asking.revisions]
            await of_api("run")
        # Last, because revisions and audit entries tell of the same deploys.
        asking.keep_audited()
        asking.name_the_unknown()
        return asking.collection.collected()

    async def rule_of(self, alert: Alert) -> AlertQuery | None:
        """The condition of the policy that the alert names. Raises ConnectorError."""
        named = named_policy(alert, self._project.id)
        if named is None:
            return None
        async with self._apis["monitoring"].open(*self._allowance()) as session:
            condition = await self._condition(session, named)
        return query_of_condition(condition) if condition is not None else None

    def evaluates(self, alert: Alert) -> bool:
        """Whether the alert names a policy of this project."""
        return named_policy(alert, self._project.id) is not None

    async def evaluate(self, request: Request) -> Collected:
        """What the policy's condition gives against its threshold, now and over two weeks. Raises
        FaultlineError."""
        named = named_policy(request.alert, self._project.id)
        if named is None:
            return Collected()
        link = f"{self._project.console}/monitoring/alerting/policies?project={self._project.id}"
        async with self._apis["monitoring"].open(*self._allowance()) as session:
            condition = await self._condition(session, named)
            if condition is None:
                raise ConnectorError(VENDOR, "alertPolicies", NO_CONDITION)
            return await evaluated_condition(
                session, self._project.id, condition, request.scope, link
            )

    async def _condition(
        self, session: GoogleSession, named: NamedPolicy
    ) -> PolicyCondition | None:
        path = f"/v3/projects/{quote(self._project.id, safe=':')}/alertPolicies"
        return named.chosen(await session.get(path, named.params(), type=PoliciesAnswer))

    async def check(self) -> Check:
        """Which APIs can be read with this account?"""
        deadline, budget = self._allowance()
        now = self._project.now()
        hour = Window(start=now - timedelta(hours=1), end=now)
        calls = self._calls(hour)
        refusals: dict[str, str | None] = {}
        disabled: list[str] = []
        for name, call in calls.items():
            try:
                async with self._apis[name].open(deadline, budget) as session:
                    await call(session)
                refusals[name] = None
            # An API that the project does not use is no refusal.
            except ApiDisabledError:
                disabled.append(name)
            except FaultlineError as error:
                if getattr(error, "status", None) not in (403, 404):
                    return Check(self.name, False, str(error))
                refusals[name] = getattr(error, "problem", str(error))
        parts = ReadableParts(refusals, NEEDS)
        notes = [parts.words or "no API can be read"]
        if disabled:
            notes.append(f"not enabled in the project: {', '.join(disabled)}")
        notes.append("only reading calls are sent; what else the account may do is not asked")
        line = f"Google Cloud project {self._project.id}: {'; '.join(notes)}"
        return Check(self.name, bool(parts.readable), line, parts.unread)

    def _calls(self, hour: Window) -> dict[str, Callable[[GoogleSession], Awaitable[object]]]:
        """One cheap call of each API."""
        metric = METRICS[0].params(self._project.id, ["none"], hour)
        trace = traces.trace_params(self._project.trace_label, "none", hour)
        body = self._project.entries_body(logs.within("severity>=ERROR", hour), 1)
        groups = errors.group_params("none", errors.PERIODS[0])
        paths = self._project.paths
        anywhere = revisions.revisions_path(self._project.id, ANYWHERE)
        return {
            "monitoring": lambda s: s.get(paths["monitoring"], metric, type=SeriesAnswer),
            "logging": lambda s: s.entries(body, type=EntriesAnswer),
            "cloudtrace": lambda s: s.get(paths["cloudtrace"], trace, type=traces.TracesAnswer),
            "clouderrorreporting": lambda s: s.get(
                paths["clouderrorreporting"], groups, type=errors.GroupsAnswer
            ),
            "container": lambda s: s.get(paths["container"], type=operations.ClusterOperations),
            "sqladmin": lambda s: s.get(
                paths["sqladmin"], [("maxResults", "1")], type=operations.DatabaseOperations
            ),
            "run": lambda s: s.get(anywhere, [("pageSize", "1")], type=revisions.RevisionsAnswer),
        }

    def _allowance(self) -> tuple[Deadline, ByteBudget]:
        budget = ByteBudget(f"size of {VENDOR}'s answers", self.limits.max_bytes)
        return Deadline.within(self.limits), budget
