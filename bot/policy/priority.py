"""How urgent an alert is, from the words that its vendor uses for it: pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from faultline.analysis.vocabulary import Alert

URGENT: Final = 0
HIGH: Final = 1
USUAL: Final = 2
LOW: Final = 3
PRIORITIES = (URGENT, HIGH, USUAL, LOW)

WORDS: Mapping[str, int] = {
    "critical": URGENT,
    "crit": URGENT,
    "page": URGENT,
    "fatal": URGENT,
    "emergency": URGENT,
    "emerg": URGENT,
    "disaster": URGENT,
    "urgent": URGENT,
    "blocker": URGENT,
    "high": HIGH,
    "error": HIGH,
    "err": HIGH,
    "major": HIGH,
    "medium": USUAL,
    "moderate": USUAL,
    "warning": USUAL,
    "warn": USUAL,
    "low": LOW,
    "minor": LOW,
    "ticket": LOW,
    "notice": LOW,
    "info": LOW,
    "information": LOW,
    "informational": LOW,
    "success": LOW,
    "debug": LOW,
    "none": LOW,
}
"""Severities as most vendors understand them; an alert source may add its own words.

- PagerDuty's urgency is `high` or `low`, and `high` is what every service has unless it is changed:
  it is not enough
  for "urgent" (https://support.pagerduty.com/main/docs/configurable-service-settings). Its alerts'
  severities are critical, error, warning and info (https://support.pagerduty.com/main/docs/pd-cef).
- Datadog's `$ALERT_TYPE` is error, warning, success or info
  (https://docs.datadoghq.com/integrations/webhooks/).
- kube-prometheus labels critical, warning, info and none
  (https://runbooks.prometheus-operator.dev/); `page` and
  `ticket` are the words of the SRE workbook's alerts
  (https://sre.google/workbook/alerting-on-slos/).
- Sentry's levels are fatal, error, warning, info and debug
  (https://docs.sentry.io/product/issues/); its metric alerts
  are critical or warning.
- emerg, crit, err, notice: syslog's (RFC 5424, 6.2.1); disaster, high, average, information:
  Zabbix."""

LEVELS: Mapping[str, tuple[int, ...]] = {
    "p": (URGENT, URGENT, HIGH, USUAL, LOW, LOW),
    "sev": (URGENT, URGENT, HIGH, USUAL, LOW, LOW),
}
"""Priority by the number after P or SEV, from 0. P1 is the highest of Datadog (P1 to P5) and of
PagerDuty's default (P1 to P5); SEV-1 of PagerDuty's incident response guide
(https://response.pagerduty.com/before/severity_levels/)."""
SAYS_MORE = ("severity", "priority", "level", "urgency")
"""Labels that are looked at when the alert's own severity says nothing that is known, in this
order."""
LONGEST = 200
"""Characters of a severity that are looked at."""
_NUMBERED = re.compile(
    r"(?:(?P<kind>p|prio|priority|s|sev|severity)[\s:_#-]{0,3})?(?P<number>[0-5])(?!\d)"
)
_WORD = re.compile(r"[a-z]+(?:[\s:_#-]{0,3}[0-9]+)?|[0-9]+")


def priority_of(
    alert: Alert,
    *,
    on_request: bool = False,
    source_words: Mapping[str, int] = MappingProxyType({}),
) -> int:
    """0 urgent, 1 high, 2 usual, 3 low. What a person asked for is urgent: somebody waits for it.

    `source_words` are severities of the alert's source; they count before `WORDS`.
    """
    if on_request:
        return URGENT
    words = {**WORDS, **source_words}
    severities = [alert.severity]
    for name in SAYS_MORE:
        severities.append(alert.labels.get(name))
    for severity in severities:
        level = _level(severity, words)
        if level is not None:
            return level
    return USUAL


def _level(severity: str | None, words: Mapping[str, int]) -> int | None:
    """What the first word says that is known: `SEV-1 (critical)`, `P2`, `1`, `warning`."""
    for match in _WORD.finditer((severity or "")[:LONGEST].casefold()):
        word = match[0]
        if word in words:
            return words[word]
        numbered = _NUMBERED.fullmatch(word)
        if numbered is not None:
            kind = "sev" if (numbered["kind"] or "").startswith("s") else "p"
            return LEVELS[kind][int(numbered["number"])]
        # "warning 12": the word counts where its number is no level.
        plain = word.rstrip("0123456789 \t\n:_#-")
        if plain != word and plain in words:
            return words[plain]
    return None
