"""Flight recorder dumps written by hand: a job whose ranks enqueue collectives, and the files they
leave."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Pending = bool


@dataclass
class WrittenRank:
    """The recorder of one rank: call its collectives in order."""

    rank: int
    groups: Mapping[str, tuple[str, Sequence[int]]]
    """Name -> (description, ranks)."""
    backend: str = "nccl"
    entries: list[dict[str, Any]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    p2p: dict[str, int] = field(default_factory=dict)
    completed: dict[str, int] = field(default_factory=dict)

    def call(
        self,
        group: str,
        op: str = "all_reduce",
        *,
        pending: bool = False,
        size: Sequence[int] = (4096,),
        dtype: str = "Float",
        line: int = 10,
        function: str = "train_step",
        file: str = "train.py",
    ) -> WrittenRank:
        """Enqueue a collective, or "send 0->1"; pending or ended."""
        is_p2p = op.startswith(("send", "recv"))
        counter = self.p2p if is_p2p else self.counts
        counter[group] = counter.get(group, 0) + 1
        if not pending:
            self.completed[group] = counter[group]
        record = len(self.entries)
        gloo = self.backend == "gloo"
        self.entries.append(
            {
                "frames": [
                    {
                        "name": "all_reduce",
                        "filename": "site-packages/torch/distributed/distributed_c10d.py",
                        "line": 3,
                    },
                    {"name": function, "filename": file, "line": line},
                ],
                "record_id": record,
                "pg_id": list(self.groups).index(group),
                "process_group": (group, self.groups[group][0]),
                "collective_seq_id": self.counts.get(group, 0),
                "p2p_seq_id": self.p2p.get(group, 0),
                "op_id": record,
                "profiling_name": f"{self.backend}:{op}",
                "time_created_ns": 1_000_000 * record,
                "input_sizes": [list(size)],
                "input_dtypes": [dtype],
                "output_sizes": [list(size)],
                "output_dtypes": [dtype],
                "state": "scheduled" if pending or gloo else "completed",
                "time_discovered_started_ns": None,
                "time_discovered_completed_ns": None,
                "retired": not pending,
                "timeout_ms": 600_000,
                "is_p2p": is_p2p,
            }
        )
        return self

    def calls(self, group: str, times: int, **how: Any) -> WrittenRank:
        """The same collective several times."""
        for _ in range(times):
            self.call(group, **how)
        return self

    def dump(self, version: str = "2.9", only_active: bool = False) -> dict[str, Any]:
        """As the recorder writes it."""
        gloo = self.backend == "gloo"
        config = {
            n: {"name": n, "desc": d, "ranks": str(list(ranks))}
            for n, (d, ranks) in self.groups.items()
        }
        used = {n: max(self.counts.get(n, 0), self.p2p.get(n, 0)) for n in self.groups}
        return {
            "version": version,
            "pg_config": {"": {"name": "", "desc": "", "ranks": "[]"}} if gloo else config,
            "pg_status": {
                str(i): {
                    "last_enqueued_collective": used[name],
                    "last_started_collective": -1,
                    "last_completed_collective": self.completed.get(name, 0),
                }
                for i, name in enumerate(self.groups)
                if used[name] or not gloo
            },
            "nccl_version": "2.27.3",
            "entries": [e for e in self.entries if not (only_active and e["retired"])],
        }


def write_pickles(
    folder: Path, ranks: Sequence[WrittenRank], *, only_active: bool = False
) -> list[Path]:
    """rank_<r> files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in ranks:
        path = folder / f"rank_{rank.rank}"
        path.write_bytes(pickle.dumps(rank.dump(only_active=only_active), protocol=2))
        paths.append(path)
    return paths


def write_json(folder: Path, ranks: Sequence[WrittenRank]) -> list[Path]:
    """The debug server's answers: no frames, status numbers as text, 0 for no time."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for rank in ranks:
        dump = rank.dump("2.10")
        dump["entries"] = [
            {k: (0 if v is None else v) for k, v in entry.items() if k != "frames"}
            for entry in dump["entries"]
        ]
        dump["pg_status"] = {
            k: {n: str(v) for n, v in s.items()} for k, s in dump["pg_status"].items()
        }
        path = folder / f"rank{rank.rank}.fr_trace_json.json"
        path.write_text(json.dumps(dump))
        paths.append(path)
    return paths


def world(count: int, backend: str = "nccl", **groups: Sequence[int]) -> list[WrittenRank]:
    """Ranks with a default group "0" and the groups given by description; each rank has only its
    own."""
    named = {"0": ("default_pg", list(range(count)))} | {
        str(i): (description, list(ranks))
        for i, (description, ranks) in enumerate(groups.items(), start=1)
    }
    return [
        WrittenRank(
            r, {n: (d, members) for n, (d, members) in named.items() if r in members}, backend
        )
        for r in range(count)
    ]
