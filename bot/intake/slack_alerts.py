"""Is a message that another bot posted in a watched channel an alert?

Recognised by the links it carries, which say what is alerting whatever the layout; without such a
link by the few layouts that mean nothing else: `[FIRING:2] title`, `Triggered: title`, a red
attachment with a title.
"""

from __future__ import annotations

import colorsys
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from faultline.analysis.alert_signal.rule_texts import query_of_url
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.intake.payload_fields import filled, plain, single_line
from faultline.bot.intake.service_names import mentioned
from faultline.bot.intake.slack_payload import Message, slack_plain, slack_time, slack_urls
from faultline.bot.settings import Settings
from faultline.connectors.vendors.slack import CHANNEL_LABEL, THREAD_LABEL

SOURCE = "slack"
MAX_IDENTITIES = 3
"""A message about more monitors or incidents than this is a digest, not an alert."""
RED_BELOW = 25 / 360
GREEN_HUES = (80 / 360, 170 / 360)
"""Hues on the colour circle: orange and yellow, which tools use for warnings, are neither."""
_STATE_WORDS = "Triggered|Resolved|Acknowledged|Recovered|Warn|No data|ALARM|OK|PROBLEM|RECOVERY"
_PREFIX = re.compile(
    r"(?P<state>\[(?:FIRING|RESOLVED|ALERTING|OK|PROBLEM|RECOVERY)(?::\d+)?\]"
    rf"|(?:Re-)?(?:{_STATE_WORDS})(?: on .{{1,80}}?| #\d+)?:(?=\s|$))\s*",
    re.IGNORECASE,
)
_ORNAMENT = re.compile(r"^(?:[\s*_]|:[\w+-]{1,40}:)+")
_AWS_CONSOLE = re.compile(r"(^|\.)console\.(aws\.amazon\.com|amazonaws\.cn|amazonaws-us-gov\.com)$")
_ALERTNAME = re.compile(r"[A-Za-z_]\w{2,100}(?= |$)")
"""Alertmanager's title begins with the alert's name (its default template: group labels, that of
the name first)."""
_ENDED = re.compile(r"resolved|recover|\bok\b", re.IGNORECASE)
_SEVERITY = re.compile(r"\b(critical|warning|page|sev-?[0-4]|p[1-5])\b", re.IGNORECASE)


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


def alert_in(message: Message, settings: Settings, *, now: datetime) -> Alert | None:
    """The alert that a bot's message announces or ends, or None when it is no alert."""
    texts = _texts(message)
    links = _alert_links(message)
    identities = list(dict.fromkeys(link.identity for link in links if link.identity))
    if len(identities) > MAX_IDENTITIES:
        return None
    title, state = _title(message, texts)
    titled_hues = {_hue(box.color) for box in message.attachments if box.title}
    # Without a link or a word for its state only a coloured box with a title looks like an alert.
    if not links and not state and not titled_hues & {"red", "green"}:
        return None
    labels = _object_labels(links, title)
    labels["fingerprint"] = identities[0] if identities else f"title:{title.casefold()}"
    unique_links = dict.fromkeys(links)
    return Alert(
        source=SOURCE,
        id=message.ts,
        title=title or "Alert",
        started_at=slack_time(message.ts) or now,
        status="resolved" if _has_ended(message, state) else "firing",
        service=_service(settings, title, texts),
        severity=_severity(texts),
        summary=plain("\n".join(texts), 1_000) or None,
        labels=labels,
        query=_query(message),
        links=tuple(Link(title=link.vendor, url=link.url) for link in unique_links),
    )


def _has_ended(message: Message, state: str) -> bool:
    """By the word for its state; a message without one says it by its colour."""
    if state:
        return bool(_ENDED.search(state))
    return any(_hue(box.color) == "green" for box in message.attachments)


def _alert_links(message: Message) -> list[AlertLink]:
    links: list[AlertLink] = []
    for url in _urls(message):
        link = alert_link(url)
        if link is not None:
            links.append(link)
    return links


def alert_link(url: str) -> AlertLink | None:
    """What a link identifies, if it is one of an alerting tool."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").lower()
    except ValueError:
        return None
    for vendor, read in _VENDORS.items():
        key = read(host, parts)
        if key is not None:
            return AlertLink(vendor, single_line(key), url)
    return None


def in_thread(alert: Alert, channel: str, thread: str) -> Alert:
    """The alert with labels by which the Slack connector finds its thread."""
    return alert.model_copy(
        update={"labels": {**alert.labels, CHANNEL_LABEL: channel, THREAD_LABEL: thread}}
    )


def pagerduty_incident(alert: Alert) -> str | None:
    """The PagerDuty incident that the alert's message links to."""
    vendor, _, key = alert.labels.get("fingerprint", "").partition(":")
    return key if vendor == "PagerDuty" else None


def _pagerduty(host: str, parts: SplitResult) -> str | None:
    match = re.match(r"/incidents/([A-Z0-9]{5,32})\b", parts.path)
    return match[1] if match and host.endswith(".pagerduty.com") else None


def _datadog(host: str, parts: SplitResult) -> str | None:
    match = re.search(r"/monitors[/#](?:triggered/)?(\d{1,18})", f"{parts.path}#{parts.fragment}")
    if match is None or not re.search(r"(^|\.)(datadoghq\.(com|eu)|ddog-gov\.com)$", host):
        return None
    group = parse_qs(parts.query).get("group", [""])[0]
    return f"{match[1]}/{group}" if group else match[1]


