"""What was in trouble already a day ago: it did not raise the alert by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from faultline.analysis.vocabulary import Window
from faultline.connectors.vendors.prometheus.exporter_facts import OwnerInTrouble
from faultline.connectors.vendors.prometheus.exporter_queries import ExporterAnswer, beyond_text
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.joined_queries import marked_series

DAY = timedelta(days=1)
"""From that age on a fact counts little (`faultline.analysis.states.weighing`)."""
STEP_S = 60.0
_Key = tuple[int, frozenset[tuple[str, str]]]
"""An entry and the labels of one of its series."""


async def dated(
    api: PrometheusApi, troubles: Sequence[OwnerInTrouble], start: datetime
) -> list[OwnerInTrouble]:
    """The same, with a date for those that were in trouble when the data begin and a day before the
    incident's start."""
    undated = [trouble for trouble in troubles if trouble.since is None]
    if not undated:
        return list(troubles)
    before = await _in_trouble_at(api, undated, start - DAY)
    dated_troubles = []
    for trouble in troubles:
        if trouble.since is None and _key(trouble.answer, trouble.labels) in before:
            dated_troubles.append(replace(trouble, since=start - DAY))
        else:
            dated_troubles.append(trouble)
    return dated_troubles


async def _in_trouble_at(
    api: PrometheusApi, troubles: Sequence[OwnerInTrouble], at: datetime
) -> set[_Key]:
    """Which owners were beyond the thresholds of these troubles at that time."""
    answers: list[ExporterAnswer] = []
    for trouble in troubles:
        if not any(trouble.answer is answer for answer in answers):
            answers.append(trouble.answer)
    window = Window(start=at - timedelta(seconds=STEP_S), end=at)
    # Where the server does not answer, nothing was so.
    series_by_answer = await marked_series(
        api, [beyond_text(answer) for answer in answers], window, STEP_S
    )
    before: set[_Key] = set()
    for answer, series in zip(answers, series_by_answer, strict=True):
        for owner in series or ():
            before.add(_key(answer, owner.metric))
    return before


def _key(answer: ExporterAnswer, labels: Mapping[str, str]) -> _Key:
    return id(answer), frozenset(labels.items())
