"""Who made the job hang: ours beside PyTorch's own flight recorder analyser, on the same dumps.

    python benchmarks/flight_recorder.py [--data ../shared/data/traces] [--torch-python PYTHON]

Runs `torch.distributed.flight_recorder.fr_trace` (torchfrtrace) in a Python that has torch 2.8 or
newer, once on the dumps as they are and once on copies in which gloo's nameless group is given its
name and ranks, without which fr_trace stops with a KeyError. Without such a Python only ours is
printed, and that is said. A tool's answer is every rank that it calls missing or a culprit; exact
means that these are the ranks at which the fault was injected.
"""

from __future__ import annotations

import argparse
import json
import pickle
import re
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from faultline.analysis.traces.flight_recorder.hang import hang_analysis
from faultline.analysis.traces.flight_recorder.job_state import job_state
from faultline.analysis.traces.flight_recorder.reading import read_dumps
from faultline.analysis.traces.reading.plain_pickle import load_plain_pickle

DATA = Path(__file__).parents[2] / "shared/data/traces"
DUMP = re.compile(r"(?:_dump_|rank_)\d+$")
MISSING = re.compile(r"missing ranks: \{([\d, ]*)\}")
CULPRIT = re.compile(r"[Cc]ulprit rank[s]?:? \{?([\d, ]+)\}?")
SECONDS = 120
ROW = "{:27} {:9} {:25} {:6} {:42} {:27} {:>7}"


@dataclass(frozen=True)
class DumpSet:
    """Dumps of one job at one moment, and the ranks at which its fault was injected."""

    name: str
    folder: Path
    truth: frozenset[int]

    @property
    def dumps(self) -> list[Path]:
        """The pickles."""
        return sorted(p for p in self.folder.iterdir() if DUMP.search(p.name))


@dataclass(frozen=True)
class Answer:
    """What a tool says, and what it took."""

    ranks: frozenset[int]
    words: str
    seconds: float


def dump_sets(data: Path) -> list[DumpSet]:
    """Every set of pickles with a known culprit below the folder of traces."""
    sets = []
    for log in sorted(data.glob("nvrx_flight_recorder/*/fault_injection.log")):
        ranks = re.search(r"Fault ranks: \[([\d, ]*)\]", log.read_text())
        sets.append(DumpSet(log.parent.name, log.parent, _ranks(ranks[1] if ranks else "")))
    for label in sorted(data.glob("generated/hang_*/label.json")):
        truth = frozenset(json.loads(label.read_text())["culprit_ranks"] or ())
        folders = sorted(p for p in label.parent.iterdir() if p.name.startswith("fr"))
        sets += [DumpSet(f"{label.parent.name}/{folder.name}", folder, truth) for folder in folders]
    return sets


def ours(dumps: DumpSet) -> Answer:
    """Reading and analysis in this process."""
    start = time.perf_counter()
    read, _ = read_dumps(dumps.dumps)
    hang = hang_analysis(job_state(read))
    return Answer(frozenset(hang.culprits), hang.kind or "nothing", time.perf_counter() - start)


def fr_trace(python: str, dumps: DumpSet, *, repaired: bool) -> Answer:
    """PyTorch's analyser, in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        for path in dumps.dumps:
            (Path(folder) / path.name).write_bytes(path.read_bytes())
        if repaired:
            _repair(Path(folder))
        command = [
            python,
            "-m",
            "torch.distributed.flight_recorder.fr_trace",
            folder,
            "--allow-incomplete-ranks",
        ]
        start = time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        seconds = time.perf_counter() - start
    output = done.stdout + done.stderr
    ranks = frozenset().union(*map(_ranks, [*MISSING.findall(output), *CULPRIT.findall(output)]))
    error = re.findall(r"^(\w+(?:Error|Exception)\b.{0,40})", output, re.M)
    return Answer(ranks, error[-1].strip() if error else _states(output), seconds)


def _states(output: str) -> str:
    if "Not all ranks joining" in output:
        return "not all ranks join"
    match = re.search(r"(\w+_MISMATCH|FULLY_MATCHED|UNDECIDED)", output)
    return match[1] if match else "nothing"


def _repair(folder: Path) -> None:
    """Give gloo's groups the names and ranks that entries and the other dumps tell; drop dumps that
    are empty."""
    read: dict[Path, dict[str, Any]] = {}
    members: dict[tuple[str, str], set[int]] = defaultdict(set)
    for path in sorted(folder.iterdir()):
        if not path.stat().st_size:
            path.unlink()
            continue
        read[path] = load_plain_pickle(path.read_bytes())
        rank = int(re.findall(r"\d+$", path.name)[0])
        for entry in read[path]["entries"]:
            members[tuple(entry["process_group"])].add(rank)
    for path, dump in read.items():
        if "" not in dump["pg_config"]:
            continue
        rank = int(re.findall(r"\d+$", path.name)[0])
        dump["pg_config"] = {
            name: {"name": name, "desc": description, "ranks": str(sorted(ranks))}
            for (name, description), ranks in members.items()
            if rank in ranks
        }
        path.write_bytes(pickle.dumps(dump, protocol=2))


def _ranks(text: str) -> frozenset[int]:
    return frozenset(int(n) for n in re.findall(r"\d+", text))


def _has_fr_trace(python: str) -> bool:
    try:
        probe = "import torch.distributed.flight_recorder.fr_trace"
        return (
            subprocess.run(
                [python, "-c", probe], capture_output=True, timeout=SECONDS, check=False
            ).returncode
            == 0
        )
    except (OSError, subprocess.TimeoutExpired):
        return False


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=DATA, help="folder of traces")
    parser.add_argument(
        "--torch-python", default=sys.executable, help="a Python with torch 2.8 or newer"
    )
    options = parser.parse_args()
    sets = dump_sets(options.data)
    with_torch = _has_fr_trace(options.torch_python)
    tools = ["ours", *(["fr_trace", "fr_trace, names repaired"] if with_torch else [])]
    if not with_torch:
        print(
            f"{options.torch_python} has no torch with fr_trace: only ours is shown (see "
            f"--torch-python)."
        )
    right = dict.fromkeys(tools, 0)
    print(ROW.format("dumps", "truth", "tool", "", "ranks it names", "what it says", "seconds"))
    for dumps in sets:
        answers = {"ours": ours(dumps)}
        if with_torch:
            answers["fr_trace"] = fr_trace(options.torch_python, dumps, repaired=False)
            answers["fr_trace, names repaired"] = fr_trace(
                options.torch_python, dumps, repaired=True
            )
        for tool, answer in answers.items():
            exact = answer.ranks == dumps.truth
            right[tool] += exact
            named, truth = str(sorted(answer.ranks)), str(sorted(dumps.truth))
            verdict = "exact" if exact else "wrong"
            print(
                ROW.format(
                    dumps.name, truth, tool, verdict, named, answer.words, f"{answer.seconds:.2f}"
                )
            )
    print("exact: " + ", ".join(f"{tool} {count} of {len(sets)}" for tool, count in right.items()))
    print("seconds: ours within a running process; fr_trace with the start of Python and torch")


if __name__ == "__main__":
    main()
