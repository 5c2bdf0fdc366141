"""Answers by fitted numbers that never saw the case's system, so that it can be called left out.

`benchmarks/suspect_weights.py --left-out FILE` writes such a file: for each system, by module of
the analysis, the constants as fitted on all other systems.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from faultline.analysis.errors import EvidenceError

Constants = Mapping[str, Mapping[str, Any]]
"""Values by name, by module."""


def read_left_out(file: Path) -> dict[str, Constants]:
    """The constants of each system. Raises EvidenceError for a file that holds anything else."""
    try:
        document = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise EvidenceError(str(file), f"is not readable JSON ({error})") from error
    if not isinstance(document, dict):
        raise EvidenceError(str(file), "must be an object with an entry for each system")
    for system, modules in document.items():
        for name in modules:
            if not name.startswith("faultline.analysis."):
                raise EvidenceError(str(file), f"{system}: {name} is no module of the analysis")
    return document


@contextmanager
def fitted_without(system: str, left_out: Mapping[str, Constants]) -> Iterator[None]:
    """The analysis with the constants that were fitted without this system. Raises EvidenceError
    where there are none."""
    if system not in left_out:
        raise EvidenceError("the fitted numbers", f"none were fitted without {system}")
    undo = []
    for module_name, constants in left_out[system].items():
        module = importlib.import_module(module_name)
        for name, value in constants.items():
            old = getattr(module, name, None)
            if old is None:
                raise EvidenceError("the fitted numbers", f"{module_name} has no {name}")
            # A name that was imported is another reference: it has to change there too.
            for holder in _holders(name, old):
                undo.append((holder, name, old))
                setattr(holder, name, value)
    try:
        yield
    finally:
        # Undo even after a failure: the next case may be of another system.
        for holder, name, old in undo:
            setattr(holder, name, old)


def _holders(name: str, value: Any) -> list[ModuleType]:
    """The modules that hold this very value: the one that defines it, and those that import it."""
    modules = []
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("faultline.analysis.") and getattr(module, name, None) is value:
            modules.append(module)
    return modules
