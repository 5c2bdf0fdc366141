"""An answered case as one JSON document: what `investigate --json` prints, with alert, report and
timeline."""

from __future__ import annotations

import json
from typing import Any

from faultline.bot.answer.exports.answered import ExportedAnswer, timeline_of
from faultline.bot.answer.replay import json_of


def document(answered: ExportedAnswer) -> str:
    """Sorted keys, so that equal content gives equal bytes. `timings` is empty: it would differ
    each time."""
    case, report = answered.case, answered.report
    whole: dict[str, Any] = json_of(answered.view) | {"timings": {}}
    whole |= {
        "alert": case.alert.model_dump(mode="json"),
        "scope": case.scope.model_dump(mode="json"),
        "evidence": [item.model_dump(mode="json") for item in case.evidence],
        "report": report.model_dump(mode="json"),
        "timeline": [
            {
                "time": m.time.isoformat(),
                "what": m.what,
                "text": m.text,
                "findings": list(m.findings),
                "link": m.link,
            }
            for m in timeline_of(answered)
        ],
        "answered": answered.times.model_dump(mode="json") if answered.times else None,
    }
    return (
        json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False)
        .encode("utf-8", "replace")
        .decode()
        + "\n"
    )
