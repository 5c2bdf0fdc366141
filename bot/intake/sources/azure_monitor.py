"""Azure Monitor's alerts in the common alert schema: metric, log, activity log and resource health
alerts alike.

An action group signs nothing. Its webhook has a token in the address, as its documentation has it,
or, as "secure webhook", one of Microsoft Entra in the header; either is checked before anything is
read. A firing and its end carry the same alert id, which is also what makes a repeated request a
duplicate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from faultline.analysis.alert_signal.subjects import Naming
from faultline.analysis.kinds.signals import AlertQuery, Comparison
from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.intake.accepting import Ignored, too_old
from faultline.bot.intake.alert_source import (
    Receive,
    RequestContent,
    Sender,
    WebhookRequest,
    WebhookSource,
    token_in_address,
)
from faultline.bot.intake.payload_fields import (
    Address,
    Annotations,
    Labels,
    Line,
    Payload,
    Rows,
    Table,
    Text,
    When,
    digest_of,
    filled,
    json_object,
    number_in,
    single_line,
)
from faultline.bot.intake.service_names import identified
from faultline.bot.intake.signatures import BadSignature, Refused
from faultline.bot.policy.priority import HIGH, LOW, URGENT, USUAL
from faultline.bot.policy.values import Arrival, Delivery, ReplyTo
from faultline.bot.settings import Settings
from faultline.connectors.vendors.azure import AzureMonitorSettings

if TYPE_CHECKING:
    from faultline.bot.intake.sources.entra_tokens import EntraTokens

SOURCE = "azure_monitor"
SCHEMA = "azureMonitorCommonAlertSchema"
SEVERITIES: Mapping[str, int] = MappingProxyType(
    {"sev0": URGENT, "sev1": HIGH, "sev2": USUAL, "sev3": LOW, "sev4": LOW}
)
"""Critical, error, warning, informational, verbose (learn.microsoft.com, "Common alert
schema")."""
COMPARISONS: Mapping[str, Comparison] = {
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "LowerThan": "<",
    "LowerThanOrEqual": "<=",
    "Equals": "==",
    "Greater Than": ">",
    "Less Than": "<",
    "Greater Than Or Equal": ">=",
    "Less Than Or Equal": "<=",
}
SERVICE_NAMES = ("service", "cloud/roleName", "cloud_RoleName", "AppRoleName")
"""Custom properties and dimensions that name a service; Application Insights' are its role."""
MOST_TARGETS = 20
OF_AUTHORS = frozenset({"metric", "log"})
"""Signal types whose `properties` are what the rule's author added. Those of the activity log are
Azure's words about an event: its `service` is one of Azure's."""
OF_AZURE = frozenset({"servicehealth", "resourcehealth"})
"""Monitoring services that report on Azure itself: nobody's service."""
_TEST = re.compile(r"(?i)test-\w*AlertRule[\w-]*")
"""The rules that "Test action group" makes up (learn.microsoft.com, "Action groups")."""
_RESOURCE = re.compile(
    r"/subscriptions/([^/]+)(?:/resource-?groups/([^/]+))?"
    r"(?:/providers/([^/]+/[^/]+)/([^/]+)(?:/.*)?)?",
    re.IGNORECASE,
)
_DURATION = re.compile(r"P(?:(\d{1,3})D)?(?:T(?:(\d{1,4})H)?(?:(\d{1,5})M)?(?:(\d{1,6})S)?)?")


def _as_texts(value: Any) -> list[str]:
    targets = value[:MOST_TARGETS] if isinstance(value, list) else []
    return [text for target in targets if (text := single_line(target, 600))]


Texts = Annotated[tuple[str, ...], BeforeValidator(_as_texts)]


class Essentials(Payload):
    """`data.essentials`: what all kinds of alerts have."""

    alertId: Line = ""
    alertRule: Line = ""
    severity: Line = ""
    signalType: Line = ""
    monitorCondition: Line = ""
    monitoringService: Line = ""
    alertTargetIDs: Texts = ()
    configurationItems: Texts = ()
    description: Text = ""
    firedDateTime: When = None
    resolvedDateTime: When = None
    investigationLink: Address = ""


class AzureDimension(Payload):
    """One dimension of the series that broke the condition."""

    name: Line = ""
    value: Line = ""


class AzureCriterion(Payload):
    """One criterion of a metric or log alert."""

    metricName: Line = ""
    metricNamespace: Line = ""
    metricMeasureColumn: Line = ""
    searchQuery: Text = ""
    operator: Line = ""
    threshold: Line = ""
    timeAggregation: Line = ""
    dimensions: Rows[AzureDimension] = ()
    linkToSearchResultsUI: Address = ""
    linkToFilteredSearchResultsUI: Address = ""


class AzureCondition(Payload):
    """What the rule waits for."""

    windowSize: Line = ""
    allOf: Rows[AzureCriterion] = ()


class AzureContext(Payload):
    """`data.alertContext`, whose form depends on the kind of alert."""

    properties: Labels = Field(default_factory=dict)
    SearchQuery: Text = ""
    Threshold: Line = ""
    Operator: Line = ""
    Dimensions: Rows[AzureDimension] = ()
    """These four are of log alerts by the first version of the API."""
    LinkToSearchResults: Address = ""
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)
    expression: Text = ""
    """These three are of rules of Azure's managed Prometheus."""
    condition: Table[AzureCondition] = AzureCondition()


