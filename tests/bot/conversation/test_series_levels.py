"""A series in one sentence: its level before and in the incident."""

from __future__ import annotations

from datetime import datetime

import pytest

from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import MILLISECONDS
from faultline.bot.conversation.measured import CaseSeries, SeriesLevels
from tests.bot.answer.targets.answers import ONSET, a_diagnosis

SHIFT = a_diagnosis().findings[0]


@pytest.mark.parametrize(
    ("before", "after", "onset", "finding", "says"),
    [
        (78.0, 2_400.0, ONSET, SHIFT, "78 ms before, 2.4 s since 10:14:00 UTC"),
        (78.0, 2_400.0, None, SHIFT, "78 ms before, 2.4 s in the incident"),
        (78.0, 2_400.0, ONSET, None, "78 ms before, 2.4 s in the incident"),
        (200.0, 210.0, None, None, "200 ms before, 210 ms in the incident; no change stands out"),
        (200.0, 190.0, None, None, "200 ms before, 190 ms in the incident; no change stands out"),
        (200.0, 240.0, None, None, "200 ms before, 240 ms in the incident"),
        (200.0, 160.0, None, None, "200 ms before, 160 ms in the incident"),
        (None, 78.0, ONSET, SHIFT, "78 ms, and nothing to compare that with"),
        (78.0, None, None, None, "78 ms, and nothing to compare that with"),
        (None, None, None, None, "unknown, and nothing to compare that with"),
        (None, 0.0, None, None, "0 s, and nothing to compare that with"),
    ],
)
def test_a_series_says_both_levels_where_it_has_them(
    before: float | None,
    after: float | None,
    onset: datetime | None,
    finding: Finding | None,
    says: str,
) -> None:
    series = CaseSeries("web", "latency_p99")
    levels = SeriesLevels(series, MILLISECONDS, before, after, onset, finding)
    assert levels.sentence == f"p99 latency of web: {says}"
