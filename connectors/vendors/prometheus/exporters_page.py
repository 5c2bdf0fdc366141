"""docs/connectors/exporters.md, written from the data file itself: `python -m
faultline.connectors.vendors.prometheus.exporters_page`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from faultline.connectors.vendors.prometheus.exporter_metrics import ExporterMetric, built_in

PAGE = Path(__file__).resolve().parents[3] / "docs" / "connectors" / "exporters.md"
_HEAD = """# Exporters

What the [Prometheus connector](prometheus.md) reads about nodes, containers, databases, queues and
other things that services depend on.
`python -m faultline.connectors.vendors.prometheus.exporters_page` writes this page from
`connectors/vendors/prometheus/exporter_metrics.toml`.

- A signal is queried if all of its metrics exist. Its rows carry the owner's name as service: a
  node, a database, a queue, a volume, a probed host or a service. Of two entries for one signal of
  one owner, the first that has data counts.
- An owner beyond a threshold is a [fact](../case-folder.md#facts-about-objects), even if nothing
  changed: a disk that was full all along has no change point. It must hold at the end of the
  incident or for half of it. A kill or a crash loop counts once. If it held from the start, it is
  looked up a day earlier, because an old fact [counts little](../findings.md#objects). A fact
  about a node affects the services that run there, by `kube_pod_info`, or else by what is scraped
  at its address.
- Entries marked "fact only" bring no rows. With more than 50 nodes, databases or queues, only those
  beyond a threshold are queried. With more than 100 services, only those in scope are.

## Your own exporters

An entry in the settings has the same keys as the file, and is used before the built-in ones:

```toml
[[prometheus.metrics]]
exporter = "orders"
signal = "orders_queue_depth"          # its words say what kind of signal it is
metrics = ["orders_waiting"]           # asked where all of these exist
query = 'max by ({by}) (orders_waiting{where})'
owner = "queue"                        # service, container, database, queue, volume, node, host
named_by = ["shard"]                   # labels that name the owner; usual ones where left out
worse = "up"
fact = "consumers_behind"              # beyond the threshold: one of the facts of the case folder
beyond = 500
says = "{value} orders wait"           # or {percent}, {left} (of days), a label of the result
```

`{by}` becomes the label that names the owner, `{where}` stands behind the name of each metric
(`{where:state="active"}` adds a matcher), `{range}` in the brackets of a range. Further keys:
`unit`, `name_pattern` (the first group of this regular expression is the name), `series = false`
(fact only), `holds = "once"`, `kind` (what the object of the fact is), `source`. With several
Prometheus servers an instance has its own: `[[prometheus]]`, then `[[prometheus.metrics]]` below
it.

## What is known

"Tested against" says which real programs the tests use. Versions are those of Debian 12 and PyPI.
The other exporters are supported by their documentation and source.
"""
TESTED_AGAINST = {
    "node_exporter": "node_exporter 1.5",
    "postgres_exporter": "postgres_exporter 0.11 with its example queries, PostgreSQL 18",
    "mysqld_exporter": "mysqld_exporter 0.14, MariaDB 10.11 and a replica of it",
    "redis_exporter": "redis_exporter 1.45, Redis 6.2",
    "RabbitMQ": "RabbitMQ 3.10: `/metrics`, `/metrics/per-object` and `/metrics/detailed`",
    "nginx-prometheus-exporter": "nginx-prometheus-exporter 0.11, nginx 1.22",
    "Traefik": "Traefik 3.7",
    "Envoy": "Envoy 1.40",
    "blackbox_exporter": "blackbox_exporter 0.23, without TLS",
    "scrape": "Prometheus 2.42, VictoriaMetrics 1.79",
    "process": "Prometheus 2.42, VictoriaMetrics 1.79",
}
"""What of the exporters' servers is in Debian or in a wheel, so that tests can start it."""


def page() -> str:
    """The page as Markdown."""
    entries = built_in()
    parts = [_HEAD]
    for exporter in dict.fromkeys(entry.exporter for entry in entries):
        parts.append(f"\n### {exporter}\n\n")
        if exporter in TESTED_AGAINST:
            parts.append(f"Tested against {TESTED_AGAINST[exporter]}.\n\n")
        parts.append("| signal | from | of a | beyond | source |\n|---|---|---|---|---|\n")
        parts += _rows(entry for entry in entries if entry.exporter == exporter)
    return "".join(parts)


def _rows(entries: Iterable[ExporterMetric]) -> Iterable[str]:
    for entry in entries:
        unit = f" ({entry.unit})" if entry.unit not in ("", "1") else ""
        signal = f"`{entry.signal}`{unit}" if entry.series else f"fact only{unit}"
        metrics = ", ".join(f"`{name}`" for name in entry.metrics)
        trouble = ""
        if entry.fact is not None:
            sign = "above" if entry.worse == "up" else "below"
            trouble = f"{sign} {entry.beyond:g}: `{entry.fact}`"
        owner = entry.kind or entry.owner
        yield f"| {signal} | {metrics} | {owner} | {trouble} | {entry.source} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
