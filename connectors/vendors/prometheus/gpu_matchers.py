"""Label matchers of PromQL that find the GPU series of machines, pods and jobs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from faultline.connectors.shared.training.gpu_metrics import GpuMetricNames
from faultline.connectors.vendors.prometheus.promql import LONGEST_MATCHER, names_pattern

HOST_SPELLINGS = ("Hostname", "hostname")
"""dcgm-exporter writes the one for a GPU, the other for a link."""


def spellings(label: str) -> tuple[str, ...]:
    """The label with the other spelling that the same exporter may use for it."""
    return HOST_SPELLINGS if label in HOST_SPELLINGS else (label,)


def selector(signal: GpuMetricNames, names: frozenset[str], where: Sequence[str]) -> str:
    """The metrics of one signal that exist, in any of these places (everywhere without one)."""
    existing = [metric for metric in signal.metrics if metric in names]
    selectors = []
    for place in where or ("",):
        matchers = [matcher for matcher in (signal.matcher, place) if matcher]
        selectors.append(braced(existing, matchers))
    return " or ".join(selectors)


def braced(metrics: Sequence[str], matchers: Sequence[str]) -> str:
    """An instant vector selector for any of the metrics whose labels all match."""
    if len(metrics) != 1:
        by_name = f'__name__=~"{"|".join(metrics)}"'
        return "{" + ",".join([by_name, *matchers]) + "}"
    if not matchers:
        return metrics[0]
    return metrics[0] + "{" + ",".join(matchers) + "}"


def pod_pattern(name: str) -> str:
    """Pods are named after what runs in them: `llm-1-worker-3`, `chat-6d5f-x2x9l`."""
    return f"(?:{names_pattern([name])})(?:-.*)?"


def host_pattern(hosts: Iterable[str]) -> str | None:
    """A matcher's value for these machines, with or without domain and port; None where it would be
    too long."""
    unique = list(dict.fromkeys(_without_domain(host) for host in hosts))
    # A prefix written once keeps the hundreds of machines of one cluster below the limit.
    prefix = _common_prefix(unique) if len(unique) > 1 else ""
    rest = names_pattern(name[len(prefix) :] for name in unique)
    name = f"{names_pattern([prefix])}(?:{rest})" if prefix else f"(?:{rest})"
    pattern = rf"(?i:\\[?{name}\\]?)(?:\\.[^:]*)?(?::[0-9]+)?"
    return pattern if len(pattern) <= LONGEST_MATCHER else None


def _without_domain(host: str) -> str:
    """The first label of a name; addresses and `host:port` stay as they are."""
    if re.fullmatch(r"[\d.]+|.*:.*", host):
        return host
    return host.partition(".")[0]


def _common_prefix(names: Sequence[str]) -> str:
    # What the first and the last in order begin with, all between them begin with too.
    first, last = min(names), max(names)
    length = 0
    for ours, theirs in zip(first, last, strict=False):
        if ours != theirs:
            break
        length += 1
    return first[:length]
