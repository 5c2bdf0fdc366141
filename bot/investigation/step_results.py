"""What the steps of an investigation give back: small JSON values, which the engine keeps. Results
that an earlier version kept lack what came later."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from faultline.analysis.vocabulary import Alert, EvidenceKind, Scope


class Opened(TypedDict):
    """What the first step fixed for all later ones, as JSON values."""

    alert: dict[str, Any]
    scope: dict[str, Any]
    connectors: list[str]
    kinds: NotRequired[dict[str, list[EvidenceKind]]]
    """What each connector would bring."""
    may_capture: NotRequired[bool]
    """Whether the training job may be asked for a capture."""
    asks_model: NotRequired[bool]
    """Whether a model investigates further once code has answered."""
    places: list[str]
    """Names of the reply targets. Steps that an earlier version kept call them so."""


class Analyzed(TypedDict):
    """The small summary of the analysis."""

    verdict: str
    confidence: float
    seconds: float


class ModelStepResult(TypedDict):
    """What stands after the model was asked."""

    analyzed: Analyzed
    headline: str


class Posted(TypedDict):
    """Result of one attempt to post. `again` is whether to retry."""

    again: bool
    why: str
    joined: NotRequired[bool]
    """Whether alerts joined that have their own places there."""


def alert_and_scope(opened: Opened) -> tuple[Alert, Scope]:
    """What the first step fixed, as values."""
    return Alert.model_validate(opened["alert"]), Scope.model_validate(opened["scope"])
