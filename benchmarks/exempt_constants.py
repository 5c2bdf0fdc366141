"""Constants that `guarded_weights.py` leaves alone, each with the reason.

A weight or threshold decides an answer; these bound work, say how much is shown, or are somebody
else's numbers.
"""

from __future__ import annotations

import re

BOUNDS = re.compile(
    r"(MAX_|MOST_|LONGEST|SHORTEST_NAME|TEXT_LIMIT|LINE_LIMIT|STACK_LIMIT|LIST_LIMIT|CHUNK$|BLOCK$)"
)
"""How much is read, kept or shown at most; whole numbers only, for a float with such a name is a
weight."""
REASONS = {
    "ranking.impact.NAMED": "how many services a sentence names",
    "ranking.impact.TWO_LINES": "length of a text that is shown",
    "ranking.missing_evidence.MOST": "how many sources are listed",
    "ranking.missing_evidence.SUSPECTS": "how many suspects are considered",
    "ranking.error_budget.PERIOD_DAYS": "the customary month of an error budget, which is said",
    "changes.nearby.SUSPECTS_CONSIDERED": "a bound on work",
    "changes.nearby.TITLE_LENGTH": "length of a text that is shown",
    "changes.shipping.SHORT_HASH": "length of git's short hashes",
    "changes.symptoms.SUSPECTS_CONSIDERED": "a bound on work",
    "changes.symptoms.FINDINGS_CONSIDERED": "a bound on work",
    "gpus.health.NAMED": "how many devices a sentence names",
    "gpus.fleet.NS": "nanoseconds of a second",
    "gpus.slowness.GPU_IDLE": "NVIDIA's bit",
    "gpus.slowness.POWER_CAP": "NVIDIA's bit",
    "gpus.slowness.HARDWARE_SLOWDOWN": "NVIDIA's bit",
    "gpus.slowness.SYNC_BOOST": "NVIDIA's bit",
    "metrics.gpu_signals.HARMFUL_EVENTS": "NVIDIA's bits",
    "metrics.gpu_signals.THERMAL_EVENTS": "NVIDIA's bits",
    "metrics.gpu_signals.POWER_BRAKE": "NVIDIA's bit",
    "metrics.gpu_signals.BLANK": "DCGM's value for nothing measured",
    "metrics.seasonality.DAY_NS": "nanoseconds of a day",
    "metrics.series.LARGEST": "the largest number that still can be squared and summed",
    "metrics.usual_moves.MOST": "a bound on work",
    "metrics.alert_history.SHORTEST_NAME": "shorter names are found in any text",
    "logs.lines.PINO_ERROR": "pino's number of the level",
    "requests.flow.STEP_TEXT": "length of a text that is shown",
    "requests.paths.LINE_TEXT": "length of a text that is shown",
    "requests.peers.LONGEST": "the longest host name (RFC 1035)",
    "case.earlier.MOST": "a bound on work",
    "case.readable_rows.SHOWN": "length of a text that is shown",
    "case.tables.MOST_REASONS": "how many reasons are listed",
}


def is_exempt(module: str, name: str, value: object) -> bool:
    """Whether it is a bound or a given number; names with an underscore are tables of units."""
    if name.startswith("_") or f"{module}.{name}" in REASONS:
        return True
    return isinstance(value, int) and bool(BOUNDS.match(name))
