"""The names of nodes that are scraped by their address: node_exporter knows what its machine is
called, and Kubernetes, alerts and people call it so."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime

from faultline.analysis.errors import FaultlineError
from faultline.connectors.vendors.prometheus.exporter_queries import ExporterAnswer
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.series import PrometheusSeries

NAMES = "node_uname_info"
BY_ADDRESS = ("instance",)


async def name_nodes(
    api: PrometheusApi, names: Collection[str], answers: Iterable[ExporterAnswer], at: datetime
) -> Mapping[str, str]:
    """Give the series of nodes the machines' names instead of their addresses; the addresses by
    name."""
    series = list(_by_address(answers))
    if NAMES not in names or not series:
        return {}
    called = await _names(api, at)
    addresses = {}
    for metric_series in series:
        address = metric_series.metric["instance"]
        name = called.get(address)
        if name:
            metric_series.metric["instance"] = name
            addresses[name] = without_port(address)
    return addresses


def without_port(address: str) -> str:
    """The host of `host:port`."""
    return re.sub(r":\d+$", "", address)


def _by_address(answers: Iterable[ExporterAnswer]) -> Iterator[PrometheusSeries]:
    for answer in answers:
        if answer.metric.owner == "node" and answer.selection.query.by == BY_ADDRESS:
            yield from (series for series in answer.selection.series if "instance" in series.metric)


async def _names(api: PrometheusApi, at: datetime) -> dict[str, str]:
    """By address, but for names that several machines have."""
    try:
        instant = await api.instant(f"count by (instance, nodename) ({NAMES})", at)
    except FaultlineError:
        return {}
    named = {
        series.metric.get("instance", ""): series.metric.get("nodename", "") for series in instant
    }
    # Machines of one name would be taken for a single node.
    often = Counter(named.values())
    return {address: name for address, name in named.items() if often[name] == 1}
