"""Is a message that another bot posted in a watched channel an alert?

It is judged by its shape, whoever sent it: a word for a state, a colour or an emoji, fields such as
a severity, links to an incident. Each is a piece of evidence with a weight. Messages about builds,
deploys, reports, reminders and the like start nothing, unless they name a state as alerts do.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from faultline.analysis.alert_signal.rule_texts import query_of_url
from faultline.analysis.kinds.place_names import place_identity
from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.intake.payload_fields import filled, plain, single_line
from faultline.bot.intake.service_names import identified
from faultline.bot.intake.slack_facts import (
    ALERT_KEYS,
    STATE_KEYS,
    TITLE_KEYS,
    began_at,
    namings_of,
    object_labels,
    severity_of,
    subject_of,
)
from faultline.bot.intake.slack_layout import Layout, bare, layout_of
from faultline.bot.intake.slack_links import (
    AlertLink,
    alert_link,
    is_of_status_page,
    is_of_tracker,
    object_link,
)
from faultline.bot.intake.slack_payload import Message, slack_time
from faultline.bot.intake.slack_words import (
    DELIVERED,
    DELIVERY_KEYS,
    DELIVERY_PATHS,
    FAULT,
    GENERIC_WORDS,
    GREETING,
    MONITORED_THING,
    OTHER,
    WEAK_VALUES,
    StateName,
    emoji_state,
    state_in,
    state_value,
)
from faultline.bot.settings import Settings
from faultline.connectors.vendors.slack import CHANNEL_LABEL, THREAD_LABEL

SOURCE = "slack"
MAX_IDENTITIES = 3
"""A message about more monitors or incidents than this is a digest, not an alert."""
ENOUGH, ENOUGH_FOR_TEXT = 2, 3
"""Points of evidence that make an alert; a plain sentence needs more, as chat is plain too."""
_BRACKET = re.compile(r"\[([^\[\]\n]{1,60})\]\s*")
_SEPARATOR = re.compile(r":(?=\s|$)|\s[-–—|]\s|：")
_CUT = re.compile(r" on | #\d| in \d| for |[:：]\d|[,;(]", re.IGNORECASE)
_GENERIC_IN_HEAD = re.compile(
    r"\b(?:re-|alert|alerts|monitor|incident|issue|check|service|host|status|state|is|has|been|new"
    r"|the|a|event|notification|type|[a-z]{1,6}-\d{1,8})\b ?",
    re.IGNORECASE,
)
_QUOTED_NAME = re.compile(r"[\"“„«][^\"”“»\n]{2,80}[\"”“»]")
_NUMBER = re.compile(r"^#\d{1,12}:?\s+")
_ADDRESS = re.compile(r"\s?[(<\[]\s?https?://[^\s)>\]]{1,2048}\s?[)>\]]")
_WORD = re.compile(r"[\w'-]+")
_ALERTNAME = re.compile(r"[A-Za-z_]\w{2,100}(?= |$)")
"""Alertmanager's title begins with the alert's name (its default template: group labels, that of
the name first)."""
_FIGURE = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d|\bHTTP \d{3}\b|[<>]=? ?\d|\d ?%|\b[45]\d\d\b")

Form = Literal["prefix", "field", "headline", ""]


@dataclass(frozen=True)
class State:
    """What a message says of the state, where it says so, and the title without those words."""

    name: StateName | None = None
    form: Form = ""
    is_weak: bool = False
    headline: str = ""
    title: str = ""


@dataclass(frozen=True)
class Reading:
    """A message as an alert; or why it is none. Only what `starts` may begin an investigation: an
    acknowledgement does not."""

    alert: Alert | None = None
    starts: bool = False
    why_not: str = ""


def alert_in(message: Message, settings: Settings, *, now: datetime) -> Alert | None:
    """The alert that a bot's message announces or ends, or None when it is no alert."""
    return read_message(message, settings, now=now).alert


def read_message(message: Message, settings: Settings, *, now: datetime) -> Reading:
    """What a bot's message is."""
    layout = layout_of(message)
    links = [link for link in map(alert_link, layout.urls) if link]
    if len({link.identity for link in links} - {""}) > MAX_IDENTITIES:
        return Reading(why_not="a report or digest")
    state = _state(layout)
    why_not = _other_message(layout, state, links)
    if why_not:
        return Reading(why_not=why_not)
    objects = [link for link in map(object_link, layout.urls) if link]
    is_text = not (layout.is_structured or links or objects)
    if _evidence(layout, state, links, objects) < (ENOUGH_FOR_TEXT if is_text else ENOUGH):
        return Reading(why_not="nothing that an alert shows")
    name = state.name or layout.shown_state or "firing"
    posted_at = slack_time(message.ts) or now
    alert = _alert(message, layout, state, name, links, objects, settings, posted_at)
    return Reading(alert, starts=name == "firing", why_not="acknowledged, or a note")


