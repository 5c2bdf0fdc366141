"""A PagerDuty incident as replies see it: whether it is still open, and the values of its custom
fields.

Fields: https://developer.pagerduty.com/api-reference, `GET /incidents/{id}` (`status`,
`resolve_reason`) and `PUT /incidents/{id}/custom_fields/values`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.lines import percent
from faultline.bot.store.store import StoredInvestigation

if TYPE_CHECKING:
    from faultline.bot.answer.outcome import Answer

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


def read_incident(answer: Any, incident_id: str) -> IncidentState:
    """From PagerDuty's answer; the merge of an incident into itself or into no id is none. Raises
    ConnectorError."""
    if not isinstance(answer, Mapping) or not isinstance(answer.get("status"), str):
        raise ConnectorError(
            VENDOR,
            "get incident",
            "the answer was not understood",
            retryable=True,
            unchanged=True,
        )
    if answer["status"] != "resolved":
        return IncidentState(incident_id, resolved=False)
    target = _merged_into(answer.get("resolve_reason"))
    return IncidentState(
        incident_id, resolved=True, merged_into=None if target == incident_id else target
    )


def _merged_into(reason: object) -> str | None:
    """The id of the incident that took this one in, where the reason names a valid one."""
    if not isinstance(reason, Mapping) or reason.get("type") != MERGED:
        return None
    incident = reason.get("incident")
    target = incident.get("id") if isinstance(incident, Mapping) else None
    if isinstance(target, str) and INCIDENT_ID.fullmatch(target) is not None:
        return target
    return None


def field_values(
    investigation: StoredInvestigation, answer: Answer, page_url: str
) -> dict[str, str]:
    """Our values for custom fields, by the names that the settings use; "" where there is none."""
    view = answer.view(investigation.alert)
    summaries = {
        "verdict": view.verdict_label,
        "headline": view.headline,
        "cause": "",
        "service": investigation.alert.service or "",
        "change": "",
        "confidence": percent(view.confidence),
        "page": page_url,
    }
    if view.cause is not None:
        # The blamed service tells more than the one that alerted.
        summaries["cause"] = view.cause.summary
        summaries["service"] = view.cause.subject
        summaries["change"] = view.cause.change or ""
    return {name: single_line(value, MAX_FIELD) for name, value in summaries.items()}
