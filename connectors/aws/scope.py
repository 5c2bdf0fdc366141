"""What to look at in AWS for one alert: places, the alarm that it names, the resources of the
services in scope."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from urllib.parse import parse_qs, unquote, urlsplit

from analysis.vocabulary import Alert
from connectors.aws.alarms import AlarmName
from connectors.aws.resource import Resource, ResourceKind
from connectors.aws.session import AwsAccount, AwsPlace
from connectors.aws.settings import ServiceAwsSettings
from connectors.base import Collected

MOST_SERVICES = 6
MOST_RESOURCES = 40
MOST_PLACES = 8
ANYWHERE = "anywhere"
_NOT_THERE = re.compile(
    r"no samples|no log group|no such|no load balancer|no deployment|NotFound|DoesNotExist"
)
_ALARM_ARN = re.compile(
    r"arn:aws[a-z-]*:cloudwatch:([a-z0-9-]{1,30}):(\d{12}):alarm:(.{1,255})", re.DOTALL
)
_ALARM_PAGE = re.compile(r"(?:alarmsV2:alarm/|[;:&]name=|(?:^|&)alarm=)([^?&;]{1,1000})")
_CONSOLE = re.compile(r"(^|\.)console\.(aws\.amazon\.com|amazonaws\.cn|amazonaws-us-gov\.com)$")
_ACCOUNT = re.compile(r":iam::(\d{12}):role/")


def places_of(
    regions: Sequence[str], accounts: Sequence[tuple[AwsAccount, Sequence[str]]]
) -> tuple[AwsPlace, ...]:
    """Every region of every account; the account of the bot's own credentials where none is
    named."""
    whose = accounts or [(AwsAccount("own"), regions)]
    return tuple(
        AwsPlace(account, region)
        for account, own in whose
        for region in dict.fromkeys(own or regions)
    )


def service_places(entry: ServiceAwsSettings | None, places: Sequence[AwsPlace]) -> list[AwsPlace]:
    """Where a service may be."""
    account, region = (entry.account, entry.region) if entry else (None, None)
    return [p for p in places if account in (None, p.account.name) and region in (None, p.region)][
        :MOST_PLACES
    ]


def resources_of(
    service: str, entry: ServiceAwsSettings | None, places: Sequence[AwsPlace]
) -> list[Resource]:
    """The resources that the catalogue names for a service, in each place where they may be."""
    if entry is None:
        return []
    named: tuple[tuple[ResourceKind, Sequence[str]], ...] = (
        ("target_group", entry.target_groups),
        ("api", entry.apis),
        ("lambda", entry.lambdas),
        ("ecs", entry.ecs),
        ("database", entry.databases),
        ("queue", entry.queues),
    )
    there = service_places(entry, places)
    return [
        Resource(kind, name, service, place)
        for kind, names in named
        for name in names
        for place in there
    ]


def named_alarms(alert: Alert, places: Sequence[AwsPlace]) -> list[AlarmName]:
    """The alarms that the alert's labels or links name, in the places where they may be."""
    found: dict[tuple[str, str | None, str | None], None] = {}
    if arn := _ALARM_ARN.fullmatch(_label(alert, "alarm_arn", "AlarmArn")):
        found[arn[3], arn[1], arn[2]] = None
    elif name := _label(alert, "alarm_name", "AlarmName"):
        found[name, alert.labels.get("aws_region"), alert.labels.get("aws_account")] = None
    for link in alert.links:
        if (page := _alarm_page(link.url)) is not None:
            found.setdefault((page[0], page[1], alert.labels.get("aws_account")), None)
    names = {
        (name, place): None
        for name, region, account in found
        for place in _where(places, region, account)
    }
    return [AlarmName(name, place) for name, place in names][:MOST_PLACES]


def their_names(
    service: str, aliases: Iterable[str], entry: ServiceAwsSettings | None
) -> tuple[str, ...]:
    """Names under which X-Ray may know a service."""
    functions = entry.lambdas if entry else ()
    tasks = (name.rpartition("/")[2] for name in entry.ecs) if entry else ()
    named = entry.xray if entry else ()
    return tuple(dict.fromkeys((*named, service, *aliases, *functions, *tasks)))


def without_found_elsewhere(found: Collected, places: Sequence[AwsPlace]) -> Collected:
    """Without the gaps of a place that does not have what another place has: a service may be in
    any of them."""
    if len(places) < 2:
        return found
    brought = [_anywhere(item.query, places) for item in found.items if item.rows]
    logs = [query for query in brought if query.startswith("Logs Insights")]

    def elsewhere(query: str, reason: str) -> bool:
        text = _anywhere(query, places)
        group = (
            text.removeprefix(f"DescribeLogGroups {ANYWHERE} ")
            if text.startswith("DescribeLogGroups")
            else None
        )
        known = (
            any(group in one for one in logs)
            if group
            else any(one.startswith(text) for one in brought)
        )
        return known and bool(_NOT_THERE.search(reason))

    missing = tuple(gap for gap in found.missing if not elsewhere(gap.query, gap.reason))
    return replace(found, missing=missing)


def _anywhere(query: str, places: Sequence[AwsPlace]) -> str:
    for place in places:
        query = query.replace(f" {place} ", f" {ANYWHERE} ", 1)
    return query


def _label(alert: Alert, *names: str) -> str:
    """The first of these labels; PagerDuty hands on CloudWatch's own names."""
    return next((alert.labels[name] for name in names if alert.labels.get(name)), "")


def _where(places: Sequence[AwsPlace], region: str | None, account: str | None) -> list[AwsPlace]:
    """Places of that region, of that account where a role tells which account it is in."""
    in_region = [place for place in places if region in (None, "", place.region)]
    known = [place for place in in_region if account and _account_id(place) == account]
    unknown = [place for place in in_region if _account_id(place) is None]
    return known or (unknown if account else in_region)


def _account_id(place: AwsPlace) -> str | None:
    found = _ACCOUNT.search(place.account.role_arn or "")
    return found[1] if found else None


def _alarm_page(url: str) -> tuple[str, str | None] | None:
    """Name and region of the alarm whose console page this is."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    page = _ALARM_PAGE.search(parts.fragment)
    if page is None or not _CONSOLE.search(host) or not parts.path.startswith("/cloudwatch"):
        return None
    region = parse_qs(parts.query).get("region", [""])[0]
    return unquote(page[1])[:255], region or None