def _alert(
    message: Message,
    layout: Layout,
    state: State,
    name: StateName,
    links: list[AlertLink],
    objects: list[AlertLink],
    settings: Settings,
    posted_at: datetime,
) -> Alert:
    title = _title(layout, state)
    # Another headline than the title may speak of a part, such as one pod.
    headline = state.headline if _tidy(state.title) in title else title
    subject = subject_of(headline, state.form == "prefix")
    identity = next((link.identity for link in (*links, *objects) if link.identity), "")
    # A monitor that is up or down has a name, and messages about it differ in everything else.
    if not identity and subject.is_monitor:
        identity = f"subject:{message.sender}:{subject.name.casefold()}"
    labels = {**object_labels(layout), **_vendor_labels(links, title)}
    titled = " ".join((f"title:{title.casefold()}", *place_identity(labels)))
    labels["fingerprint"] = identity or titled
    alert = Alert(
        source=SOURCE,
        id=message.ts,
        title=title or "Alert",
        started_at=posted_at if name == "resolved" else began_at(layout, posted_at),
        status="resolved" if name == "resolved" else "firing",
        severity=severity_of(layout),
        summary=plain("\n".join(layout.lines), 1_000) or None,
        labels=labels,
        # The expression that a link to the rule or its graph shows.
        query=next(filter(None, map(query_of_url, layout.urls)), None),
        links=tuple(
            Link(title=link.vendor, url=link.url) for link in dict.fromkeys(links or objects)
        )[:10],
    )
    named = list(namings_of(settings, layout, title, subject))
    return identified(alert, settings, now=posted_at, named=named)


def in_thread(alert: Alert, channel: str, thread: str) -> Alert:
    """The alert with labels by which the Slack connector finds its thread."""
    return alert.model_copy(
        update={"labels": {**alert.labels, CHANNEL_LABEL: channel, THREAD_LABEL: thread}}
    )


def pagerduty_incident(alert: Alert) -> str | None:
    """The PagerDuty incident that the alert's message links to."""
    vendor, _, key = alert.labels.get("fingerprint", "").partition(":")
    return key if vendor == "PagerDuty" else None


def _state(layout: Layout) -> State:
    """A word before a title says it most clearly, then a field, then a headline."""
    headlines = [_NUMBER.sub("", bare(line)).replace("`", "") for line in layout.headlines]
    prefixes = [prefix for line in headlines if (prefix := _prefix(line)) is not None]
    for prefix in prefixes:
        if not prefix.is_weak:
            return prefix
    for value in layout.values(STATE_KEYS):
        name = state_value(value) or state_value(value.partition(" ")[0]) or state_in(value)
        if name is not None:
            return State(name, "field", is_weak=value.casefold() in WEAK_VALUES)
    if prefixes:
        return prefixes[0]
    for line in headlines:
        name = state_in(line)
        if name is not None:
            return State(name, "headline", headline=line, title=line)
    return State()


def _prefix(line: str) -> State | None:
    """The state in brackets or before a colon or dash, and the rest of the line."""
    for match in list(_BRACKET.finditer(line[:200]))[:4]:
        name = _head_state(match[1])
        if name is not None:
            rest = (line[: match.start()] + line[match.end() :]).strip()
            is_weak = bare(match[1]).casefold() in WEAK_VALUES
            return State(name, "prefix", is_weak, rest, rest)
    separators = list(_SEPARATOR.finditer(line[:100]))[:2]
    for separator in separators:
        head = line[: separator.start()]
        name = _head_state(head)
        if name is not None:
            rest = line[separator.end() :].strip()
            is_weak = head.casefold() in WEAK_VALUES
            # `Check CRITICAL: 503` and `Alert for "checkout": 5 lines` hold the name in the head.
            words = _GENERIC_IN_HEAD.sub("", bare(_CUT.split(bare(head), maxsplit=1)[0]))
            is_state = state_value(words) is not None
            is_state = is_state or all(map(state_value, words.split()))
            title = rest if is_state and not _QUOTED_NAME.search(head) else line
            return State(name, "prefix", is_weak, line, title)
    return None


