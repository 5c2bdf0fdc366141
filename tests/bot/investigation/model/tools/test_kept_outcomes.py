"""What the tools answer on the rich case, kept as text: each with and without every argument, on
bounds, and about what does not exist.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.bot.investigation.model.tools.conftest import TRACE, Desk, at
from tests.kept import assert_kept

KEPT = Path(__file__).with_name("kept_outcomes.txt")
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("data", {}),
    ("data", {"service": "cart"}),
    ("data", {"service": "checkout"}),
    ("data", {"service": "nobody"}),
    ("finding", {"ids": ["F1", "F2", "F3"]}),
    ("finding", {"ids": ["F99"]}),
    ("series", {"service": "checkout"}),
    ("series", {"service": "cart"}),
    ("series", {"service": "cart", "signal": "cpu"}),
    ("series", {"service": "cart", "signal": "cpu", "labels": '"b"'}),
    ("series", {"service": "cart", "signal": "nothing"}),
    ("series", {"service": "checkout", "signal": "latency_p99", "resolution_s": 60}),
    ("series", {"service": "checkout", "signal": "latency_p99", "resolution_s": 300}),
    (
        "series",
        {
            "service": "checkout",
            "signal": "latency_p99",
            "resolution_s": 120,
            "start": at(-10),
            "end": at(2),
        },
    ),
    ("logs", {"show": "templates"}),
    ("logs", {"show": "templates", "service": "checkout"}),
    ("logs", {"show": "templates", "service": "cart"}),
    ("logs", {"show": "lines"}),
    ("logs", {"show": "lines", "contains": "refused"}),
    ("logs", {"show": "lines", "level": "INFO"}),
    ("logs", {"show": "lines", "level": "ERROR", "place": "checkout-1"}),
    ("logs", {"show": "lines", "around": at(-2)}),
    ("logs", {"show": "lines", "start": at(-3), "end": at(-2)}),
    ("logs", {"show": "lines", "contains": "refused", "skip": 50}),
    ("logs", {"show": "lines", "contains": "refused", "skip": 60}),
    ("logs", {"show": "lines", "contains": "never written"}),
    ("traces", {"service": "checkout", "order": "slowest"}),
    ("traces", {"service": "checkout", "order": "failing"}),
    ("traces", {"service": "web", "order": "failing"}),
    ("traces", {"service": "cart", "order": "slowest", "operation": "GET /cart"}),
    ("traces", {"service": "cart", "order": "slowest", "operation": "POST /cart"}),
    ("request", {"trace_id": TRACE}),
    ("request", {"trace_id": TRACE, "service": "checkout"}),
    ("request", {"trace_id": TRACE, "skip": 2}),
    ("request", {"trace_id": TRACE, "skip": 3}),
    ("request", {"trace_id": "0" * 32}),
    ("changes", {}),
    ("changes", {"service": "checkout"}),
    ("changes", {"service": "cart"}),
    ("changes", {"id": "4f2a9c1"}),
    ("changes", {"id": "4f2a9c1", "contains": "timeout"}),
    ("changes", {"id": "4f2a9c1", "from_line": 3}),
    ("changes", {"id": "4f2a9c1", "from_line": 99}),
    ("changes", {"id": "unknown"}),
    ("topology", {"service": "checkout"}),
    ("topology", {"service": "db"}),
    ("topology", {"service": "nobody"}),
    ("events", {}),
    ("events", {"service": "checkout"}),
    ("events", {"object": "Pod/checkout-1"}),
    ("events", {"contains": "liveness"}),
    ("events", {"service": "cart"}),
    ("compare", {"signal": "latency"}),
    ("compare", {"signal": "cpu", "service": "cart"}),
    ("compare", {"signal": "cpu", "service": "cart", "by": "zone"}),
    ("compare", {"signal": "cpu", "by": "colour"}),
    ("compare", {"signal": "nothing"}),
)


def test_the_tools_answer_as_it_is_kept(desk: Desk) -> None:
    lines = []
    for name, arguments in CALLS:
        outcome = desk.call(name, **arguments)
        arguments_text = json.dumps(arguments, sort_keys=True)
        lines += [f"## {name} {arguments_text}{' failed' * outcome.error}", outcome.text, ""]
    lines += ["## observations", *(finding.model_dump_json() for finding in desk.bench.findings)]
    assert_kept(KEPT, "\n".join(lines) + "\n")
