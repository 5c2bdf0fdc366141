"""XPlane files as XLA writes them on accelerators, by its schema (`xplane.proto`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.analysis.traces.protobuf_messages import Message, Value, message

US = 1_000_000
"""ps."""


@dataclass
class Event:
    """An event: times in us."""

    name: str
    start: float
    length: float
    statistics: dict[str, int | str] = field(default_factory=dict)


def plane(
    name: str,
    lines: dict[str, list[Event]],
    *,
    about_events: dict[str, dict[str, int | str]] | None = None,
    facts: dict[str, int | str] | None = None,
) -> Message:
    """A plane. `about_events` are statistics by the name of an event, `facts` the plane's own."""
    names: dict[str, int] = {}
    kinds: dict[str, int] = {}

    def statistic(key: str, value: int | str) -> Message:
        kind = kinds.setdefault(key, len(kinds) + 1)
        return [(1, kind), (4 if isinstance(value, int) else 5, value)]

    def event(found: Event) -> Message:
        return [
            (1, names.setdefault(found.name, len(names) + 1)),
            (2, round(found.start * US)),
            (3, round(found.length * US)),
            (4, [statistic(key, value) for key, value in found.statistics.items()]),
        ]

    written: list[tuple[int, Value]] = [(2, name)]
    for number, (line, events) in enumerate(lines.items(), start=1):
        content: Message = [(1, number), (2, line), (4, [event(e) for e in events])]
        written.append((3, [content]))
    own = [statistic(key, value) for key, value in (facts or {}).items()]
    described = []
    for text, key in names.items():
        about = (about_events or {}).get(text, {})
        described.append((key, text, [statistic(k, v) for k, v in about.items()]))
    for key, text, statistics in described:
        entry: Message = [(1, key), (2, [[(1, key), (2, text), (5, statistics)]])]
        written.append((4, [entry]))
    for text, key in kinds.items():
        written.append((5, [[(1, key), (2, [[(1, key), (2, text)]])]]))
    written.append((6, own))
    return written


def space(*planes: Message, hostname: str = "worker-0") -> bytes:
    """A file."""
    return message([(1, list(planes)), (4, hostname)])


START = 1_790_000_000_000_000_000
ENVIRONMENT = plane("Task Environment", {}, facts={"profile_start_time": START})


def tpu(number: int, steps: int = 3, waiting: float = 0.0) -> Message:
    """A chip that trains: each step of 100 us holds a loop over a fusion, and an all-reduce."""
    operations, modules, rows = [], [], []
    for step in range(steps):
        at = 100.0 * step
        operations += [
            Event("while.1", at, 60),
            Event("fusion.7", at, 30),
            Event("convolution_fusion.2", at + 30, 30),
            Event("all-reduce.3", at + 60, 20 + waiting),
        ]
        modules.append(Event("jit_train_step(123)", at, 80 + waiting))
        rows.append(Event(str(step), at, 90))
    return plane(
        f"/device:TPU:{number}",
        {"Steps": rows, "XLA Modules": modules, "XLA Ops": operations, "_counters_": []},
        about_events={
            "convolution_fusion.2": {"hlo_category": "convolution fusion"},
            "fusion.7": {"hlo_category": "loop fusion"},
        },
        facts={"device_type_string": "TPU v5 lite", "device_vendor": "Google"},
    )


def gpu() -> tuple[Message, Message]:
    """The host's threads and a GPU with a kernel, a copy and a collective, as CUPTI tells them."""
    details = "regs:32 static_shared:0 dynamic_shared:0 grid:12,1,1 block:256,1,1 occ_pct:100"
    host = plane(
        "/host:CPU",
        {
            "python": [
                Event("train", 0, 90, {"step_num": 0, "_r": 1}),
                Event("train", 100, 90, {"step_num": 1, "_r": 1}),
                Event("$pjit.py:250 cache_miss", 2, 10),
            ],
            "tf_XLA": [
                Event("cuLaunchKernel", 5, 2, {"correlation_id": 11}),
                Event("cuMemcpyDtoHAsync_v2", 8, 1, {"correlation_id": 12}),
                Event("cuLaunchKernel", 105, 2, {"correlation_id": 13}),
            ],
        },
    )
    device = plane(
        "/device:GPU:0",
        {
            "Stream #13(Compute)": [
                Event(
                    "loop_add_fusion",
                    10,
                    20,
                    {"correlation_id": 11, "kernel_details": details, "hlo_op": "loop_add_fusion"},
                ),
                Event("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 110, 30, {"correlation_id": 13}),
            ],
            "Stream #20(MemcpyD2H)": [
                Event(
                    "MemcpyD2H",
                    31,
                    4,
                    {"correlation_id": 12, "memcpy_details": "kind_src:device size:4000 dest:0"},
                )
            ],
            "XLA Ops": [Event("loop_add_fusion", 10, 20)],
        },
        facts={"device_vendor": "Nvidia"},
    )
    return host, device
