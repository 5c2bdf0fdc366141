"""What several analyses of one trace need is computed once, and kept with the trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

# The columns themselves use this too, so their type is not named here.
Trace = TypeVar("Trace")
P = ParamSpec("P")
R = TypeVar("R")
PLACE = "_kept"


def cached_per_trace(
    function: Callable[Concatenate[Trace, P], R],
) -> Callable[Concatenate[Trace, P], R]:
    """The function, which computes each result once for each trace and its other arguments.

    For pure functions whose results nobody changes: arrays become read-only. The other arguments
    must be hashable; dataclasses of arrays are, where they are compared by identity.
    """

    @wraps(function)
    def once(trace: Trace, /, *more: P.args, **named: P.kwargs) -> R:
        results: dict[Any, R] = trace.__dict__.setdefault(PLACE, {})
        key = (function, more, tuple(sorted(named.items())))
        if key not in results:
            result = results[key] = function(trace, *more, **named)
            if isinstance(result, np.ndarray):
                result.setflags(write=False)
        return results[key]

    return once
