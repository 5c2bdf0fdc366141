"""Which files and functions of the product run in one `faultline investigate`.

    python benchmarks/source_figures/traced_run.py investigate demo/cases/slow-rank

Counted are functions, methods and class bodies, in all threads; imports of modules alone are not.
"""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
import threading
import tomllib
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

HOME = Path(__file__).resolve().parents[2]
CASE = "demo/cases/slow-rank"


@dataclass(frozen=True)
class TracedRun:
    """How much of the product one investigation runs."""

    files: int
    functions: int


def investigate(home: Path, folders: list[str]) -> TracedRun:
    """Run it in another process, and count what lies in these folders."""
    command = [sys.executable, str(Path(__file__).resolve()), "investigate", CASE]
    environment = {**os.environ, "PYTHONPATH": str(home)}
    run = subprocess.run(
        command, cwd=home, env=environment, check=True, capture_output=True, text=True
    )
    roots = [(home / folder).resolve() for folder in folders]
    return counted(json.loads(run.stdout.splitlines()[-1]), roots)


def counted(functions_of: dict[str, list[str]], roots: list[Path]) -> TracedRun:
    """Count the functions of files below `roots`; one file may have been run by several paths."""
    functions: dict[Path, set[str]] = {}
    for file, names in functions_of.items():
        path = Path(file).resolve()
        if any(path.is_relative_to(root) for root in roots):
            functions.setdefault(path, set()).update(names)
    return TracedRun(len(functions), sum(len(names) for names in functions.values()))


def traced(program: str, arguments: list[str]) -> dict[str, list[str]]:
    """Call `module:function` as a command, and return what it ran by file, as `line name`."""
    ran: set[CodeType] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            ran.add(frame.f_code)

    sys.argv = ["faultline", *arguments]
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        pkgutil.resolve_name(program)()
    except SystemExit as ending:
        # A command that failed ran something else than an investigation.
        if ending.code:
            raise
    sys.setprofile(None)
    functions: dict[str, list[str]] = {}
    # A thread may still run, and add to it.
    for code in list(ran):
        # Modules, lambdas and comprehensions have names such as `<module>`.
        if not code.co_name.startswith("<"):
            name = f"{code.co_firstlineno} {code.co_name}"
            functions.setdefault(code.co_filename, []).append(name)
    return functions


if __name__ == "__main__":
    project = tomllib.loads((HOME / "pyproject.toml").read_text(encoding="utf-8"))
    functions_of = traced(project["project"]["scripts"]["faultline"], sys.argv[1:])
    print("\n" + json.dumps(functions_of), flush=True)
