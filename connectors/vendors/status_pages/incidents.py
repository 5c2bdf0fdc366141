"""What the formats of status pages say of a provider's incidents, as one value.

Sources: Statuspage, any page's own /api (`incidents.json`); incident.io answers the same path, with
`null` for empty lists and without components. AWS, no documentation: fields as several open
readers of `public/currentevents` have them (UTF-16, `date` in Unix seconds, `status` from 0 for
resolved over 1 for information and 2 for degraded to 3 for disrupted). Google Cloud,
status.cloud.google.com/incidents.schema.json. Azure and others, RSS 2.0 and Atom (RFC 4287). Azure
Service Health, `events` of Microsoft.ResourceHealth in Azure's REST API specifications; levels,
learn.microsoft.com, "Service health notifications".
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from xml.etree import ElementTree

import msgspec

from faultline.connectors.shared.vendor_text import short

MOST_INCIDENTS = 200
LONGEST_TITLE = 160
NO_IMPACT = ("none", "maintenance", "information")
SERIOUS = ("major", "critical")
_AWS_IMPACT = {"1": "information", "2": "minor", "3": "major"}
_GOOGLE_IMPACT = {
    "SERVICE_INFORMATION": "information",
    "AVAILABLE": "information",
    "AVAILABLE_INFORMATION": "information",
    "SERVICE_DISRUPTION": "minor",
    "SERVICE_OUTAGE": "major",
}
_AZURE_IMPACT = {
    "Critical": "critical",
    "Error": "major",
    "Warning": "minor",
    "Informational": "minor",
}
"""An error is widespread, a warning is about some services or regions. Of informational issues
management or latency suffers, and not the availability."""
_ATOM = "{http://www.w3.org/2005/Atom}"
_TAGS = re.compile(r"<[^<>]{0,500}>")


@dataclass(frozen=True)
class ProviderIncident:
    """One incident; `until` None: it goes on, or nobody says that it ended."""

    title: str
    since: datetime | None
    until: datetime | None = None
    impact: str = ""
    """In Statuspage's words; empty where the format has none."""
    parts: tuple[str, ...] = ()
    """Components or products; empty where none are named."""
    regions: tuple[str, ...] = ()
    link: str | None = None


class _Component(msgspec.Struct):
    name: str = ""


class _StatuspageIncident(msgspec.Struct):
    name: str = ""
    status: str = ""
    impact: str | None = None
    created_at: str | None = None
    started_at: str | None = None
    resolved_at: str | None = None
    shortlink: str | None = None
    components: list[_Component] | None = None


class _StatuspageAnswer(msgspec.Struct):
    incidents: list[_StatuspageIncident] | None


class _AwsService(msgspec.Struct):
    service_name: str = ""


class _AwsEvent(msgspec.Struct):
    date: str | int | None = None
    region_name: str | None = None
    service_name: str | None = None
    status: str | int | None = None
    summary: str | None = None
    arn: str = ""
    impacted_services: dict[str, _AwsService] | None = None


class _GooglePlace(msgspec.Struct):
    id: str = ""
    title: str = ""


class _GoogleIncident(msgspec.Struct):
    external_desc: str = ""
    begin: str | None = None
    end: str | None = None
    status_impact: str = ""
    uri: str = ""
    affected_products: list[_GooglePlace] | None = None
    currently_affected_locations: list[_GooglePlace] | None = None
    previously_affected_locations: list[_GooglePlace] | None = None


class _AzureRegion(msgspec.Struct, rename="camel"):
    impacted_region: str | None = None


class _AzurePart(msgspec.Struct, rename="camel"):
    impacted_service: str | None = None
    impacted_regions: list[_AzureRegion] | None = None


class _AzureIssue(msgspec.Struct, rename="camel"):
    event_type: str | None = None
    status: str | None = None
    title: str | None = None
    level: str | None = None
    event_level: str | None = None
    event_tags: list[str] | None = None
    impact_start_time: str | None = None
    impact_mitigation_time: str | None = None
    last_update_time: str | None = None
    impact: list[_AzurePart] | None = None

    @property
    def until(self) -> datetime | None:
        """When it ended; None while it goes on."""
        if self.status != "Resolved":
            return None
        return _iso(self.impact_mitigation_time) or _iso(self.last_update_time)

    @property
    def regions(self) -> list[str]:
        """The regions of its parts; none where it counts for every region."""
        regions: list[str] = []
        for part in self.impact or ():
            regions += [short(of.impacted_region or "", 60) for of in part.impacted_regions or ()]
        is_global = any(region.casefold() == "global" for region in regions)
        return [] if is_global else regions


class _AzureHealthEvent(msgspec.Struct):
    properties: _AzureIssue | None = None


class _AzureHealthEvents(msgspec.Struct, rename="camel"):
    value: list[_AzureHealthEvent]
    next_link: str | None = None


def of_service_health(body: bytes) -> tuple[list[ProviderIncident], str]:
    """The service issues of a subscription, and the address of the next page. Advisories, planned
    maintenance and what Azure took back are left out. Raises msgspec.DecodeError."""
    answer = msgspec.json.decode(body, type=_AzureHealthEvents)
    incidents = []
    for event in answer.value:
        properties = event.properties
        if properties is None or properties.event_type != "ServiceIssue":
            continue
        if "False Positive" in (properties.event_tags or ()):
            continue
        impact = _AZURE_IMPACT.get(properties.event_level or properties.level or "", "")
        parts = [short(part.impacted_service or "", 80) for part in properties.impact or ()]
        incidents.append(
            ProviderIncident(
                _title(properties.title),
                _iso(properties.impact_start_time),
                properties.until,
                impact,
                tuple(dict.fromkeys(filter(None, parts))),
                tuple(dict.fromkeys(filter(None, properties.regions))),
            )
        )
    return incidents, answer.next_link or ""