def _sentry(host: str, parts: SplitResult) -> str | None:
    cloud = host == "sentry.io" or host.endswith(".sentry.io")
    match = re.match(r"(/organizations/[\w-]+)?/issues/(\d{1,18})\b", parts.path)
    # A self-hosted Sentry can have any host name, so its path must name the organization.
    return match[2] if match and (cloud or match[1]) else None


def _cloudwatch(host: str, parts: SplitResult) -> str | None:
    match = re.search(
        r"(?:alarmsV2:alarm/|[;:&]name=|(?:^|&)alarm=)([^?&;]{1,255})", parts.fragment
    )
    if match is None or not _AWS_CONSOLE.search(host) or not parts.path.startswith("/cloudwatch"):
        return None
    region = parse_qs(parts.query).get("region", [""])[0]
    return f"{region}/{unquote(match[1])}"


def _grafana(_host: str, parts: SplitResult) -> str | None:
    match = re.search(r"/alerting/grafana/([\w-]{1,64})/(?:view|edit)", parts.path)
    if match:
        return match[1]
    # A link to the list is Grafana's, but does not say which rule is alerting.
    return "" if parts.path.endswith("/alerting/list") else None


def _alertmanager(_host: str, parts: SplitResult) -> str | None:
    return "" if parts.fragment.startswith("/alerts") else None


_VENDORS: dict[str, Callable[[str, SplitResult], str | None]] = {
    "PagerDuty": _pagerduty,
    "Datadog": _datadog,
    "Sentry": _sentry,
    "CloudWatch": _cloudwatch,
    "Grafana": _grafana,
    "Alertmanager": _alertmanager,
}
"""Vendor to a reader of its links: the key of what is alerting, "" when the link does not say, None
when not its."""


def _object_labels(links: list[AlertLink], title: str) -> dict[str, str]:
    """Labels by which the connectors find the object that a link names; the first of each
    vendor."""
    parts: dict[str, str] = {}
    # Backwards, so that the first link of a vendor overwrites the others.
    for link in reversed(links):
        if link.vendor == "Datadog":
            parts["monitor_id"] = link.key.partition("/")[0]
        elif link.vendor == "Sentry":
            parts["sentry_issue_id"] = link.key
        elif link.vendor == "CloudWatch":
            parts["aws_region"], _, parts["alarm_name"] = link.key.partition("/")
        elif link.vendor == "Alertmanager":
            name = _ALERTNAME.match(title)
            parts["alertname"] = name[0] if name else ""
    return filled(parts)


def _texts(message: Message) -> list[str]:
    """The lines a reader sees, without those that are only an address."""
    raw = [message.text, *message.blocks]
    for box in message.attachments:
        raw += [box.pretext, box.title, box.text, *box.blocks]
        for field in box.fields:
            raw.append(f"{field.title}: {field.value}")
        # Slack shows the fallback only where there is nothing else.
        if not (box.title or box.text or box.blocks):
            raw.append(box.fallback)
    texts: dict[str, None] = {}
    for text in raw:
        line = slack_plain(text).strip()
        if line and not line.startswith(("http://", "https://")):
            texts[line] = None
    return list(texts)


def _query(message: Message) -> AlertQuery | None:
    """The expression that a link to the rule or its graph shows."""
    for url in _urls(message):
        query = query_of_url(url)
        if query is not None:
            return query
    return None


def _urls(message: Message) -> list[str]:
    raw = [message.text, *message.blocks]
    for box in message.attachments:
        raw += [box.title_link, box.title, box.pretext, box.text, *box.blocks]
        for field in box.fields:
            raw.append(field.value)
    urls: dict[str, None] = {}
    for text in raw:
        urls |= dict.fromkeys(slack_urls(text))
    return list(urls)


def _title(message: Message, texts: list[str]) -> tuple[str, str]:
    """The title without the word for its state, and that word."""
    lines = [slack_plain(box.title) for box in message.attachments if box.title]
    for text in texts:
        lines.append(text.splitlines()[0])
    candidates = [_ORNAMENT.sub("", line) for line in lines]
    for candidate in candidates:
        match = _PREFIX.match(candidate)
        if match:
            return _tidy(candidate[match.end() :]), match["state"]
    for candidate in candidates:
        title = _tidy(candidate)
        if title:
            return title, ""
    return "", ""


def _tidy(title: str) -> str:
    return single_line(_ORNAMENT.sub("", title)).rstrip("*_ ")


def _hue(color: str) -> Literal["red", "green", ""]:
    """What an attachment's colour says: Slack's words, or a hex colour that the eye calls red or
    green."""
    if color == "danger":
        return "red"
    if color == "good":
        return "green"
    digits = color.removeprefix("#")
    if not re.fullmatch(r"[0-9a-fA-F]{6}", digits):
        return ""
    red, green, blue = bytes.fromhex(digits)
    hue, saturation, value = colorsys.rgb_to_hsv(red / 255, green / 255, blue / 255)
    # Grey and nearly black say nothing.
    if saturation < 0.4 or value < 0.3:
        return ""
    # Red lies at both ends of the circle.
    if hue < RED_BELOW or hue > 1 - RED_BELOW:
        return "red"
    if GREEN_HUES[0] < hue < GREEN_HUES[1]:
        return "green"
    return ""


def _service(settings: Settings, title: str, texts: list[str]) -> str | None:
    return mentioned(settings, title) or mentioned(settings, "\n".join(texts))


def _severity(texts: list[str]) -> str | None:
    match = _SEVERITY.search("\n".join(texts))
    return match[1].lower() if match else None
