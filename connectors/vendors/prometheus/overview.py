"""What a Prometheus knows of services just now, in words for `faultline check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from faultline.analysis.wording.phrases import counted

SIGNALS = {
    "request_rate": "request rate",
    "error_ratio": "error ratio",
    "latency_p99": "p99 latency",
}
"""What every service should have, as it is called."""
NAMED = 5
REACHES_DAYS = (30, 7, 1)
"""Whether there is data of so long ago: earlier days at the same hour tell what is usual."""


@dataclass(frozen=True)
class PrometheusOverview:
    """What was found in the last half hour."""

    services: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Those that each signal of `SIGNALS` is there for."""
    intervals: Collection[float] = ()
    """How often each metric is scraped, in seconds."""
    training: bool = False
    """Whether there are metrics of training jobs or of GPUs."""
    days: int | None = None
    """The longest of `REACHES_DAYS` of which there is data; None where there is of none."""
    exporters: Collection[str] = ()
    """Those that tell what lies beneath services."""

    @property
    def is_useful(self) -> bool:
        """Whether an investigation would find anything."""
        return self.training or any(self.services.values())

    @property
    def all_services(self) -> list[str]:
        """Whoever has one of the signals."""
        return sorted({name for names in self.services.values() for name in names})

    def words(self) -> str:
        """One line: how often is scraped, who is there, what they lack, how far back."""
        names = self.all_services
        if not names and self.training:
            return "metrics of training jobs or GPUs are there, and none of services"
        if not names:
            return (
                "no service has a request rate, an error ratio or a latency under a name that is "
                "known: set prometheus.queries"
            )
        lacks = [f"{counted(len(names), 'service')} ({_shortly(names)})"]
        lacks += [
            _lack(word, self.services.get(signal, ()), names) for signal, word in SIGNALS.items()
        ]
        if self.exporters:
            lacks.append(f"beneath them {', '.join(sorted(self.exporters))}")
        # The usual interval first.
        by_count = Counter(round(interval) for interval in self.intervals)
        if not by_count:
            every = ""
        else:
            interval_texts = [f"{seconds} s" for seconds, _ in by_count.most_common()]
            every = f"scraped every {' or '.join(interval_texts)}"
        lacks.append(every)
        lacks.append(f"data of {counted(self.days, 'day')} ago" if self.days else _NO_YESTERDAY)
        return "; ".join(filter(None, lacks))


_NO_YESTERDAY = "no data of a day ago, so that earlier days cannot be compared"


def _shortly(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names)[:NAMED])
    return f"{shown}, ..." if len(names) > NAMED else shown


def _lack(word: str, there: Collection[str], names: Collection[str]) -> str:
    missing = sorted(set(names) - set(there))
    if not missing:
        return ""
    if len(missing) == len(names):
        return f"no {word} of any"
    return f"no {word} of {_shortly(missing)}"
