"""AWS: metrics, alarms, logs, traces, deployments and changes of the services in scope, by read
operations alone.

Each part asks for itself and fails for itself; which operations are ever sent stands in
`aws_operations`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Alert, EvidenceKind, Scope
from faultline.connectors.shared.contract.abilities import BoundedQuery
from faultline.connectors.shared.contract.base import Check, Collected, Request
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import (
    ServiceAwsSettings,
    ServiceSettings,
    SharedSettings,
)
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.vendors.aws import AwsSettings
from faultline.connectors.vendors.aws.alarms import (
    Alarms,
    alert_alarms,
    firing_alarms,
    named_metric,
)
from faultline.connectors.vendors.aws.calls import AwsCalls
from faultline.connectors.vendors.aws.check import check_place
from faultline.connectors.vendors.aws.cloudwatch import (
    alarm_evaluation,
    alarm_metric,
    metrics_of,
)
from faultline.connectors.vendors.aws.database_states import (
    EVENT_SOURCES,
    cache_states,
    cluster_states,
    database_states,
)
from faultline.connectors.vendors.aws.deployments import (
    codedeploy_deployments,
    ecs_deployments,
    lambda_versions,
)
from faultline.connectors.vendors.aws.eks import eks_health
from faultline.connectors.vendors.aws.errors import OF_CREDENTIALS
from faultline.connectors.vendors.aws.evidence import AwsEvidence, collected
from faultline.connectors.vendors.aws.executions import failed_executions
from faultline.connectors.vendors.aws.happenings import database_happenings, ecs_happenings
from faultline.connectors.vendors.aws.health_events import health_events
from faultline.connectors.vendors.aws.insights import ScanBudget
from faultline.connectors.vendors.aws.log_queries import log_answer
from faultline.connectors.vendors.aws.logs import ServiceLogs, logs_of
from faultline.connectors.vendors.aws.machines import instance_states, scaling_activities
from faultline.connectors.vendors.aws.queues import dead_letter_queues
from faultline.connectors.vendors.aws.resource import Resource, ResourceKind
from faultline.connectors.vendors.aws.scope import (
    MOST_RESOURCES,
    MOST_SERVICES,
    named_alarms,
    places_of,
    resources_of,
    service_places,
    their_names,
    without_elsewhere_gaps,
)
from faultline.connectors.vendors.aws.session import (
    VENDOR,
    AwsAccount,
    AwsPlace,
    AwsSession,
    Bounds,
)
from faultline.connectors.vendors.aws.table_states import table_states
from faultline.connectors.vendors.aws.trail import joined, trail_of
from faultline.connectors.vendors.aws.xray import graph_of, traces_of

LIMITS = Limits(deadline_s=45, max_bytes=48 * 1024 * 1024)
"""A query of Logs Insights over some GB takes about ten seconds, and there are several."""
THREADS = 16
MOST_NAMED = 20
"""Services in the words to a model."""
Reader = Callable[[AwsCalls, Resource, Scope], Awaitable[AwsEvidence]]
READERS: Mapping[ResourceKind, tuple[EvidenceKind, Reader]] = {
    "database": ("states", database_states),
    "db_cluster": ("states", cluster_states),
    "cache": ("states", cache_states),
    "table": ("states", table_states),
    "scaling_group": ("changes", scaling_activities),
    "instance": ("states", instance_states),
    "state_machine": ("logs", failed_executions),
    "eks": ("states", eks_health),
}
"""What is read of a resource of these kinds beside its metrics, its events, its logs and what
CloudTrail knows; and of what that is evidence."""
NO_THRESHOLD = "the alarm compares no metric with a number, so it cannot be evaluated"
NOT_UNDERSTOOD = (AttributeError, LookupError, TypeError, ValueError, OverflowError)
"""How a part fails on an answer of a shape that nobody documented."""


def build(aws_settings: AwsSettings, settings: SharedSettings) -> AwsConnector | None:
    """The configured connector, or None without a region."""
    accounts = [
        (AwsAccount(a.name, a.role_arn, a.external_id), a.regions) for a in aws_settings.accounts
    ]
    places = places_of(aws_settings.regions, accounts)
    if not places:
        return None
    return AwsConnector(
        places,
        services=settings.services,
        scanned_gb=aws_settings.logs_max_scanned_gb,
        endpoint_url=aws_settings.endpoint_url,
        limits=aws_settings.limits(LIMITS),
    )


class AwsConnector:
    """All of AWS that is read. `services`: what the catalogue says of each service."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = (
        "metrics",
        "logs",
        "spans",
        "changes",
        "topology",
        "monitors",
        "states",
    )
    follows = ("service",)
    query_kinds: tuple[EvidenceKind, ...] = ("metrics", "logs")

    def __init__(
        self,
        places: Sequence[AwsPlace],
        *,
        services: Mapping[str, ServiceSettings] | None = None,
        scanned_gb: float = 20,
        endpoint_url: str | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._places = tuple(places)
        self._services = dict(services or {})
        self._scanned_gb = scanned_gb
        self._session = AwsSession(endpoint_url)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix=VENDOR)
        self._ours = {
            theirs.casefold(): name
            for name, entry in self._services.items()
            for theirs in their_names(name, entry.aliases, entry.aws)
        }
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Everything that concerns the alarm and the services in scope. A part that fails becomes a
        gap."""
        calls, scope, alert = self._calls(), request.scope, request.alert
        services = list(scope.services[:MOST_SERVICES])
        named = named_alarms(alert, self._places)
        # The alarm comes first, because it may name resources that the catalogue lacks.
        alarms = Alarms()
        try:
            alarms = await alert_alarms(
                calls, named, services[0] if services else alert.service, scope
            )
        except NOT_UNDERSTOOD as error:
            alarms.evidence.lacks("monitors", "the alert's alarm", _not_understood(error))
        resources, left = self._resources(services, alarms)
        # Ask for all parts at once: the rate limiters pace each service.
        parts = await asyncio.gather(
            _part("metrics", "metrics", _metrics(calls, resources, scope)),
            *(
                _part("metrics", metric.text, alarm_metric(calls, metric, scope))
                for metric in alarms.metrics
            ),
            *(
                _part("monitors", f"alarms {place}", firing_alarms(calls, place, resources, scope))
                for place in dict.fromkeys(resource.place for resource in resources)
            ),
            *(
                _part("states", f"AWS Health {place}", health_events(calls, place, there, scope))
                for place, there in _by_place(resources).items()
            ),
            _part("changes", "changes", self._changes(calls, resources, services, scope)),
            _part("logs", "logs", self._logs(calls, resources, services, scope)),
            *(
                _part(kind, f"state of {resource.name}", read(calls, resource, scope))
                for resource in resources
                if resource.kind in READERS
                for kind, read in [READERS[resource.kind]]
            ),
            *(
                _part("spans", f"X-Ray {place}", self._xray(calls, place, services, scope))
                for place in self._xray_places(services, resources)
            ),
        )
        collection = collected([alarms.evidence, left, *parts])
        _refuse_without_credentials(collection)
        return without_elsewhere_gaps(collection, self._places)

    def evaluates(self, alert: Alert) -> bool:
        """Whether the alert names an alarm of a place that is read."""
        return bool(named_alarms(alert, self._places))

    async def evaluate(self, request: Request) -> Collected:
        """What the alarm looks at, against its threshold, now and over two weeks. Raises
        FaultlineError."""
        alert, calls = request.alert, self._calls()
        try:
            metric = await named_metric(calls, named_alarms(alert, self._places), alert.service)
            if metric is None:
                raise ConnectorError(VENDOR, "DescribeAlarms", NO_THRESHOLD)
            return await alarm_evaluation(calls, metric, request.scope)
        except NOT_UNDERSTOOD as error:
            raise ConnectorError(VENDOR, "GetMetricData", _not_understood(error)) from error

    @property
    def query_language(self) -> str | None:
        """Logs Insights', where the catalogue names log groups."""
        named = ", ".join(list(self._with_logs())[:MOST_NAMED])
        return f"Logs Insights (give service: {named})" if named else None

    async def answer(self, query: BoundedQuery) -> Collected:
        """The rows of one query over the log groups of its service. Raises FaultlineError."""
        logs = self._with_logs()
        if query.service not in logs:
            choices = ", ".join(list(logs)[:MOST_NAMED]) or "none"
            problem = (
                f"`service` must be one that the catalogue gives log groups; there are {choices}"
            )
            raise ConnectorError(VENDOR, "query", problem)
        budget = ScanBudget(self._scanned_gb)
        return await log_answer(self._calls(), logs[query.service], query, budget)

    def _with_logs(self) -> dict[str, list[ServiceLogs]]:
        """Where the logs of each service are, if the catalogue says so."""
        service_logs: dict[str, list[ServiceLogs]] = {}
        for name, entry in self._services.items():
            if entry.aws is None:
                continue
            # Lambda writes to a log group of this name by default.
            functions = (f"/aws/lambda/{function}" for function in entry.aws.lambdas)
            groups = tuple(dict.fromkeys((*entry.aws.log_groups, *functions)))
            if groups:
                places = service_places(entry.aws, self._places)
                service_logs[name] = [ServiceLogs(name, place, groups) for place in places]
        return service_logs

    async def check(self) -> Check:
        """What can be read in each place, and what else the credentials seem to be allowed to."""
        calls = self._calls()
        checks = await asyncio.gather(
            *(check_place(calls, place, self._catalogued(place)) for place in self._places)
        )
        line = f"{'; '.join(check.line for check in checks)}; only listed reads are sent"
        unread: list[str] = []
        for check in checks:
            unread += check.unread
        return Check(self.name, all(check.ok for check in checks), line, tuple(unread))

    def _catalogued(self, place: AwsPlace) -> list[Resource]:
        """All resources of the catalogue that may be in a place."""
        resources = []
        for name in self._services:
            for resource in resources_of(name, self._entry(name), self._places):
                if resource.place == place:
                    resources.append(resource)
        return resources

    def _calls(self) -> AwsCalls:
        budget = ByteBudget("size of aws's answers", self.limits.max_bytes)
        return AwsCalls(self._session, self._threads, Bounds(Deadline.within(self.limits), budget))

    def _entry(self, service: str) -> ServiceAwsSettings | None:
        entry = self._services.get(service)
        return entry.aws if entry else None

    def _our_name(self, theirs: str) -> str:
        return self._ours.get(theirs.casefold(), theirs)

    def _resources(
        self, services: Sequence[str], alarms: Alarms
    ) -> tuple[list[Resource], AwsEvidence]:
        """What to look at; what the alarm itself is about comes first, and is the catalogue's where
        that knows it."""
        aws_evidence = AwsEvidence()
        catalogue_resources = [
            resource
            for name in services
            for resource in resources_of(name, self._entry(name), self._places)
        ]
        # The catalogue's entry stays, because it knows the service of a resource.
        named = {(resource.kind, resource.name, resource.place) for resource in catalogue_resources}
        resources = [
            resource
            for resource in alarms.resources
            if (resource.kind, resource.name, resource.place) not in named
        ] + catalogue_resources
        resources = list(dict.fromkeys(resources))
        if len(resources) > MOST_RESOURCES:
            aws_evidence.lacks(
                "metrics",
                "resources in scope",
                f"{len(resources) - MOST_RESOURCES} of them were left out",
            )
        have = {resource.service for resource in resources} | {
            n for n in services if (e := self._entry(n)) and e.log_groups
        }
        for name in services:
            if name not in have:
                aws_evidence.lacks(
                    "metrics",
                    f"resources of {name}",
                    f"none are known: name them under [services.{name}.aws]",
                )
        return resources[:MOST_RESOURCES], aws_evidence

    def _xray_places(
        self, services: Sequence[str], resources: Sequence[Resource]
    ) -> list[AwsPlace]:
        there = [
            place for name in services for place in service_places(self._entry(name), self._places)
        ]
        return list(dict.fromkeys((*(resource.place for resource in resources), *there)))[
            :MOST_SERVICES
        ]

    async def _changes(
        self, calls: AwsCalls, resources: Sequence[Resource], services: Sequence[str], scope: Scope
    ) -> AwsEvidence:
        deployments = [
            ecs_deployments(calls, resource, scope)
            for resource in resources
            if resource.kind == "ecs"
        ]
        deployments += [
            lambda_versions(calls, resource, scope)
            for resource in resources
            if resource.kind == "lambda"
        ]
        for name in services:
            entry = self._entry(name)
            for group in entry.codedeploy if entry else ():
                for place in service_places(entry, self._places):
                    whose = Resource("ecs", group, name, place)
                    deployments.append(codedeploy_deployments(calls, whose, group, scope))
        places = list(dict.fromkeys(resource.place for resource in resources))
        trails = [
            trail_of(calls, [resource for resource in resources if resource.place == place], scope)
            for place in places
        ]
        parts = await asyncio.gather(
            *(_part("changes", "changes", deployment) for deployment in (*deployments, *trails))
        )
        # `gather` keeps the order: deployments first, then trails.
        rollouts, trail = _together(parts[: len(deployments)]), _together(parts[len(deployments) :])
        joined(rollouts, trail)
        return _together([rollouts, trail])

    async def _logs(
        self, calls: AwsCalls, resources: Sequence[Resource], services: Sequence[str], scope: Scope
    ) -> AwsEvidence:
        tasks = [resource for resource in resources if resource.kind == "ecs"]
        databases = [resource for resource in resources if resource.kind in EVENT_SOURCES]
        written: dict[Resource, tuple[str, ...]] = {}
        happened = [
            _part("logs", f"events of {task.name}", ecs_happenings(calls, task, scope, written))
            for task in tasks
        ]
        # Events come first, because they find the log groups that the tasks write to.
        task_events = await asyncio.gather(*happened)
        budget = ScanBudget(self._scanned_gb)
        service_logs = self._service_logs(resources, services, written)
        parts = await asyncio.gather(
            *(
                _part(
                    "logs",
                    f"logs of {service_log.service}",
                    logs_of(calls, service_log, scope, budget),
                )
                for service_log in service_logs
            ),
            *(
                _part(
                    "logs",
                    f"events of {database.name}",
                    database_happenings(calls, database, scope),
                )
                for database in databases
            ),
        )
        return _together([*task_events, *parts])

    def _service_logs(
        self,
        resources: Sequence[Resource],
        services: Sequence[str],
        written: Mapping[Resource, Sequence[str]],
    ) -> list[ServiceLogs]:
        """The log groups of each service in each place: those that tasks have `written` to, those
        of its functions, and those that the settings name."""
        groups: dict[tuple[str, AwsPlace], list[str]] = {}
        for resource, of_tasks in written.items():
            groups.setdefault((resource.service, resource.place), []).extend(of_tasks)
        for resource in resources:
            if resource.kind == "lambda":
                groups.setdefault((resource.service, resource.place), []).append(
                    f"/aws/lambda/{resource.name}"
                )
        for name in services:
            entry = self._entry(name)
            if entry is None or not entry.log_groups:
                continue
            for place in service_places(entry, self._places):
                groups.setdefault((name, place), []).extend(entry.log_groups)
        return [
            ServiceLogs(name, place, tuple(dict.fromkeys(names)))
            for (name, place), names in groups.items()
            if names
        ]

    async def _xray(
        self, calls: AwsCalls, place: AwsPlace, services: Sequence[str], scope: Scope
    ) -> AwsEvidence:
        """The graph, then traces of those services that it names."""
        graph_names: dict[str, str] = {}

        def ours(theirs: str) -> str:
            # Keep X-Ray's spelling for the search that follows.
            graph_names.setdefault(theirs.casefold(), theirs)
            return self._our_name(theirs)

        graph = await graph_of(calls, place, scope, ours)
        # Without the graph nothing says which names X-Ray knows.
        if graph.missing:
            return graph
        parts = [graph]
        for name in services:
            entry = self._services.get(name)
            theirs = their_names(name, entry.aliases if entry else (), self._entry(name))
            there = [
                graph_names[their.casefold()] for their in theirs if their.casefold() in graph_names
            ]
            if there:
                parts.append(await traces_of(calls, place, name, there[0], scope, self._our_name))
            else:
                text = ", ".join(sorted(graph_names.values())[:8])
                if not text:
                    unknown = "X-Ray saw no service at that time"
                else:
                    unknown = f"X-Ray's services of that time do not include it ({text})"
                graph.lacks("spans", f"X-Ray {place} {name}", unknown)
        return _together(parts)


