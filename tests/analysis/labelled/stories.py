"""Small incidents with known causes, written by hand, that hold every weight and threshold.

Each function of these modules fills one case folder. What the answer must be is in `labels.json`:
the verdict, the causes and the strength of what was found. `benchmarks/guarded_weights.py` halves one
constant after the other, and says which of them these answers hold.
"""  # noqa: E501

from __future__ import annotations

from tests.analysis.labelled import (
    metric_stories,
    request_stories,
    service_stories,
    suspect_stories,
)
from tests.analysis.labelled.story_rows import STORIES

TOLD_IN = (metric_stories, request_stories, service_stories, suspect_stories)
"""Each function with `story` above it joins STORIES when its module is imported."""

__all__ = ["STORIES", "TOLD_IN"]
