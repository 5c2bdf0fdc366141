"""Lines that a cluster itself gave of its containers, beside those of a log backend.

A backend that collects the logs of a cluster holds the same lines, and more of them. Both together
would count each line twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from faultline.analysis.vocabulary import Evidence

SOURCE = "kubernetes container log"
COMMAND = "kubectl logs"
"""How the query of such lines begins."""
LEFT_OUT = "not counted: another source brought the lines of this service"
LEAST_LINES = 50
"""Some sources report a service in a few log lines, as of each error that they know: that is no
backend that collects its logs, unless the cluster itself has no more of them."""
# Matched as text, so that no line has to be parsed.
_MARK = f'"source": "{SOURCE}"'


def logged_elsewhere(cluster: pl.DataFrame, log_tables: Sequence[pl.DataFrame]) -> frozenset[str]:
    """The services whose lines another source collects as well."""
    counts = _counts(pl.concat(log_tables)) if log_tables else {}
    cluster_counts = _counts(cluster.filter(_is_line()))
    services = []
    for service, count in cluster_counts.items():
        if counts.get(service, 0) >= min(count, LEAST_LINES):
            services.append(service)
    return frozenset(services)


def _counts(logs: pl.DataFrame) -> dict[str, int]:
    return dict(logs.group_by("service").len().drop_nulls().iter_rows())


def _is_line() -> pl.Expr:
    return pl.col("attributes").str.contains(_MARK, literal=True).fill_null(False)


def without_services(cluster: pl.DataFrame, services: Iterable[str]) -> pl.DataFrame:
    """The rows of a cluster's logs but the container lines of these services."""
    fill_null = pl.col("service").is_in(list(services)).fill_null(False)
    return cluster.filter(~(_is_line() & fill_null))


def marked_items(items: Sequence[Evidence], services: frozenset[str]) -> list[Evidence]:
    """The items. Those whose lines were left out say so; the last lines of a crash stay in their
    details."""
    updated_items = []
    for item in items:
        is_elsewhere = bool(services.intersection(item.services or ()))
        if item.query.startswith(COMMAND) and is_elsewhere:
            updated_items.append(item.model_copy(update={"rows": 0, "cut": LEFT_OUT}))
        else:
            updated_items.append(item)
    return updated_items
