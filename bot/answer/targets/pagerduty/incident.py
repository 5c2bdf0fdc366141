"""A PagerDuty incident as replies see it: whether it still stands, and what its custom fields are
to say.

Fields: https://developer.pagerduty.com/api-reference, `GET /incidents/{id}` (`status`,
`resolve_reason`) and `PUT /incidents/{id}/custom_fields/values`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.errors import ConnectorError
from bot.answer.foreign_text import one_line
from bot.answer.lines import percent
from bot.store.store import StoredInvestigation

if TYPE_CHECKING:
    from bot.answer.outcome import Answer

VENDOR = "pagerduty"
INCIDENT_ID = re.compile(r"[A-Za-z0-9]{1,40}")
"""An id comes from a webhook and becomes part of a path."""
MERGED = "merge_resolve_reason"
MAX_FIELD = 200
"""Characters of a text field:
https://support.pagerduty.com/main/docs/custom-fields-on-incidents."""


@dataclass(frozen=True)
class IncidentState:
    """Whether it is over, and into which incident it was merged, if it was."""

    id: str
    resolved: bool
    merged_into: str | None = None


def read_incident(answer: Any, asked: str) -> IncidentState:
    """From PagerDuty's answer; the merge of an incident into itself or into no id is none. Raises
    ConnectorError."""
    if not isinstance(answer, Mapping) or not isinstance(answer.get("status"), str):
        raise ConnectorError(
            VENDOR, "get incident", "the answer was not understood", retryable=True
        )
    reason = answer.get("resolve_reason")
    into = (
        reason.get("incident")
        if isinstance(reason, Mapping) and reason.get("type") == MERGED
        else None
    )
    target = into.get("id") if isinstance(into, Mapping) else None
    valid = (
        isinstance(target, str) and INCIDENT_ID.fullmatch(target) is not None and target != asked
    )
    resolved = answer["status"] == "resolved"
    return IncidentState(asked, resolved, str(target) if valid and resolved else None)


def field_values(
    investigation: StoredInvestigation, answer: Answer, page_url: str
) -> dict[str, str]:
    """Our values for custom fields, by the names that the settings use; "" where there is none."""
    view = answer.view(investigation.alert)
    top = view.cause
    said = {
        "verdict": view.verdict_label,
        "headline": view.headline,
        "cause": top.summary if top else "",
        "service": top.subject if top else investigation.alert.service or "",
        "change": (top.change or "") if top else "",
        "confidence": percent(view.confidence),
        "page": page_url,
    }
    return {name: one_line(value, MAX_FIELD) for name, value in said.items()}
