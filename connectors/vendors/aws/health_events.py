"""AWS Health: incidents of AWS itself that are open for the services and regions in scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Scope
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import StateRow, full_window
from faultline.connectors.vendors.aws.calls import AwsCalls, objects
from faultline.connectors.vendors.aws.console import health_link
from faultline.connectors.vendors.aws.evidence import AwsEvidence, cut_note, moment, words
from faultline.connectors.vendors.aws.resource import Resource, ResourceKind
from faultline.connectors.vendors.aws.resource_states import resource_state
from faultline.connectors.vendors.aws.session import AwsPlace

HOME = "us-east-1"
"""Where AWS Health answers for all regions (AWS Health user guide, "Endpoints")."""
MOST_EVENTS = 100
EVERYWHERE = "global"
MACHINES = ("EC2", "VPC", "EBS")
SERVICES: Mapping[ResourceKind, tuple[str, ...]] = {
    "target_group": ("ELASTICLOADBALANCING",),
    "api": ("APIGATEWAY",),
    "lambda": ("LAMBDA",),
    "ecs": ("ECS", *MACHINES),
    "database": ("RDS",),
    "queue": ("SQS",),
    "table": ("DYNAMODB",),
    "cache": ("ELASTICACHE",),
    "scaling_group": ("AUTOSCALING", *MACHINES),
    "instance": MACHINES,
    "stream": ("KINESIS",),
    "state_machine": ("STATES",),
    "nat_gateway": ("VPC", "NATGATEWAY"),
    "db_cluster": ("RDS",),
    "eks": ("EKS", *MACHINES),
}
"""What AWS Health calls the services that a kind of resource depends on."""


async def health_events(
    calls: AwsCalls, place: AwsPlace, resources: Sequence[Resource], scope: Scope
) -> AwsEvidence:
    """Open issues of the services of these resources, all of one place."""
    aws_evidence = AwsEvidence()
    services: dict[str, None] = {}
    for resource in resources:
        services.update(dict.fromkeys(SERVICES.get(resource.kind, ())))
    query = f"DescribeEvents {place} Health open {', '.join(services)}"
    event_filter = {
        "services": list(services),
        # Events of services without regions carry the region `global`.
        "regions": [place.region, EVERYWHERE],
        "eventStatusCodes": ["open"],
        "eventTypeCategories": ["issue"],
    }
    try:
        page = await calls.pages(
            replace(place, region=HOME),
            "health",
            "DescribeEvents",
            "events",
            most=MOST_EVENTS,
            filter=event_filter,
        )
    except FaultlineError as error:
        aws_evidence.lacks("states", query, error)
        return aws_evidence
    rows: list[StateRow] = []
    for event in objects(page.entries):
        rows += _states(event, resources, query)
    aws_evidence.add("states", list(dict.fromkeys(rows)))
    cut = cut_note(len(page.entries), more=page.more, what="events")
    link = health_link(place.region)
    aws_evidence.items.append(
        Item("states", query, full_window(scope), link, rows=len(rows), cut=cut)
    )
    return aws_evidence


def _states(event: Mapping[str, Any], resources: Sequence[Resource], query: str) -> list[StateRow]:
    """The fact for each service of the catalogue that uses what has an incident."""
    concerned: dict[str, Resource] = {}
    service = words(event.get("service"), 60)
    for resource in resources:
        if service in SERVICES.get(resource.kind, ()):
            # One fact for a service, however many of its resources are concerned.
            concerned.setdefault(resource.service, resource)
    code = words(event.get("eventTypeCode"), 100)
    zone = words(event.get("availabilityZone") or event.get("region"), 40)
    rows = []
    for resource in concerned.values():
        row = resource_state(
            resource,
            "provider_incident",
            "eventTypeCode",
            f"{service} in {zone}",
            query,
            since=moment(event.get("startTime")),
            link=health_link(resource.place.region),
            part=("AWS Health event", code),
        )
        rows.append(row)
    return rows
