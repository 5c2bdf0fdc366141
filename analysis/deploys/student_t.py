"""The tail of Student's t, for whole degrees of freedom."""

from __future__ import annotations

import math


def upper_tail(t: float, degrees: int) -> float:
    """Chance of a value above `t`. The finite series of Abramowitz and Stegun, 26.7.3 and
    26.7.4."""
    if not math.isfinite(t):
        return 0.0 if t > 0 else 1.0
    angle = math.atan(abs(t) / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    if degrees % 2:
        term, total = cosine, cosine if degrees > 1 else 0.0
        for n in range(2, degrees - 1, 2):
            term *= cosine * cosine * n / (n + 1)
            total += term
        between = 2 / math.pi * (angle + sine * total)
    else:
        term, total = 1.0, 1.0
        for n in range(1, degrees - 2, 2):
            term *= cosine * cosine * n / (n + 1)
            total += term
        between = sine * total
    tail = max(0.0, (1.0 - between) / 2)
    return tail if t >= 0 else 1.0 - tail


def quantile(p: float, degrees: int) -> float:
    """The `t` that is exceeded with chance `p` of at most a half."""
    low, high = 0.0, 1.0
    while upper_tail(high, degrees) > p and high < 1e9:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        if upper_tail(middle, degrees) > p:
            low = middle
        else:
            high = middle
    return high
