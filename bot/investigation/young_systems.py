"""Windows for systems whose sources hold less than the settings ask for: a lab that was just
started, a Prometheus that is new."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.connectors.shared.contract.abilities import KnowsHistory
from faultline.connectors.shared.contract.base import Connector

log = logging.getLogger("faultline.steps")

LEAST = timedelta(minutes=2)
"""The shortest baseline: eight samples at the usual 15 s. Fewer do not tell how far a signal moves
by itself."""
ENOUGH = timedelta(minutes=10)
"""40 samples at the usual 15 s: beyond it the incident window gets what is left, up to its own
length."""
A_LIMIT = 0.5
"""A baseline that is shorter than this share of the one in the settings is a limit of the
answer."""


async def fitted_to_history(
    alert: Alert, scope: Scope, connectors: Sequence[Connector], *, deadline_s: float
) -> Scope:
    """The scope with windows that the data reaches. Where metrics are collected theirs count, as
    logs and spans are there only when something happens."""
    if not scope.baseline:
        return scope
    window = Window(start=scope.baseline[0].start, end=scope.incident.end)
    able = [connector for connector in connectors if isinstance(connector, KnowsHistory)]
    of_metrics = [connector for connector in able if "metrics" in connector.kinds]
    lookups = [_begin_of(connector, window, deadline_s) for connector in of_metrics or able]
    begins = [begin for begin in await asyncio.gather(*lookups) if begin is not None]
    return fitted(scope, alert.started_at, min(begins)) if begins else scope


def fitted(scope: Scope, began: datetime, data_since: datetime) -> Scope:
    """The windows of an incident that `began` then, within the data that exists since `data_since`.

    The baseline keeps at least half of what lies before, or ten minutes. Where hardly anything
    does, nothing can be compared and the windows stay: the answer says so.
    """
    full_baseline, incident = scope.baseline[0], scope.incident
    if data_since <= full_baseline.start:
        return scope
    history = began - data_since
    if history < 2 * LEAST or incident.start > began:
        return scope.model_copy(update={"data_since": data_since})
    before = min(began - incident.start, max(history / 2, history - ENOUGH))
    start = began - before
    baseline = Window(start=data_since, end=start)
    changed: dict[str, object] = {"incident": Window(start=start, end=incident.end)}
    for name in ("baseline", "baseline_logs", "baseline_spans"):
        windows: tuple[Window, ...] | None = getattr(scope, name)
        if windows is not None:
            # The same hours of earlier days follow the first window. They stay.
            changed[name] = (baseline, *windows[1:])
    if baseline.seconds < A_LIMIT * full_baseline.seconds:
        changed["data_since"] = data_since
    return scope.model_copy(update=changed)


async def _begin_of(connector: KnowsHistory, window: Window, deadline_s: float) -> datetime | None:
    try:
        async with asyncio.timeout(deadline_s):
            return await connector.data_since(window)
    except (FaultlineError, TimeoutError) as error:
        log.warning("%s does not say since when: %s", connector.name, type(error).__name__)
        return None