def of_statuspage(body: bytes) -> list[ProviderIncident]:
    """Statuspage's list of the last fifty. Raises ValueError, msgspec.DecodeError."""
    incidents = []
    for incident in msgspec.json.decode(body, type=_StatuspageAnswer).incidents or ():
        parts = tuple(short(part.name, 80) for part in incident.components or () if part.name)
        ended = incident.status in ("resolved", "postmortem", "completed")
        since = _iso(incident.started_at) or _iso(incident.created_at)
        until = _iso(incident.resolved_at)
        # It is over, but nothing says since when.
        if ended and until is None:
            continue
        impact = (incident.impact or "").lower()
        incidents.append(
            ProviderIncident(
                _title(incident.name), since, until, impact, parts, (), incident.shortlink
            )
        )
    return incidents


def of_aws(body: bytes) -> list[ProviderIncident]:
    """AWS' open events. Raises ValueError, msgspec.DecodeError."""
    # AWS answers in UTF-16, with a byte order mark.
    wide = body[:2] in (b"\xff\xfe", b"\xfe\xff")
    text = body.decode("utf-16") if wide else body.decode()
    incidents = []
    for aws_event in msgspec.json.decode(text, type=list[_AwsEvent]):
        impact = _AWS_IMPACT.get(str(aws_event.status))
        # 0 is resolved, and an unknown status says nothing.
        if impact is None:
            continue
        named = [service.service_name for service in (aws_event.impacted_services or {}).values()]
        names = dict.fromkeys(
            short(name, 80) for name in [aws_event.service_name or "", *named] if name
        )
        # The fourth part of an ARN is its region.
        regions = {part for part in aws_event.arn.split(":")[3:4] if part}
        regions |= {short(aws_event.region_name, 80)} if aws_event.region_name else set()
        title = _title(f"{aws_event.service_name or 'AWS'}: {aws_event.summary or ''}")
        since = _epoch(aws_event.date)
        incidents.append(
            ProviderIncident(title, since, None, impact, tuple(names), tuple(sorted(regions)))
        )
    return incidents


def of_google(body: bytes) -> list[ProviderIncident]:
    """Google Cloud's incidents of the last months. Raises ValueError, msgspec.DecodeError."""
    incidents = []
    for incident in msgspec.json.decode(body, type=list[_GoogleIncident]):
        places = [*(incident.currently_affected_locations or ())]
        places += incident.previously_affected_locations or ()
        products = tuple(short(part.title, 80) for part in incident.affected_products or ())
        regions = tuple(dict.fromkeys(short(place.id, 60) for place in places if place.id))
        impact = _GOOGLE_IMPACT.get(incident.status_impact, "")
        uri = incident.uri.lstrip("/")
        link = f"https://status.cloud.google.com/{uri}" if re.fullmatch(r"[\w./-]+", uri) else None
        title, since, until = (
            _title(incident.external_desc),
            _iso(incident.begin),
            _iso(incident.end),
        )
        incidents.append(ProviderIncident(title, since, until, impact, products, regions, link))
    return incidents


def of_feed(body: bytes) -> list[ProviderIncident]:
    """The entries of an RSS or Atom feed. Raises ValueError for what is none, and for a document
    with declarations."""
    # A feed may begin with a byte order mark.
    text = body.decode("utf-8-sig")
    # Without a declaration there is no entity to expand and none to fetch.
    if "<!DOCTYPE" in text.upper() or "<!ENTITY" in text.upper():
        raise ValueError("declares a document type, which feeds do not need")
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  see above
    except ElementTree.ParseError:
        raise ValueError("is no XML") from None
    if root.tag == "rss":
        return list(_of_rss(root.iter("item")))
    if root.tag == f"{_ATOM}feed":
        return list(_of_atom(root.iter(f"{_ATOM}entry")))
    raise ValueError("is no RSS or Atom feed")


def _of_rss(items: Iterable[ElementTree.Element]) -> Iterator[ProviderIncident]:
    for item in items:
        since = _mail_date(item.findtext("pubDate"))
        yield ProviderIncident(_title(item.findtext("title")), since, link=item.findtext("link"))


def _of_atom(entries: Iterable[ElementTree.Element]) -> Iterator[ProviderIncident]:
    for entry in entries:
        link = entry.find(f"{_ATOM}link")
        since = _iso(entry.findtext(f"{_ATOM}published") or entry.findtext(f"{_ATOM}updated"))
        href = link.get("href") if link is not None else None
        yield ProviderIncident(_title(entry.findtext(f"{_ATOM}title")), since, link=href)


def _title(text: str | None) -> str:
    """One line; some pages have HTML in it."""
    # Cut first: a title may be a whole page of HTML.
    return short(html.unescape(_TAGS.sub(" ", (text or "")[:2000])), LONGEST_TITLE)


def _iso(text: str | None) -> datetime | None:
    if not text or len(text) > 40:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    # A time without a zone may be hours off.
    return at if at.tzinfo else None


def _mail_date(text: str | None) -> datetime | None:
    if not text or len(text) > 60:
        return None
    try:
        at = parsedate_to_datetime(text.strip())
    except (ValueError, TypeError):
        return None
    # `-0000` means UTC, and Python gives no zone for it.
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _epoch(seconds: str | int | None) -> datetime | None:
    text = str(seconds)
    if not (text.isascii() and text.isdigit() and len(text) <= 11):
        return None
    return datetime.fromtimestamp(int(text), UTC)
