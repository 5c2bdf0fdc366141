"""What an alert rule watches: the signal, whose it is, where, and from what value on."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from faultline.analysis.kinds.signals import SignalClass

QueryLanguage = Literal["promql", "logql", "datadog", "metric"]
Comparison = Literal[">", ">=", "<", "<=", "==", "!="]


class SignalSource(StrEnum):
    """Where the signal of an alert was read, as an answer says it."""

    NAMED = "named by the alert"
    EXPRESSION = "from the rule's expression"
    METRIC = "from the rule's metric"
    TITLE = "from the title"
    TEXT = "from the description"
    SENDER = "what its sender reports"
    UNKNOWN = "unknown"


class AlertQuery(BaseModel):
    """What the monitor that sent an alert computes; only what the alert or its vendor says.

    `text` is the expression or the monitor's query; of language "metric" it is the metric's name,
    and the other fields hold the rest of the condition.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    language: QueryLanguage
    text: str
    namespace: str | None = None
    statistic: str | None = None
    comparison: Comparison | None = None
    threshold: float | None = None
    window_s: float | None = None
    holds_for_s: float | None = None
    """How long the condition must hold before the alert fires."""
    dimensions: Mapping[str, str] = Field(default_factory=dict)


class WatchedSignal(BaseModel):
    """What an alert watches. Fields that nothing tells are None or empty."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    signal_class: SignalClass = SignalClass.OTHER
    source: SignalSource = SignalSource.UNKNOWN
    metric: str | None = None
    """The metric's name as the rule has it; of a ratio, the one above the line."""
    quantile: float | None = None
    service: str | None = None
    """As the rule's selectors name it."""
    service_label: str | None = None
    """The label or dimension that names the service of an alert that fires."""
    keeps_labels: bool = False
    """Whether alerts carry all labels of the series, because the rule adds nothing up."""
    place: Mapping[str, str] = Field(default_factory=dict)
    """Cluster, region, namespace, node, pod, version and the like that the alert fixes."""
    comparison: Comparison | None = None
    threshold: float | None = None
    unit: str | None = None
    window_s: float | None = None
    """Over how long the rule averages or counts."""
    holds_for_s: float | None = None
