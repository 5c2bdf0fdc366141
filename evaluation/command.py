"""`faultline eval CASES...`."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from faultline.analysis.errors import SettingsError
from faultline.evaluation.as_json import as_json, read_results
from faultline.evaluation.intervals import PairedDifference, compared
from faultline.evaluation.running import GradingOptions, evaluate, parse_hidden, read_left_out
from faultline.evaluation.terminal import print_grades


def run_eval(
    cases: Sequence[Path],
    *,
    json_: bool,
    without: str = "",
    workers: int | None = None,
    baselines: bool = False,
    compare: Path | None = None,
    left_out: Path | None = None,
) -> None:
    """Grade the cases and print what came of it."""
    hidden = parse_hidden(without)
    if workers is not None and workers < 1:
        raise SettingsError("--workers", "must be at least 1")
    if baselines and find_spec("proving_ground") is None:
        # The methods are the laboratory's, which no wheel carries.
        raise SettingsError("--baselines", "needs the source repository: run it from a clone")
    fitted = read_left_out(left_out) if left_out else None
    earlier = read_results(compare) if compare else None
    options = GradingOptions(hidden, baselines, fitted)
    console = Console(stderr=True)
    began = time.perf_counter()
    with console.status("analysing the cases"):
        grades = evaluate(cases, options, workers=workers)
    took = time.perf_counter() - began
    console.print(f"{len(grades)} cases in {took:.0f} s", style="dim", highlight=False)
    differences: list[PairedDifference] = compared(grades, earlier.grades) if earlier else []
    if json_:
        weights = left_out.name if left_out else ""
        document = as_json(grades, hidden, weights=weights, differences=differences)
        sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    else:
        print_grades(grades, hidden, differences)
