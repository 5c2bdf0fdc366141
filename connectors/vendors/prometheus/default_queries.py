"""Which queries are asked by default, in order of preference."""

from __future__ import annotations

from collections.abc import Iterator

from faultline.connectors.vendors.prometheus.request_metrics import request_templates
from faultline.connectors.vendors.prometheus.templates import PromTemplate

_TRAINING = (
    ("step_time", "s", "max", "training_step_time_seconds"),
    ("step_time", "s", "max", "training_step_duration_seconds"),
    ("step_time", "s", "max", "train_step_time_seconds"),
    ("throughput", "tokens/s", "sum", "training_tokens_per_second"),
    ("throughput", "samples/s", "sum", "training_samples_per_second"),
    ("loss", "1", "avg", "training_loss"),
    ("grad_norm", "1", "max", "training_grad_norm"),
    ("mfu", "ratio", "avg", "training_mfu"),
)


def _training() -> Iterator[PromTemplate]:
    for signal, unit, how, m in _TRAINING:
        yield PromTemplate(signal, unit, m, f"{how} by ({{by}}) ({m}{{where}})", "job")


DEFAULTS: tuple[PromTemplate, ...] = (
    *request_templates(),
    *_training(),
)
"""In order of preference: of two queries for one signal, a service's rows come from the first that
has any."""
