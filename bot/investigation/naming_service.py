"""The service that somebody's question means, where the catalogue does not know it: the sources
know which services exist."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from itertools import chain

from faultline.analysis.errors import FaultlineError
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Alert, Window
from faultline.bot.policy.services import service_in
from faultline.connectors.shared.contract.abilities import KnowsServices
from faultline.connectors.shared.contract.base import Connector

log = logging.getLogger("faultline.steps")

LOOKBACK = timedelta(hours=1)
"""A service that wrote nothing for so long before the incident is none that fails now."""


async def with_named_service(
    alert: Alert, question: str | None, connectors: Sequence[Connector], *, deadline_s: float
) -> Alert:
    """The alert with the service that the question means, by its name in the sources. A service
    that did not come from the question itself stays. A source that is too slow, or fails, is left
    out."""
    if not question or (alert.service and alert.service.casefold() not in question.casefold()):
        return alert
    around = Window(start=alert.started_at - LOOKBACK, end=alert.started_at)
    services = [
        _services_of(connector, around, deadline_s)
        for connector in connectors
        if isinstance(connector, KnowsServices)
    ]
    service_names = chain.from_iterable(await asyncio.gather(*services))
    service = service_in(question, service_names)
    return alert if service is None else alert.model_copy(update={"service": service})


async def _services_of(
    connector: KnowsServices, around: Window, deadline_s: float
) -> Sequence[str]:
    try:
        async with asyncio.timeout(deadline_s):
            return [masked(name) for name in await connector.services_in(around)]
    except (FaultlineError, TimeoutError) as error:
        log.warning("%s lists no services: %s", connector.name, type(error).__name__)
        return ()
