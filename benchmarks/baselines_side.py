"""The other methods' side of `diagnosis_baselines.py`, run by a Python that has them: a JSON line
per case and method.

    python benchmarks/baselines_side.py FOLDER

FOLDER holds `<case>.metrics.npz` (values: rows x series, the first `baseline` rows are the
baseline; services: of each series) and `<case>.spans.npz` (baseline, service, operation,
duration_us), as `diagnosis_baselines.py` writes them.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

warnings.filterwarnings("ignore")

FAR = 10**15
"""Microseconds: spans of the two windows lie on both sides of time 0, far enough for their
durations."""


def _without_package_imports(package: str) -> None:
    """On Python 3.11 the package RCAEval.e2e imports every method's dependencies; the methods used
    here need none."""
    spec = importlib.util.find_spec(package.partition(".")[0])
    if spec is not None and spec.submodule_search_locations:
        stand_in = types.ModuleType(package)
        stand_in.__path__ = [str(Path(spec.submodule_search_locations[0], *package.split(".")[1:]))]
        sys.modules[package] = stand_in


def metric_method(module: str, name: str) -> Callable[[Path, str], list[str]] | None:
    """A method that takes one table of metrics and the time of the fault; None where it is not
    installed."""
    try:
        method = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None

    def ranked(folder: Path, case: str) -> list[str]:
        packed = np.load(folder / f"{case}.metrics.npz")
        services = packed["services"].tolist()
        table = pd.DataFrame(packed["values"], columns=[f"s{n}" for n in range(len(services))])
        # as the methods' own scripts do before they call them (phamquiluan/RCAEval, main.py)
        table = table.replace([np.inf, -np.inf], np.nan).ffill().fillna(0)
        table.insert(0, "time", np.arange(len(table)))
        # RCAEval's leaves the column of times in unless a data set is named; fse-baro ignores the
        # name
        ranks = method(table, inject_time=int(packed["baseline"]), dataset="cases")["ranks"]
        return [services[int(series[1:])] for series in ranks]

    return ranked


def span_method(module: str, name: str) -> Callable[[Path, str], list[str]] | None:
    """A method that takes one table of spans; spans of operations that the baseline lacks are left
    out, as it fails."""
    try:
        method = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        return None

    def ranked(folder: Path, case: str) -> list[str]:
        packed = np.load(folder / f"{case}.spans.npz")
        if not len(packed["service"]):
            return []
        names = {
            f"s{n}": service for n, service in enumerate(np.unique(packed["service"]).tolist())
        }
        numbers = {service: short for short, service in names.items()}
        table = pd.DataFrame(
            {
                "serviceName": [numbers[s] for s in packed["service"].tolist()],
                "methodName": packed["operation"].astype(object),
                "operationName": packed["operation"].astype(object),
                "startTime": np.where(packed["baseline"], -FAR, FAR),
                "duration": packed["duration_us"],
            }
        )
        both = table["serviceName"] + "_" + table["methodName"]
        table = table[both.isin(both[table["startTime"] < 0])].copy()
        ranks = method(table, inject_time=0)["ranks"]
        return [names[operation.split("_", 1)[0]] for operation in ranks]

    return ranked


_without_package_imports("RCAEval.e2e")
METHODS = {
    "BARO (fse-baro)": metric_method("baro.root_cause_analysis", "robust_scorer"),
    "N-Sigma (fse-baro)": metric_method("baro.root_cause_analysis", "nsigma"),
    "BARO (RCAEval)": metric_method("RCAEval.e2e.baro", "baro"),
    "TraceRCA (RCAEval)": span_method("RCAEval.e2e.tracerca", "tracerca"),
}


def main() -> None:
    """Run every method on every case."""
    folder = Path(sys.argv[1])
    cases = sorted(p.name.removesuffix(".metrics.npz") for p in folder.glob("*.metrics.npz"))
    for name, method in METHODS.items():
        if method is None:
            continue
        with contextlib.suppress(Exception):  # what is loaded once is no case's time
            _quietly(method, folder, cases[0])
        for case in cases:
            began = time.process_time()
            ranked, failed = _quietly(method, folder, case)
            row: dict[str, Any] = {
                "method": name,
                "case": case,
                "cpu_s": time.process_time() - began,
                "failed": failed,
            }
            print(json.dumps(row | {"services": list(dict.fromkeys(ranked))[:5]}), flush=True)


def _quietly(
    method: Callable[[Path, str], list[str]], folder: Path, case: str
) -> tuple[list[str], str | None]:
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            return method(folder, case), None
        except Exception as error:  # noqa: BLE001
            return [], f"{type(error).__name__}: {error}"[:200]


if __name__ == "__main__":
    main()