class AzureAlertData(Payload):
    """`data`."""

    essentials: Table[Essentials] = Essentials()
    alertContext: Table[AzureContext] = AzureContext()
    customProperties: Labels = Field(default_factory=dict)


class AzureNotification(Payload):
    """The whole body."""

    schemaId: Line = ""
    data: Table[AzureAlertData] = AzureAlertData()

    @property
    def first(self) -> AzureCriterion:
        """The criterion to show. A rule with several fires when all hold."""
        return next(iter(self.data.alertContext.condition.allOf), AzureCriterion())

    @property
    def dimensions(self) -> dict[str, str]:
        """Of the series that broke the condition."""
        return filled(
            {
                dimension.name: dimension.value
                for dimension in (
                    *self.first.dimensions,
                    *self.data.alertContext.Dimensions,
                )
                if dimension.name
            }
            | self.data.alertContext.labels
        )

    @property
    def properties(self) -> dict[str, str]:
        """What the rule's author added, and what Azure says of an event."""
        in_context = dict(self.data.alertContext.properties)
        if self.data.essentials.signalType.casefold() not in OF_AUTHORS:
            # These name a service of Azure's, which is none of ours.
            for name in SERVICE_NAMES:
                if name in in_context:
                    in_context[f"azure_{name}"] = in_context.pop(name)
        return {**in_context, **self.data.customProperties}


def read_azure_alert(body: bytes, settings: Settings, *, now: datetime) -> Arrival | Ignored:
    """The alert of one notification. Raises Refused for another form than the common one, so that
    the action group shows an error."""
    payload = json_object(body)
    if payload is None:
        raise Refused(400, "the body is not a JSON object")
    notification = AzureNotification.model_validate(payload)
    if notification.schemaId != SCHEMA:
        raise Refused(400, "not in the common alert schema: turn it on in the action group")
    essentials = notification.data.essentials
    if not essentials.alertId:
        return Ignored("the notification holds no alert")
    if _TEST.fullmatch(essentials.alertRule):
        return Ignored("it is the test of an action group")
    is_resolved = essentials.monitorCondition.casefold() == "resolved"
    at = essentials.firedDateTime
    if is_resolved:
        at = essentials.resolvedDateTime or at
    old = too_old(at, settings, now)
    if old is not None:
        return old
    alert = _alert(notification, settings, now, is_resolved=is_resolved)
    identity = digest_of(essentials.alertId, alert.status, str(at))
    return Arrival(alert, Delivery(SOURCE, identity, at, essentials.alertId), ReplyTo())


