"""All operators whose cost is known, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from faultline.analysis.traces.costs import attention, convolutions, matrix_products, memory_bound
from faultline.analysis.traces.costs.call import Call, Cost, Unknown, call_of

MODELS: Mapping[str, Callable[[Call], Cost]] = {
    **memory_bound.COSTS,
    **matrix_products.COSTS,
    **convolutions.COSTS,
    **attention.COSTS,
}
ON_MATRIX_UNITS = frozenset({*matrix_products.COSTS, *convolutions.COSTS, *attention.COSTS})
"""Those for which accelerators have special units."""
MOST = 2**62
"""Shapes of a trace are hostile: a cost above this is none."""


@lru_cache(maxsize=8192)
def cost_of(name: str, dims: str, types: str, values: str) -> Cost | None:
    """The cost of a call from the texts of "Input Dims", "Input type" and "Concrete Inputs"; None
    where the operator has no model, or the trace does not hold what its model needs."""
    model = MODELS.get(name)
    call = call_of(name, dims, types, values) if model is not None else None
    if model is None or call is None:
        return None
    try:
        cost = model(call)
    except (Unknown, IndexError):
        return None
    return cost if 0 <= cost.flops < MOST and 0 < cost.bytes < MOST else None
