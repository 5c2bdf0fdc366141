"""Runs one part of one side in a fresh process, and says what it took."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HTA = "traceinsight==0.6.1"
FLOOR = "pysimdjson==7.0.2"
COMMAND = "import sys; from faultline.bot.cli.main import main; sys.exit(main())"
NOT_COMPILED = "PYTHONDONTWRITEBYTECODE"
"""Where this is set, each process would compile our source again, but no package's."""
Figures = dict[str, float | str]
"""CPU seconds or MB under their names; words where there is no figure."""


class Sides:
    """The three sides, each with its interpreter."""

    def __init__(self, folder: Path, hta: Path | None, floor: Path | None, limit: int) -> None:
        ready = ROOT / ".tools/hta/bin/python"
        hta = hta or (ready if ready.exists() else _python_with(folder / "hta", HTA))
        floor = floor or _python_with(folder / "floor", FLOOR)
        self._pythons = {"hta": hta, "floor": floor, "ours": Path(sys.executable)}
        self._limit = limit

    def figures(self, side: str, part: str, files: list[Path]) -> Figures:
        """The figures of "parse", "analyses", "whole" or "slow"; {} where the side has no such
        part."""
        if part == "whole":
            return self._whole(side, files)
        if side == "floor" and part != "parse":
            return {}
        ended, seconds, peak = self._run(side, part, files)
        if isinstance(ended, str):
            return {part: ended}
        if part == "parse":
            return ended | {"start to parsed": seconds, "peak MB parsed": peak}
        return ended if part == "slow" else {"analyses": _sum(ended)}

    def _whole(self, side: str, files: list[Path]) -> Figures:
        """The floor has nothing to do but to parse, HTA what both can."""
        part = {"ours": "command", "hta": "analyses", "floor": "parse"}[side]
        ended, seconds, peak = self._run(side, part, files)
        if isinstance(ended, str):
            return {"whole": ended}
        return {"whole": seconds, "peak MB whole": peak}

    def _run(self, side: str, part: str, files: list[Path]) -> tuple[Figures | str, float, float]:
        """(what the process measured, or why there is nothing; its CPU seconds; its peak MB with
        its children)."""
        python = self._pythons[side]
        if python is None:
            return "not there", 0.0, 0.0
        command = [str(python), str(HERE / f"{side}_side.py"), part, "1"]
        if part == "command":
            command = [str(python), "-c", COMMAND, "trace", "--json"]
        before = os.times()
        with subprocess.Popen(
            [*command, *map(str, files)],
            stdout=subprocess.DEVNULL if part == "command" else subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env={name: value for name, value in os.environ.items() if name != NOT_COMPILED},
            text=True,
        ) as child:
            peak = _Peak(child.pid)
            try:
                text = child.communicate(timeout=self._limit)[0]
            except subprocess.TimeoutExpired:
                child.kill()
                return f"over {self._limit} s", 0.0, 0.0
        after = os.times()
        if child.returncode:
            return f"exit {child.returncode}", 0.0, 0.0
        took = (after.children_user - before.children_user) + (
            after.children_system - before.children_system
        )
        measured: Figures = json.loads(text.splitlines()[-1]) if text else {}
        return measured, took, peak.megabytes()


def _sum(figures: Figures) -> float | str:
    """The seconds of all calls together; the first failure where one failed."""
    total = 0.0
    for name, value in figures.items():
        if isinstance(value, str):
            return value
        if name != "parse":
            total += value
    return total


def _python_with(environment: Path, requirement: str) -> Path | None:
    """None, said on standard error, where it cannot be had."""
    python = environment / "bin" / "python"
    if not python.exists():
        try:
            subprocess.run([sys.executable, "-m", "venv", environment], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", requirement], check=True)
        except subprocess.CalledProcessError as error:
            sys.stderr.write(f"{requirement} is left out, it cannot be installed: {error}\n")
            return None
    return python


class _Peak:
    """The highest sum of proportional set sizes over a process and its descendants, sampled."""

    def __init__(self, pid: int) -> None:
        self._pid, self._highest = pid, 0.0
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def megabytes(self) -> float:
        self._thread.join()
        return self._highest

    def _watch(self) -> None:
        while Path(f"/proc/{self._pid}/smaps_rollup").exists():
            with contextlib.suppress(OSError):
                self._highest = max(self._highest, sum(_pss_mb(pid) for pid in _tree(self._pid)))
            if _is_zombie(self._pid):
                return
            time.sleep(0.01)


def _tree(pid: int) -> list[int]:
    trees = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            trees += _tree(int(child))
    return trees


def _pss_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
