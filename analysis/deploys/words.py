"""What a check says of its signal."""

from __future__ import annotations

from faultline.analysis.deploys.judged_signals import ERROR_LINES, NEW_ERROR_LINES
from faultline.analysis.wording.amounts import amount, levels, unit_of
from faultline.analysis.wording.names import signal_name
from faultline.analysis.wording.phrases import capitalised, rounded

PER_MINUTE = "1/min"
_NAMES = {ERROR_LINES: "rate of error lines", NEW_ERROR_LINES: "rate of error lines of a new kind"}


def called(signal: str) -> str:
    """The signal in words."""
    return _NAMES.get(signal) or signal_name(signal)


def level_words(signal: str, unit: str | None, before: float, after: float) -> tuple[str, str]:
    """Two levels as people read them."""
    if unit == PER_MINUTE:
        return f"{amount(before)} a minute", f"{amount(after)} a minute"
    shown = (rounded(before), rounded(after))
    return levels(*shown, unit_of(signal, unit, shown))


def moved(signal: str, unit: str | None, before: float, after: float, against: str) -> str:
    """A sentence about a signal beside its past."""
    was, now = level_words(signal, unit, before, after)
    verb = "rose" if after > before else "fell"
    name = capitalised(called(signal))
    return f"{name} {verb} from {was} to {now}, compared with {against}."


def beside(
    signal: str, unit: str | None, levels_of: tuple[float, float], part: str, rest: str
) -> str:
    """A sentence about a part with the deploy beside the rest."""
    was, now = level_words(signal, unit, *levels_of)
    return f"{capitalised(called(signal))} is {now} in {part} and {was} in {rest}."
