"""Settings of what is hidden from what the bot keeps, sends and logs: the operator's own rules."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from faultline.analysis.secrets.rules import BadPattern, Rule, compiled
from faultline.connectors.shared.settings.settings_types import Section


def _usable(value: str) -> str:
    try:
        compiled(value)
    except BadPattern as error:
        raise ValueError(f"cannot be used as a pattern (RE2): {error}") from None
    return value


class RedactionRule(Section):
    """One rule: what a pattern finds is hidden, kept or blocks its text."""

    pattern: Annotated[str, AfterValidator(_usable)]
    """A regular expression of RE2 (no look-around, no back-references). With a group, the first
    group is what the rule is about. `(?i)` in front: whatever the case."""
    action: Literal["redact", "keep", "block"] = "redact"
    """`redact`: what it finds becomes `[CUSTOM]`. `keep`: what it finds is no secret, whatever it
    looks like. `block`: a text in which it finds anything is not kept, sent or logged at all."""


class RedactionSettings(Section):
    """Secrets in what is collected, kept, sent and logged: docs/security.md."""

    rules: Annotated[tuple[RedactionRule, ...], Field(max_length=200)] = ()
    """Your own rules, beside the built-in ones. `block` wins over the others, and `keep` over
    `redact` and what is built in."""

    @property
    def as_rules(self) -> tuple[Rule, ...]:
        """The rules as `faultline.analysis.secrets` takes them."""
        return tuple(Rule(rule.pattern, rule.action) for rule in self.rules)
