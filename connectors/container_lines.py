"""Lines that a cluster itself gave of its containers, beside those of a log backend.

A backend that collects the logs of a cluster holds the same lines, and more of them. Both together
would count each line twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl

from analysis.vocabulary import Evidence

SOURCE = "kubernetes container log"
COMMAND = "kubectl logs"
"""How the query of such lines begins."""
LEFT_OUT = "not counted: another source brought the lines of this service"
_MARK = f'"source": "{SOURCE}"'


def without_known_services(cluster: pl.DataFrame, services: Iterable[str]) -> pl.DataFrame:
    """The rows of a cluster's logs but the container lines of these services."""
    is_line = pl.col("attributes").str.contains(_MARK, literal=True).fill_null(False)
    is_known = pl.col("service").is_in(list(services)).fill_null(False)
    return cluster.filter(~(is_line & is_known))


def told_apart(items: Sequence[Evidence], services: frozenset[str]) -> list[Evidence]:
    """The items, of which those whose lines were left out say so. The last lines of a crash stay
    in their details."""
    told = []
    for item in items:
        is_known = bool(services.intersection(item.services or ()))
        if item.query.startswith(COMMAND) and is_known:
            told.append(item.model_copy(update={"rows": 0, "cut": LEFT_OUT}))
        else:
            told.append(item)
    return told
