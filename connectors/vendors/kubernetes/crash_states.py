"""What a container wrote last, told with the fact that it ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.change_inquiry import Link
from faultline.connectors.vendors.kubernetes.container_logs import CrashLine
from faultline.connectors.vendors.pagerduty.answers import moment

ENDS = frozenset({"crash_loop", "killed_for_memory", "liveness_failing", "start_blocked"})
"""Facts that say that a container ended, or does not end; what it wrote last belongs to them."""


def with_crash_lines(
    states: Sequence[tuple[Any, ...]], crashes: Sequence[CrashLine], link: Link
) -> list[tuple[Any, ...]]:
    """The rows of the table `states`, those about a pod's end with its last line, and the query
    that shows it. A crash that no row tells of is its own row."""
    by_pod: dict[tuple[str | None, str], CrashLine] = {}
    for crash_line in crashes:
        by_pod.setdefault(
            (crash_line.run.space, short(crash_line.run.pod.metadata.name, 120)), crash_line
        )
    ids = set()
    rows: list[tuple[Any, ...]] = []
    for values in states:
        row = StateRow(*values)
        crash = by_pod.get((row.namespace, row.name)) if row.kind == "Pod" else None
        if crash is None:
            rows.append(row)
            continue
        # An image that cannot be pulled or a lost node says better why the pod does not serve.
        ids.add(id(crash))
        if row.fact in ENDS:
            value = f"{row.value or 'ended'}; {_last_line_clause(crash)}"
            row = row._replace(value=value, query=crash.query)
        rows.append(row)
    for pod_crash in by_pod.values():
        if id(pod_crash) not in ids and pod_crash.run.ended is not None:
            rows.append(_crashed(pod_crash, link))
    return rows


def _crashed(crash: CrashLine, link: Link) -> StateRow:
    run, pod = crash.run, crash.run.pod
    code = run.ended.exit_code if run.ended else None
    ended = "its container ended" if code is None else f"exit code {code}"
    return StateRow(
        kind="Pod",
        name=short(pod.metadata.name, 120),
        fact="crashed",
        namespace=run.space,
        service=run.observed_pod.service,
        place=short(pod.node, 100) if pod.node else None,
        field="status.containerStatuses",
        value=f"{ended}; {_last_line_clause(crash)}",
        since=moment(run.ended.finished_at) if run.ended else None,
        query=crash.query,
        link=link(run.space, "Pod", pod.metadata.name),
    )


def _last_line_clause(crash: CrashLine) -> str:
    line = crash.line.replace('"', "'")
    return f'its last line says "{line}"'