def _alert(
    notification: AzureNotification, settings: Settings, now: datetime, *, is_resolved: bool
) -> Alert:
    essentials = notification.data.essentials
    context = notification.data.alertContext
    title = essentials.alertRule or "Alert"
    if _is_of_azure(essentials):
        title = context.properties.get("title") or title
    query = _query(notification)
    # A rule on a metric has its threshold in its query.
    is_metric = query is not None and query.language != "kql"
    alert = Alert(
        source=SOURCE,
        # The alert's id is a path. Its last part is unique.
        id=essentials.alertId.rpartition("/")[2],
        title=title,
        started_at=essentials.firedDateTime or now,
        status="resolved" if is_resolved else "firing",
        severity=essentials.severity,
        threshold=None if is_metric else number_in(context.Threshold),
        summary=essentials.description or "\n".join(context.annotations.values()) or None,
        labels=_labels(notification),
        links=_links(notification),
        query=query,
    )
    if _is_of_azure(essentials) and not notification.data.customProperties:
        return alert
    return identified(alert, settings, now=now, named=_namings(notification, settings))


def _is_of_azure(essentials: Essentials) -> bool:
    return essentials.monitoringService.casefold().replace(" ", "") in OF_AZURE


def _namings(notification: AzureNotification, settings: Settings) -> list[Naming]:
    """What the rule's author says, else the role, else the resource; by our name where the settings
    know it."""
    named: list[Naming] = []
    for name in SERVICE_NAMES:
        named.append(Naming(notification.properties.get(name, ""), f"its property {name}"))
    for name in SERVICE_NAMES:
        named.append(Naming(notification.dimensions.get(name, ""), f"its dimension {name}"))
    essentials = notification.data.essentials
    targets = [target.rpartition("/")[2] for target in essentials.alertTargetIDs]
    if not _is_of_azure(essentials):
        for name in (*targets, *essentials.configurationItems):
            named.append(Naming(name, "the resource that it watches", is_hint=True))
    roles = {}
    for service, entry in settings.services.items():
        if entry.azure_role_name:
            roles[entry.azure_role_name.casefold()] = service
    return [
        replace(naming, service=roles.get(naming.service.casefold(), naming.service))
        for naming in named
    ]


def _labels(notification: AzureNotification) -> dict[str, str]:
    essentials = notification.data.essentials
    target = next(iter(essentials.alertTargetIDs), "")
    resource = _RESOURCE.fullmatch(target)
    query = notification.first.searchQuery or notification.data.alertContext.SearchQuery
    labels = {
        "search_query": query,
        "signal_type": essentials.signalType,
        "monitoring_service": essentials.monitoringService,
        "resource_id": target,
        # The same series of the same rule is the same alert; each firing has its own id.
        "fingerprint": digest_of(
            # Azure compares names and resource ids without case.
            essentials.alertRule.casefold(),
            *sorted(target_id.casefold() for target_id in essentials.alertTargetIDs),
            *(f"{name}={value}" for name, value in sorted(notification.dimensions.items())),
        )[:16],
    }
    if resource is not None:
        labels["subscription"] = resource[1]
        labels["resource_group"] = resource[2] or ""
        labels["resource_type"] = resource[3] or ""
        labels["resource"] = resource[4] or ""
    # The last one wins: a custom property must not replace a label that we rely on.
    return filled({**notification.dimensions, **notification.properties, **labels})


def _links(notification: AzureNotification) -> tuple[Link, ...]:
    pairs = [("Alert", notification.data.essentials.investigationLink)]
    pairs.append(("Query", notification.data.alertContext.LinkToSearchResults))
    for criterion in notification.data.alertContext.condition.allOf:
        query = criterion.linkToFilteredSearchResultsUI or criterion.linkToSearchResultsUI
        pairs.append(("Query", query))
    return tuple(Link(title=title, url=url) for title, url in dict.fromkeys(pairs) if url)


