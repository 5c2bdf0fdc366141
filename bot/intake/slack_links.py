"""What the links in a Slack message identify: an object of a vendor, or an alert, check or incident
of any tool.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from faultline.bot.intake.payload_fields import single_line

_AWS_CONSOLE = r"(?:.+\.)?console\.(?:aws\.amazon\.com|amazonaws\.cn|amazonaws-us-gov\.com)"
_DATADOG = r"(?:.+\.)?(?:datadoghq\.(?:com|eu)|ddog-gov\.com)"


@dataclass(frozen=True)
class AlertLink:
    """A link that identifies what is alerting."""

    vendor: str
    key: str
    url: str

    @property
    def identity(self) -> str:
        """Equal for each message about the same thing; "" where the link does not say which
        thing."""
        return f"{self.vendor}:{self.key}" if self.key else ""


@dataclass(frozen=True)
class LinkForm:
    """How a vendor's links look: `target` is matched against path and fragment, and its group is
    the key. `before` and `after` are parameters that belong to the key."""

    vendor: str
    host: str
    target: str
    before: str = ""
    after: str = ""

    def key(self, host: str, parts: SplitResult) -> str | None:
        """The key in a link, "" where the link is the vendor's and names nothing; None where it is
        not the vendor's."""
        match = re.search(self.target, f"{parts.path}#{parts.fragment}")
        if match is None or not re.fullmatch(self.host, host):
            return None
        parameters = parse_qs(parts.query, max_num_fields=200)
        before, after = (parameters.get(name, [""])[0] for name in (self.before, self.after))
        key = unquote(match[1]) if match.re.groups else ""
        if self.before:
            key = f"{before}/{key}"
        return f"{key}/{after}" if after else key


LINK_FORMS = (
    LinkForm("PagerDuty", r".+\.pagerduty\.com", r"^/incidents/([A-Z0-9]{5,32})\b"),
    LinkForm("Datadog", _DATADOG, r"/monitors[/#](?:triggered/)?(\d{1,18})", after="group"),
    LinkForm("Sentry", r"(?:.+\.)?sentry\.io", r"^/issues/(\d{1,18})\b"),
    # A self-hosted Sentry can have any host name, so its path must name the organization.
    LinkForm("Sentry", ".*", r"^/organizations/[\w-]+/issues/(\d{1,18})\b"),
    LinkForm(
        "CloudWatch",
        _AWS_CONSOLE,
        r"^/cloudwatch[^#]*#(?:alarm=|.*?(?:alarmsV2:alarm/|[;:&]name=|&alarm=))([^?&;]{1,255})",
        before="region",
    ),
    LinkForm("Grafana", ".*", r"/alerting/grafana/([\w-]{1,64})/(?:view|edit)"),
    # A link to the list is Grafana's, but does not say which rule is alerting.
    LinkForm("Grafana", ".*", r"/alerting/list#"),
    LinkForm("Alertmanager", ".*", r"#/alerts"),
)
"""The vendors whose objects a connector looks up, or whose links say surely that something alerts.
All others are known by the shape of their links."""

_OBJECT = re.compile(
    r"/(?:incidents?|issues?|alerts?|checks?|monitors?|triggers?|problems?|errors?|events?|alarms?"
    r"|faults?|outages?|a/i/[\w-]{1,60})/([\w.:-]{1,100})"
)
_OBJECT_PARAMETER = re.compile(
    r"[?&#;/](?:check|alert|incident|issue|problem|trigger|event|monitor|p)_?(?:id)?=([\w-]{1,64})",
    re.IGNORECASE,
)
_PAGES = frozenset(
    [
        "list",
        "new",
        "all",
        "edit",
        "view",
        "silences",
        "rules",
        "open",
        "history",
        "settings",
        "create",
    ]
)
"""Words that follow in an address where no object is named."""
_CODE_HOST = re.compile(
    r"(?:^|[.-])(?:github|gitlab|bitbucket|gitea|jira|atlassian|linear|trello)\b"
)
_STATUS_PAGE = re.compile(
    r"^(?:www\.)?status\.|(?:^|\.)(?:[a-z0-9-]{1,60}status\.(?:com|io|org|net|app|dev)"
    r"|statuspage\.io|stspg\.(?:io|co))$"
)


def alert_link(url: str) -> AlertLink | None:
    """What a link identifies, if it is one of a vendor that is looked up."""
    parts = _parts(url)
    if parts is None:
        return None
    host = (parts.hostname or "").lower()
    for form in LINK_FORMS:
        key = form.key(host, parts)
        if key is not None:
            return AlertLink(form.vendor, single_line(key), url)
    return None


def object_link(url: str) -> AlertLink | None:
    """What a link of any tool identifies, if its address names an incident, alert, check or the
    like."""
    parts = _parts(url)
    if parts is None or is_of_tracker(url) or is_of_status_page(url):
        return None
    match = _OBJECT.search(parts.path) or _OBJECT.search("/" + parts.fragment)
    if match is None or match[1].lower() in _PAGES:
        match = _OBJECT_PARAMETER.search(f"{parts.path}?{parts.query}#{parts.fragment}")
    if match is None:
        return None
    host = (parts.hostname or "").lower()
    return AlertLink(host, single_line(match[1]), url)


def is_of_tracker(url: str) -> bool:
    """Whether a link leads to code or tickets."""
    parts = _parts(url)
    host = (parts.hostname or "").lower() if parts else ""
    return bool(_CODE_HOST.search(host))


def is_of_status_page(url: str) -> bool:
    """Whether a link leads to a public status page: not to a monitor of a tool that makes such."""
    parts = _parts(url)
    if parts is None or re.search(r"/(?:monitors?|checks?)/", parts.path):
        return False
    return bool(_STATUS_PAGE.search((parts.hostname or "").lower()))


def _parts(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        # The host is read only here, and raises for hosts such as `[`.
        return parts if parts.hostname is not None else None
    except ValueError:
        return None
