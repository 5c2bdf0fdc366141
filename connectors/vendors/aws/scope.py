"""What to look at in AWS for one alert: places, the alarm that it names, the resources of the
services in scope."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from urllib.parse import parse_qs, unquote, urlsplit

from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.shared.settings.shared_settings import ServiceAwsSettings
from faultline.connectors.shared.vendor_text import first_of
from faultline.connectors.vendors.aws.alarms import AlarmName
from faultline.connectors.vendors.aws.resource import Resource
from faultline.connectors.vendors.aws.resource_kinds import NAMED_KINDS, catalogued_names
from faultline.connectors.vendors.aws.session import AwsAccount, AwsPlace

MOST_SERVICES = 6
MOST_RESOURCES = 40
MOST_PLACES = 8
ANYWHERE = "anywhere"
NOT_THERE = re.compile(
    r"no samples|no log group|no such|no load balancer|no deployment"
    r"|NotFound|DoesNotExist|NonExistent"
)
"""How it is said that a place does not have something."""
_ALARM_ARN = re.compile(
    r"arn:aws[a-z-]*:cloudwatch:([a-z0-9-]{1,30}):(\d{12}):alarm:(.{1,255})", re.DOTALL
)
_ALARM_PAGE = re.compile(r"(?:alarmsV2:alarm/|[;:&]name=|(?:^|&)alarm=)([^?&;]{1,1000})")
_CONSOLE = re.compile(r"(^|\.)console\.(aws\.amazon\.com|amazonaws\.cn|amazonaws-us-gov\.com)$")
_Named = tuple[str, str | None, str | None]
"""An alarm's name, its region and the number of its account, as far as they are known."""
_ACCOUNT = re.compile(r":iam::(\d{12}):role/")


def places_of(
    regions: Sequence[str], accounts: Sequence[tuple[AwsAccount, Sequence[str]]]
) -> tuple[AwsPlace, ...]:
    """Every region of every account; the account of the bot's own credentials where none is
    named."""
    places = []
    for account, account_regions in accounts or [(AwsAccount("own"), regions)]:
        for region in dict.fromkeys(account_regions or regions):
            places.append(AwsPlace(account, region))
    return tuple(places)


def service_places(entry: ServiceAwsSettings | None, places: Sequence[AwsPlace]) -> list[AwsPlace]:
    """Where a service may be."""
    if entry is None:
        return list(places[:MOST_PLACES])
    fitting = []
    for place in places:
        is_account = entry.account in (None, place.account.name)
        is_region = entry.region in (None, place.region)
        if is_account and is_region:
            fitting.append(place)
    return fitting[:MOST_PLACES]


def resources_of(
    service: str, entry: ServiceAwsSettings | None, places: Sequence[AwsPlace]
) -> list[Resource]:
    """The resources that the catalogue names for a service, in each place where they may be."""
    if entry is None:
        return []
    possible = service_places(entry, places)
    resources = []
    for named in NAMED_KINDS:
        for name in catalogued_names(entry, named):
            resources += [Resource(named.kind, name, service, place) for place in possible]
    return resources


def named_alarms(alert: Alert, places: Sequence[AwsPlace]) -> list[AlarmName]:
    """The alarms that the alert's labels or links name, in the places where they may be."""
    named = [*_alarm_by_label(alert), *_alarms_by_link(alert)]
    alarms: dict[tuple[str, AwsPlace], AlarmName] = {}
    for name, region, account in named:
        for place in _where(places, region, account):
            alarms.setdefault((name, place), AlarmName(name, place))
    return list(alarms.values())[:MOST_PLACES]


def _alarm_by_label(alert: Alert) -> Iterator[_Named]:
    arn = _ALARM_ARN.fullmatch(_label(alert, "alarm_arn", "AlarmArn"))
    if arn:
        yield arn[3], arn[1], arn[2]
        return
    name = _label(alert, "alarm_name", "AlarmName")
    if name:
        yield name, alert.labels.get("aws_region"), alert.labels.get("aws_account")


def _alarms_by_link(alert: Alert) -> Iterator[_Named]:
    for link in alert.links:
        page = _alarm_page(link.url)
        if page is not None:
            name, region = page
            yield name, region, alert.labels.get("aws_account")


def their_names(
    service: str, aliases: Iterable[str], entry: ServiceAwsSettings | None
) -> tuple[str, ...]:
    """Names under which X-Ray may know a service."""
    if entry is None:
        return tuple(dict.fromkeys((service, *aliases)))
    tasks = [name.rpartition("/")[2] for name in entry.ecs]
    return tuple(dict.fromkeys((*entry.xray, service, *aliases, *entry.lambdas, *tasks)))


def without_elsewhere_gaps(collection: Collected, places: Sequence[AwsPlace]) -> Collected:
    """Without the gaps of a place that does not have what another place has: a service may be in
    any of them."""
    if len(places) < 2:
        return collection
    anywheres = [_anywhere(item.query, places) for item in collection.items if item.rows]
    logs = [query for query in anywheres if query.startswith("Logs Insights")]

    def is_elsewhere(query: str) -> bool:
        text = _anywhere(query, places)
        # A log group that is there is not described but read.
        if text.startswith("DescribeLogGroups"):
            group = text.removeprefix(f"DescribeLogGroups {ANYWHERE} ")
            return any(group in log for log in logs)
        return any(anywhere.startswith(text) for anywhere in anywheres)

    missing = []
    for gap in collection.missing:
        if not (NOT_THERE.search(gap.reason) and is_elsewhere(gap.query)):
            missing.append(gap)
    return replace(collection, missing=tuple(missing))


def _anywhere(query: str, places: Sequence[AwsPlace]) -> str:
    for place in places:
        query = query.replace(f" {place} ", f" {ANYWHERE} ", 1)
    return query


def _label(alert: Alert, *names: str) -> str:
    """The first of these labels; PagerDuty hands on CloudWatch's own names."""
    return first_of(alert.labels, names) or ""


def _where(places: Sequence[AwsPlace], region: str | None, account: str | None) -> list[AwsPlace]:
    """Places of that region, of that account where a role tells which account it is in."""
    in_region = [place for place in places if region in (None, "", place.region)]
    in_account = [place for place in in_region if account and _account_id(place) == account]
    # A place without a role does not tell its account, so it may be this one.
    unknown = [place for place in in_region if _account_id(place) is None]
    return in_account or (unknown if account else in_region)


def _account_id(place: AwsPlace) -> str | None:
    match = _ACCOUNT.search(place.account.role_arn or "")
    return match[1] if match else None


def _alarm_page(url: str) -> tuple[str, str | None] | None:
    """Name and region of the alarm whose console page this is."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return None
    # Foreign link: read a name only from a page of the console.
    page = _ALARM_PAGE.search(parts.fragment)
    if page is None or not _CONSOLE.search(host) or not parts.path.startswith("/cloudwatch"):
        return None
    region = parse_qs(parts.query).get("region", [""])[0]
    return unquote(page[1])[:255], region or None