async def _metrics(calls: AwsCalls, resources: Sequence[Resource], scope: Scope) -> AwsEvidence:
    """Metrics of these resources, and of the dead-letter queues that they lead to."""
    led_to = AwsEvidence()
    dead = await dead_letter_queues(calls, resources, led_to)
    return _together([led_to, await metrics_of(calls, [*resources, *dead], scope)])


async def _part(kind: EvidenceKind, what: str, call: Awaitable[AwsEvidence]) -> AwsEvidence:
    """The edge of one part: what it could not read is a gap, and the other parts stand."""
    try:
        return await call
    except FaultlineError as error:
        problem: object = error
    except NOT_UNDERSTOOD as error:
        problem = _not_understood(error)
    evidence = AwsEvidence()
    evidence.lacks(kind, what, problem)
    return evidence


def _by_place(resources: Sequence[Resource]) -> Mapping[AwsPlace, list[Resource]]:
    places: dict[AwsPlace, list[Resource]] = {}
    for resource in resources:
        places.setdefault(resource.place, []).append(resource)
    return places


def _refuse_without_credentials(collection: Collected) -> None:
    """Where nothing at all could be read because of the credentials, that is one thing to say and
    not thirty."""
    reasons = () if collection.items else tuple(gap.reason for gap in collection.missing)
    refusal = next(
        (phrase for phrase in OF_CREDENTIALS for reason in reasons if phrase in reason), None
    )
    if refusal:
        raise ConnectorError(VENDOR, "every call", refusal)


def _not_understood(error: Exception) -> str:
    return f"unexpected response of AWS ({type(error).__name__})"


def _together(parts: Sequence[AwsEvidence]) -> AwsEvidence:
    whole = AwsEvidence()
    for part in parts:
        for table, rows in part.rows.items():
            whole.add(table, rows)
        whole.items += part.items
        whole.missing += part.missing
    return whole
