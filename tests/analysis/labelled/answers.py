"""What the answer to each story is, as `labels.json` holds it.

`python -m tests.analysis.labelled.answers` rewrites the file: do so only where an answer is
meant to change, and read the difference as a reviewer would.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Diagnosis
from tests.analysis.labelled.borderline import SEEDS, borderline
from tests.analysis.labelled.stories import STORIES
from tests.analysis.labelled.story_rows import Story

CASES: Mapping[str, Story] = {
    **STORIES,
    **{f"borderline {seed}": partial(borderline, seed) for seed in SEEDS},
}
"""Every labelled case by its name."""

LABELS = Path(__file__).with_name("labels.json")


def answer(told: Story) -> dict[str, Any]:
    """The answer to one story."""
    with tempfile.TemporaryDirectory() as folder:
        return in_short(diagnose(told(Path(folder) / "case")))


def in_short(diagnosis: Diagnosis) -> dict[str, Any]:
    """The verdict, the causes in order and what was found, with its strength."""
    causes = []
    for cause in diagnosis.causes:
        said = [cause.subject, cause.kind, cause.signal or "", cause.change or ""]
        said.append(f"evidence against: {len(cause.contradicting)}")
        causes.append([" | ".join(said), cause.confidence])
    findings = sorted(
        [f"{found.kind} | {found.subject} | {found.signal or ''}", round(found.strength, 3)]
        for found in diagnosis.findings
    )
    return {
        "verdict": diagnosis.verdict.value,
        "confidence": diagnosis.confidence,
        "causes": causes,
        "findings": findings,
        "missing": list(diagnosis.missing),
        "next_query": diagnosis.next_query.text if diagnosis.next_query else "",
    }


def main() -> None:
    """Write the labels."""
    labels = {name: answer(told) for name, told in CASES.items()}
    lines = []
    for name, label in labels.items():
        lines.append(f"{json.dumps(name)}: {json.dumps(label, ensure_ascii=False)}")
    LABELS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
