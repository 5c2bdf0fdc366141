"""What the rules need to know of one rank: a few kilobytes, whatever the trace's size."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.traces.columns import TraceColumns


@dataclass(frozen=True)
class RankFacts:
    """Facts of one rank that need no other rank to be judged."""


def rank_facts(trace: TraceColumns) -> RankFacts:
    """The facts of one rank's trace."""
    return RankFacts()
