"""Which alerts are investigated by themselves: the first rule that matches decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.topology import ServiceTopology
from faultline.bot.settings.alerts import AlertRule

MAX_TEXT = 500
"""Characters of a title or a label that are compared."""


def blocking_rule_of(
    alert: Alert, channel: str, rules: Sequence[AlertRule], topology: ServiceTopology
) -> str | None:
    """The rule that says not to investigate this alert, in the operator's words; None when it is
    investigated."""
    for number, rule in enumerate(rules, start=1):
        if not matches(rule, alert, channel, topology):
            continue
        if rule.investigate:
            return None
        return f"rule {number} ({rule.name})" if rule.name else f"rule {number}"
    return None


def matches(rule: AlertRule, alert: Alert, channel: str, topology: ServiceTopology) -> bool:
    """Whether the alert meets every condition of the rule."""
    # A condition that the rule does not set holds for every alert.
    if rule.source and alert.source not in rule.source:
        return False
    if rule.service and not _is_service(alert, rule, topology):
        return False
    if rule.severity and not _is_severity(alert, rule):
        return False
    if rule.channel and channel not in rule.channel:
        return False
    if rule.title and not fits(alert.title, rule.title):
        return False
    return _has_labels(alert, rule)


def _is_service(alert: Alert, rule: AlertRule, topology: ServiceTopology) -> bool:
    # Both sides may use one of the other names that the catalogue gives a service.
    names = [topology.name(service) or service for service in rule.service]
    return fits(topology.name(alert.service) or "", names)


def _is_severity(alert: Alert, rule: AlertRule) -> bool:
    return plain_severity(alert.severity) in {
        plain_severity(severity) for severity in rule.severity
    }


def _has_labels(alert: Alert, rule: AlertRule) -> bool:
    for label, requested_label in rule.labels.items():
        if label not in alert.labels or not fits(alert.labels[label], (requested_label,)):
            return False
    return True


def plain_severity(severity: str | None) -> str:
    """`SEV-1` and `sev1` are the same."""
    return "".join(c for c in (severity or "").casefold() if c.isalnum())


def fits(text: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern matches the whole text; `*` and `?` are special, case is not."""
    plain = _plain(text[:MAX_TEXT])
    # Square brackets would begin a set of characters; titles hold them as they are.
    globs = [_plain(pattern).replace("[", "[[]") for pattern in patterns]
    return any(fnmatchcase(plain, glob) for glob in globs)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