def _head_state(head: str) -> StateName | None:
    """The state that a few words are, without what they are about ("Re-Triggered on host:x")."""
    words = bare(_CUT.split(bare(head), maxsplit=1)[0]).strip(" \"'.!")
    if len(words) > 40:
        return None
    name = state_value(words)
    if name is not None:
        return name
    rest = _GENERIC_IN_HEAD.sub("", words).split()
    names = [state_value(word) for word in rest]
    if rest and None not in names:
        return "resolved" if "resolved" in names else names[0]
    name = state_value(" ".join(rest))
    return name or (state_in(words) if len(words.split()) <= 3 else None)


def _other_message(layout: Layout, state: State, links: list[AlertLink]) -> str:
    """What the message is instead of an alert; "" where it may be one."""
    # `[FIRING:1] Weekly report job failed` is an alert all the same.
    is_stated = state.form in ("prefix", "field") and not state.is_weak
    if state.form == "prefix" and is_stated:
        return ""
    headlines = layout.headlines[:6]
    for reason, pattern in OTHER.items():
        if any(pattern.search(line) for line in headlines):
            return reason
    if is_stated or links:
        return ""
    is_question = " ".join(layout.lines).endswith(("?", "？"))
    # Alerts also end with a request: "Please investigate".
    is_chat = is_question or any(map(GREETING.search, layout.headlines[:2]))
    kinds = {
        "a public status page": any(map(is_of_status_page, layout.urls)),
        "code or a ticket": any(map(is_of_tracker, layout.title_urls)),
        "a build or deploy": _delivery_points(layout) >= 2,
        "chat": is_chat and not layout.is_structured,
    }
    return next((kind for kind, applies in kinds.items() if applies), "")


def _delivery_points(layout: Layout) -> int:
    points = sum(key in DELIVERY_KEYS for key in {key for key, _ in layout.pairs})
    if any(DELIVERED.search(line) for line in layout.headlines[:6]):
        points += 2
    if any(path in f"{url.lower()}/" for url in layout.urls for path in DELIVERY_PATHS):
        points += 2
    return points


def _evidence(
    layout: Layout, state: State, links: list[AlertLink], objects: list[AlertLink]
) -> int:
    """Points for what alerts show."""
    keys = {key for key, _ in layout.pairs}
    text = "\n".join(layout.lines[:20])
    is_shown = emoji_state(layout.headlines[:6]) is not None
    is_stated = state.form != "" or is_shown
    weights = {"prefix": 3, "field": 3, "headline": 2, "": 0}
    points = [
        weights[state.form] - state.is_weak,
        any(FAULT.search(line) for line in layout.headlines[:6]),
        bool(layout.hues),
        bool(layout.titled_hues),
        is_shown,
        min(2, len(keys & ALERT_KEYS)),
        3 if links else 0,
        bool(objects),
        is_stated and MONITORED_THING.search(text) is not None,
        is_stated and _FIGURE.search(text) is not None,
    ]
    return sum(points)


def _title(layout: Layout, state: State) -> str:
    """The first headline that says what is alerting, without the words for the state."""
    stated = _tidy(state.title)
    if state.form == "prefix" and stated and not _is_generic(stated, layout):
        return stated
    lines = [_tidy(line) for line in layout.headlines]
    headlines = [line for line in lines if state.form != "prefix" or stated not in line]
    named = map(_tidy, layout.values(TITLE_KEYS))
    title = next((line for line in (*headlines, *named) if not _is_generic(line, layout)), "")
    if not title:
        return next(filter(None, (stated, *headlines)), "")
    is_in_box = title in map(_tidy, layout.titles)
    # A word alone, such as the name of a monitor or of the tool, says too little.
    if is_in_box and " " not in title and stated not in ("", title):
        return stated if title.casefold() in stated.casefold() else f"{title}: {stated}"
    return title


def _is_generic(title: str, layout: Layout) -> bool:
    """Whether nothing remains without general words and the sender's name."""
    general = {*GENERIC_WORDS, *_WORD.findall(" ".join(layout.names).casefold())}
    words = [word for word in _WORD.findall(title.casefold()) if word not in general]
    return all(word.isdigit() or state_value(word) is not None for word in words)


def _tidy(title: str) -> str:
    line = _ADDRESS.sub("", _NUMBER.sub("", bare(title)))
    return single_line(line.replace("*", "").replace("`", "")).rstrip("_ ")


def _vendor_labels(links: list[AlertLink], title: str) -> dict[str, str]:
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
