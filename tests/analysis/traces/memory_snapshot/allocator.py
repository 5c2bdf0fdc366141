"""Memory snapshots with torch's structure (torch/csrc/cuda/memory_snapshot.cpp), written by a small
allocator."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

MB = 10**6
GB = 10**9
TORCH = "/opt/env/lib/python3.11/site-packages/torch/"


def frame(filename: str, line: int, name: str) -> dict[str, Any]:
    """One frame."""
    return {"name": name, "filename": filename, "line": line}


def stack(
    line: int, function: str = "forward", file: str = "/job/model/layers.py"
) -> list[dict[str, Any]]:
    """A stack, innermost first: C++, torch, the user's line, the user's loop."""
    return [
        frame("??", 0, "torch::unwind::unwind()"),
        frame(TORCH + "nn/functional.py", 2000, "linear"),
        frame(file, line, function),
        frame("/job/train.py", 10, "main"),
    ]


OPTIMIZER = [frame(TORCH + "optim/adamw.py", 300, "step"), frame("/job/train.py", 20, "main")]


class Allocator:
    """Records what it is asked for."""

    def __init__(self, reserved: int = 0) -> None:
        self.reserved = reserved
        self.events: list[dict[str, Any]] = []
        self.live: dict[int, tuple[int, list[dict[str, Any]]]] = {}
        self._next = 0x7F0000000000

    def alloc(self, size: int, frames: list[dict[str, Any]]) -> int:
        """Allocate; gives the address."""
        self._next += max(size, 512)
        self.live[self._next] = (size, frames)
        self._event("alloc", addr=self._next, size=size, frames=frames)
        return self._next

    def free(self, address: int) -> None:
        """Free at once."""
        size, _ = self.live.pop(address)
        self._event("free_requested", addr=address, size=size)
        self._event("free_completed", addr=address, size=size)

    def segment(self, size: int) -> None:
        """A call of cudaMalloc."""
        self.reserved += size
        self._event("segment_alloc", addr=1 << 40, size=size)

    def oom(self, size: int, device_free: int, frames: list[dict[str, Any]]) -> None:
        """An allocation that fails."""
        self._event("oom", device_free=device_free, size=size, frames=frames)

    def _event(self, action: str, **values: Any) -> None:
        self.events.append({"action": action, "stream": 0, "time_us": len(self.events)} | values)

    def snapshot(self, keep: int | None = None, free: list[int] | None = None) -> dict[str, Any]:
        """What _snapshot() gives; `free` are inactive blocks."""
        blocks = [
            {"address": a, "size": s, "requested_size": s, "state": "active_allocated", "frames": f}
            for a, (s, f) in self.live.items()
        ]
        blocks += [
            {"address": i, "size": s, "requested_size": 0, "state": "inactive", "frames": []}
            for i, s in enumerate(free or [])
        ]
        segment = {
            "device": 0,
            "address": 1 << 40,
            "total_size": self.reserved,
            "allocated_size": 0,
            "active_size": 0,
            "requested_size": 0,
            "stream": 0,
            "segment_type": "large",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": [],
            "blocks": blocks,
        }
        events = self.events if keep is None else self.events[len(self.events) - keep :]
        return {
            "segments": [segment],
            "device_traces": [events],
            "allocator_settings": {"max_split_size": -1},
        }

    def write(self, path: Path, keep: int | None = None, free: list[int] | None = None) -> Path:
        """As _dump_snapshot writes it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(self.snapshot(keep, free)))
        return path


def train(
    allocator: Allocator, steps: int, *, leak: int = 0, optimizer: bool = True, layers: int = 8
) -> None:
    """Steps of activations that come and go; `leak` bytes stay of every step."""
    allocator.alloc(2 * GB, stack(5, "build"))
    for step in range(steps):
        held = [allocator.alloc(500 * MB, stack(88)) for _ in range(layers)]
        if leak:
            allocator.alloc(leak, stack(42, "log_loss", "/job/metrics.py"))
        for address in reversed(held):
            allocator.free(address)
        if optimizer:
            scratch = [allocator.alloc(10 * MB, OPTIMIZER) for _ in range(4)]
            if step == 0:
                allocator.alloc(4 * GB, OPTIMIZER)
            for address in scratch:
                allocator.free(address)
