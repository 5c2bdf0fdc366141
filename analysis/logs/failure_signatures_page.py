"""docs/failure-signatures.md, written from the data files themselves: `python -m
faultline.analysis.logs.failure_signatures_page`."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from faultline.analysis.logs.failure_signatures import SIGNATURES, Signature
from faultline.analysis.logs.xid_codes import XIDS

GROUPS = {
    "hardware": "Hardware",
    "timeout": "Collectives that time out",
    "network": "Connections and links that break",
    "memory": "Memory",
    "crash": "Crashes",
    "numbers": "Numbers",
    "data": "Data and checkpoints",
    "code": "Code",
    "scheduling": "Schedulers and launchers",
    "storage": "Storage",
    "limits": "Limits and pools",
    "containers": "Containers and nodes",
    "tls": "Certificates",
    "names": "Names",
    "throttling": "Throttling and quotas",
    "locks": "Locks",
    "database": "Databases",
    "messaging": "Messaging",
    "coordination": "Coordination",
    "clock": "Clocks",
    "credentials": "Credentials",
    "connections": "Calls to other services",
}
"""Kind -> heading, in the page's order."""
_HEAD = """# Failure signatures

How known failures appear in logs, what they mean and what to do. `python -m faultline.analysis.logs.failure_signatures_page` writes
this page from `analysis/logs/failure_signatures.toml` and `analysis/logs/xid_codes.toml`. To add a signature, add an entry
there and a line that shows it in `tests/analysis/logs/failure_lines.toml`.

- Lines are masked, and equal ones are counted once. Every distinct line is compared with all signatures, and the first
  that matches counts. The files go from the specific to the general.
- The lines of one failure in one service are one finding, `failure_signature`. There is none if the failure was as
  frequent in the baseline.
- `weight` says how strongly a failure suggests a cause, up to 1. It is our own estimate. `follows` marks failures that
  often come from another service or rank. They count only as far as nothing that the service calls explains them.
- An alert's text is read too, for failures that do not follow from others, of weight 0.85 and more. The text of changes
  is not, because it says what was intended, not what failed.
- The `reason` in a line's attributes (of a Kubernetes event) is read with it. If a host or GPU is blamed, the finding
  names the hosts in the attributes: `host.name`, `k8s.node.name`, `host`, `hostname`, `node`.
- The first 400 characters of a log line are read, and the first 2,000 of a line of a training job's log.
- Logs of training jobs are read by the same table. Xid lines are recognised by their number.
"""  # noqa: E501


def page() -> str:
    """The page as Markdown."""
    parts = [_HEAD]
    for kind, heading in GROUPS.items():
        parts += [f"## {heading}", "", *_table(s for s in SIGNATURES if s.kind == kind), ""]
    parts += ["## NVIDIA's Xid codes", "", *_xids(), ""]
    return "\n".join(parts)


def _table(signatures: Iterable[Signature]) -> list[str]:
    rows = [
        _row(
            f"`{s.name}`",
            s.meaning,
            s.action,
            f"{s.accuses}{', follows' if s.symptom else ''}",
            f"{s.weight:g}",
            s.source,
        )
        for s in signatures
    ]
    return [
        _row("name", "meaning", "what to do", "accuses", "weight", "source"),
        "|---|---|---|---|---|---|",
        *rows,
    ]


def _xids() -> list[str]:
    source = (
        "NVIDIA, Analyzing Xid Errors with the Xid Catalog (docs.nvidia.com/deploy/xid-errors)."
    )
    rows = [
        _row(f"{x.code}", f"`{x.name}`", x.meaning, x.action, x.accuses, f"{x.weight:g}")
        for x in XIDS.values()
    ]
    head = _row("code", "name", "meaning", "what to do", "accuses", "weight")
    return [
        f"Meaning and action: {source} `accuses` and `weight` are ours.",
        "",
        head,
        "|---|---|---|---|---|---|",
        *rows,
    ]


def _row(*cells: str) -> str:
    return (
        "| "
        # A bar would end the cell, and `<*>` would be taken for a tag.
        + " | ".join(c.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;") for c in cells)
        + " |"
    )


if __name__ == "__main__":
    sys.stdout.write(page())
