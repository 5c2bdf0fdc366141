"""A default query before it is made for one server."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

Matcher = tuple[str, str]
"""A label, and a regular expression that its value must match."""

SCRAPE_JOBS = frozenset({"job", "exported_job"})
JOB_NAME = r"(?:.*/)?(.+)"
"""The service in the job of a scrape: a PodMonitor's and OpenTelemetry's are `namespace/name`."""


@dataclass(frozen=True)
class PromTemplate:
    """A default query. `subject` says whose labels name the row's service: service, container, job,
    or owner: those of `named_by` alone."""

    signal: str
    unit: str
    metric: str
    promql: str
    subject: str = "service"
    matchers: tuple[Matcher, ...] = ()
    """Which series count, where the metric carries the label."""
    marked_by: str = ""
    """The label that distinguishes the metric from another of the same name."""
    named_by: tuple[str, ...] = ()
    """Labels that name the service better than the configured one."""
    name_pattern: str = ""
    """Which part of the label's value is the name: the first group that matched."""
    is_native: bool = False
    """Whether the metric is a native histogram."""
    stored_as: str = ""
    """The metric's name on the server, where that is no plain name."""

    def pattern_for(self, label: str) -> str:
        """Which part of this label's value is the name."""
        is_job = self.subject == "service" and label in SCRAPE_JOBS
        return self.name_pattern or (JOB_NAME if is_job else "")


def existing(templates: Iterable[PromTemplate], names: Collection[str]) -> Iterator[PromTemplate]:
    """The templates whose metric is there, under its name or one with dots (OpenTelemetry names
    that were stored untranslated)."""
    dotted = {re.sub(r"[^a-zA-Z0-9_:]", "_", name): name for name in names if not is_plain(name)}
    for template in templates:
        for spelling in (template.metric, dotted.get(template.metric, "")):
            # A summary has a count beside it and no buckets; a native histogram has neither, or
            # both where it is stored as a classic one too.
            if spelling not in names or (
                template.is_native
                and (f"{spelling}_count" in names and f"{spelling}_bucket" not in names)
            ):
                continue
            yield template if spelling == template.metric else replace(template, stored_as=spelling)


def is_plain(name: str) -> bool:
    """Whether a name of a metric or a label can stand in a query without quotes."""
    return re.fullmatch(r"[a-zA-Z_:][a-zA-Z0-9_:]*", name) is not None
