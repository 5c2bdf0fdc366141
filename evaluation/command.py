"""`faultline eval CASES`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console

from analysis.errors import SettingsError
from evaluation.as_json import as_json
from evaluation.hidden_tables import parse_hidden
from evaluation.running import evaluate
from evaluation.terminal import print_grades


def run_eval(cases: Path, *, json_: bool, without: str, workers: int | None) -> None:
    """Grade the cases and print what came of it."""
    hidden = parse_hidden(without)
    if workers is not None and workers < 1:
        raise SettingsError("--workers", "must be at least 1")
    with Console(stderr=True).status("analysing the cases"):
        grades = evaluate(cases, without=hidden, workers=workers)
    if json_:
        sys.stdout.write(json.dumps(as_json(grades, hidden), indent=1, ensure_ascii=False) + "\n")
    else:
        print_grades(grades, hidden)
