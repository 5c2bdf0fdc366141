"""What the metrics of exporters mean: the entries of exporter_metrics.toml and of the settings,
read and checked."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from faultline.analysis.kinds.signals import classify, is_bad, is_headroom
from faultline.analysis.kinds.state_faults import STATE_FAULTS
from faultline.connectors.shared.settings.settings_types import Section
from faultline.connectors.vendors.prometheus.promql import spelt
from faultline.connectors.vendors.prometheus.templates import is_plain

FILE = Path(__file__).with_name("exporter_metrics.toml")
OBJECTS = {
    "service": "Service",
    "container": "Container",
    "database": "Database",
    "queue": "Queue",
    "volume": "PersistentVolumeClaim",
    "node": "Node",
    "host": "Endpoint",
    "resolver": "DNS server",
}
"""What the object of a fact is, by whose metric it is."""
_PLACEHOLDER = re.compile(r"\{(by|range|where)\b")


class ExporterMetric(Section):
    """One meaning: a query over metrics of one exporter, whose it is, and when it is trouble."""

    exporter: str = Field(pattern=r"^[\w ./()-]{1,40}$")
    """Metrics of one exporter are looked up and asked together."""
    signal: str = Field(pattern=r"^[a-z][a-z0-9_]{1,60}$")
    """Its name in the case. Its words say what kind of signal it is."""
    unit: str = Field(default="", max_length=12)
    metrics: tuple[str, ...] = Field(min_length=1, max_length=8)
    """It is asked where all of them exist."""
    query: str = Field(max_length=1000)
    """PromQL that aggregates `by ({by})`; `{where}` stands behind the name of each metric,
    `{range}` in the brackets of a range."""
    owner: Literal[
        "service", "container", "database", "queue", "volume", "node", "host", "resolver"
    ]
    """Whose it is."""
    named_by: tuple[str, ...] = ()
    """Labels that name the owner, the first that the metrics carry. Empty: the usual ones."""
    name_pattern: str = ""
    """The part of the label's value that is the name: its first group."""
    worse: Literal["up", "down"]
    """Which way it moves in trouble."""
    series: bool = True
    """Whether it is brought as a metric too. An owner beyond the threshold is a fact in any
    case."""
    fact: str | None = None
    """The fact about the owner that a value beyond the threshold is (docs/case-folder.md)."""
    beyond: float | None = None
    """The threshold of the fact."""
    holds: Literal["now", "once"] = "now"
    """Whether the value must be beyond it in the end, or at any time of the incident."""
    says: str = ""
    """How the fact is worded: `{value}`, `{percent}`, `{left}` (of days) or a label of the
    result."""
    users: tuple[str, ...] = ()
    """Labels that name whoever uses the owner, the most telling first. The entry then measures each
    user: one that takes the owner over, with at least `beyond`, is a fact."""
    demand: str = ""
    """The signal of the entry that counts what each user asks for. Who asks for no more and takes
    longer waits for others."""
    kind: str = ""
    """What the object of the fact is. Empty: by its owner."""
    source: str = ""
    """Where the threshold is from."""

    @model_validator(mode="after")
    def _makes_sense(self) -> ExporterMetric:
        problem = self._wrong_query() or self._wrong_fact() or self._wrong_signal()
        if problem:
            raise ValueError(f"{self.signal}: {problem}")
        return self

    def _wrong_query(self) -> str | None:
        if "{by}" not in self.query:
            return "the query must aggregate by ({by})"
        for metric in self.metrics:
            if not is_plain(metric):
                return f"{metric!r} is no name of a metric"
            if not re.search(rf"\b{re.escape(metric)}\b", self.query):
                return f"the query does not use {metric}"
        rest = _PLACEHOLDER.sub("", self.query)
        # These two belong to `prometheus.queries`, and nothing fills them in here.
        if re.search(r"\{(service|job)\}", rest):
            return "only {by}, {where} and {range} are replaced in the query"
        try:
            # Fail with the settings, not during an investigation.
            re.compile(self.name_pattern)
        except re.error as error:
            return f"name_pattern is no regular expression ({error})"
        return None

    def _wrong_fact(self) -> str | None:
        if (self.fact is None) != (self.beyond is None):
            return "fact and beyond are given together"
        if self.fact is not None and self.fact not in STATE_FAULTS:
            return f"no fact is called {self.fact!r} (docs/case-folder.md lists them)"
        if self.users and self.series:
            return "with users, series is false"
        if self.fact is None and not self.series and not self.users:
            return "without a series and without a fact it says nothing"
        return None

    def _wrong_signal(self) -> str | None:
        kind = classify(self.signal)
        # Otherwise a rise that is trouble would be read as harmless.
        if self.series and not is_bad(kind, self.worse, headroom=is_headroom(self.signal)):
            return (
                f"by its name it is read as {kind.value}, which is no worse when it goes "
                f"{self.worse}: give the signal another name"
            )
        return None

    @property
    def object_kind(self) -> str:
        """What the object of its fact is."""
        return self.kind or OBJECTS[self.owner]

    def user_labels(self, labels: Iterable[str]) -> list[str]:
        """How the labels of users are spelt among these, as far as they are there."""
        label_spellings = spelt(labels)
        spellings = []
        for label in self.users:
            # Where the target has a label `user` too, the exporter's is renamed (`honor_labels`).
            for name in (f"exported_{label}", label):
                if name in label_spellings:
                    spellings.append(label_spellings[name])
                    break
        return spellings

    def is_beyond(self, value: float) -> bool:
        """Whether the value is trouble."""
        if self.beyond is None:
            return False
        return value > self.beyond if self.worse == "up" else value < self.beyond


@cache
def built_in() -> tuple[ExporterMetric, ...]:
    """The entries of the file, in order of preference."""
    entries = tomllib.loads(FILE.read_text(encoding="utf-8"))["metric"]
    return tuple(ExporterMetric.model_validate(_tuples(entry)) for entry in entries)


def _tuples(entry: dict[str, object]) -> dict[str, object]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