def _query(notification: AzureNotification) -> AlertQuery | None:
    """What the rule waits for: a metric, PromQL, or what a search of logs counts."""
    first, context = notification.first, notification.data.alertContext
    if context.expression:
        return AlertQuery(language="promql", text=context.expression)
    search = first.searchQuery or context.SearchQuery
    if search:
        counts_rows = first.timeAggregation in ("", "Count") or not first.metricMeasureColumn
        return AlertQuery(
            language="kql",
            text=search,
            statistic=first.timeAggregation or None,
            comparison=COMPARISONS.get(first.operator or context.Operator),
            threshold=number_in(first.threshold or context.Threshold),
            window_s=_seconds(context.condition.windowSize),
            dimensions=notification.dimensions,
            # A rule that counts rows has a column in its payload all the same.
            metrics=() if counts_rows else (first.metricMeasureColumn,),
        )
    if not first.metricName:
        return None
    return AlertQuery(
        language="metric",
        text=first.metricName,
        namespace=first.metricNamespace or None,
        statistic=first.timeAggregation or None,
        comparison=COMPARISONS.get(first.operator),
        threshold=number_in(first.threshold),
        window_s=_seconds(context.condition.windowSize),
        dimensions=notification.dimensions,
    )


def _seconds(text: str) -> float | None:
    """An ISO 8601 duration."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds) or None


def _entra_or_token(source: WebhookSource, settings: Settings) -> Receive:
    """Where an application is named, tokens of Entra's form are Entra's to sign; all others are
    compared with ours."""
    by_token = token_in_address(read_azure_alert)(source, settings)
    by_entra: list[tuple[Sender, EntraTokens]] = []
    for sender in source.senders(settings):
        section = source.section_of(sender.settings)
        if isinstance(section, AzureMonitorSettings) and section.webhook_audience:
            # What verifies signatures is loaded only where it is used.
            from faultline.bot.intake.sources.entra_tokens import EntraTokens

            by_entra.append((sender, EntraTokens(section)))

    async def receive(request: WebhookRequest) -> RequestContent:
        scheme, _, token = request.headers.get("authorization", "").strip().partition(" ")
        # A signed token has three parts. Anything else is a token of ours.
        if not by_entra or scheme.casefold() != "bearer" or token.count(".") != 2:
            return await by_token(request)
        # Prove the sender first: nobody else's body is read.
        sender = await _signed_for(by_entra, token.strip())
        body = await request.read()
        return sender.placed(read_azure_alert(body, sender.settings, now=datetime.now(UTC)))

    return receive


async def _signed_for(senders: Sequence[tuple[Sender, EntraTokens]], token: str) -> Sender:
    """Whose application a token is for. Raises BadSignature, NotAccepted."""
    refusals: list[BadSignature] = []
    for sender, tokens in senders:
        try:
            await tokens.verify(token)
        except BadSignature as error:
            refusals.append(error)
        else:
            return sender
    raise refusals[0]


@dataclass(frozen=True, kw_only=True)
class AzureMonitorSource(WebhookSource):
    """Action groups, which prove who they are by a token of ours or by one of Entra's."""

    def missing(self, settings: Settings) -> str | None:
        """Nothing where Entra's tokens are taken."""
        for instance_settings in settings.per_instance(self.section):
            section = self.section_of(instance_settings)
            if isinstance(section, AzureMonitorSettings) and section.webhook_audience:
                return None
        return super().missing(settings)


ALERT_SOURCE = AzureMonitorSource(
    name=SOURCE,
    title="Azure Monitor action groups",
    setup="An action group with a webhook in the common alert schema, to",
    example="{url}?token=YOUR_TOKEN",
    settings=AzureMonitorSettings,
    required=("webhook_tokens",),
    receive=_entra_or_token,
    priority_words=SEVERITIES,
)
