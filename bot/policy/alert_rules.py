"""Which alerts are investigated by themselves: the first rule that matches decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from analysis.vocabulary import Alert
from bot.policy.topology import ServiceTopology
from bot.settings.alerts import AlertRule

MAX_TEXT = 500
"""Characters of a title or a label that are compared."""


def held_back_by(
    alert: Alert, channel: str, rules: Sequence[AlertRule], topology: ServiceTopology
) -> str | None:
    """The rule that says not to investigate this alert, in the operator's words; None when it is
    investigated."""
    for number, rule in enumerate(rules, start=1):
        if matches(rule, alert, channel, topology):
            return (
                None
                if rule.investigate
                else f"rule {number}" + (f" ({rule.name})" if rule.name else "")
            )
    return None


def matches(rule: AlertRule, alert: Alert, channel: str, topology: ServiceTopology) -> bool:
    """Whether the alert meets every condition of the rule."""
    service = topology.name(alert.service) or ""
    return (
        (not rule.source or alert.source in rule.source)
        and (not rule.service or fits(service, (topology.name(s) or s for s in rule.service)))
        and (
            not rule.severity
            or plain_severity(alert.severity) in {plain_severity(s) for s in rule.severity}
        )
        and (not rule.channel or channel in rule.channel)
        and (not rule.title or fits(alert.title, rule.title))
        and all(
            label in alert.labels and fits(alert.labels[label], (want,))
            for label, want in rule.labels.items()
        )
    )


def plain_severity(severity: str | None) -> str:
    """`SEV-1` and `sev1` are the same."""
    return "".join(c for c in (severity or "").casefold() if c.isalnum())


def fits(text: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern matches the whole text; `*` and `?` are special, case is not."""
    plain = " ".join(text[:MAX_TEXT].split()).casefold()
    return any(
        fnmatchcase(plain, " ".join(p.split()).casefold().replace("[", "[[]")) for p in patterns
    )
