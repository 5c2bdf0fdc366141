"""How communication is written in traces: names of operations, element types, shapes, ranks of
process groups.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from faultline.analysis.traces.columns.events import Int64, TraceColumns

SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Operations that no rank can leave before every rank has entered; broadcast, reduce, send and
gather are not."""
POINT_TO_POINT = ("send", "recv", "send_recv")
"""Between two ranks; never matched. A kernel of NCCL does sends and receives together
("send_recv")."""

# The longer names come first: "reduce_scatter" also contains "reduce" and "scatter".
_OPERATION = re.compile(
    r"(?P<all_reduce>all[-_]?reduce|cross_device_reduce)|(?P<all_gather>all[-_]?gather)|"
    r"(?P<reduce_scatter>reduce[-_]?scatter)"
    r"|(?P<all_to_all>all[-_]?to[-_]?all)|(?P<barrier>barrier)|(?P<broadcast>broadcast)|"
    r"(?P<send_recv>send_?recv|collective-permute)"
    r"|(?P<reduce>reduce)|(?P<scatter>scatter)|(?P<gather>gather)|(?P<send>i?send)|"
    r"(?P<recv>i?recv)",
    re.IGNORECASE,
)
_ON_HOST = re.compile(r"^(?:gloo|mpi|ucc):", re.IGNORECASE)
_LAUNCH = re.compile(r"^(?:nccl|rccl|xccl|hccl|ccl):", re.IGNORECASE)
OTHER = "other"
"""The operation if it is unknown."""
MAX_ELEMENTS = 2**48
MAX_RANKS = 2**20
MAX_RANK = 10**7
_TYPES = {
    "float": 4, "double": 8, "half": 2, "bfloat": 2, "byte": 1, "char": 1, "bool": 1, "short": 2,
    "int": 4,
    "unsigned char": 1, "signed char": 1, "short int": 2, "long": 8, "long int": 8, "c10::half": 2,
    "c10::bfloat16": 2,
    "c10::complex<float>": 8, "c10::complex<double>": 16, "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip
"""Bytes of an element by the names PyTorch writes: scalar types in lower case ("Float") and C++
types ("long int")."""


def is_collective_on_host(name: str) -> bool:
    """Whether the annotation is a collective that runs on the host ("gloo:all_reduce")."""
    return _ON_HOST.match(name) is not None


def is_call(name: str) -> bool:
    """Whether the operator is a call of a process group ("c10d::allreduce_"), sends and receives
    included."""
    return name.startswith("c10d::") and operation_named(name) != OTHER


def is_launch(name: str) -> bool:
    """Whether the annotation on the host is the launch of a collective on the device
    ("nccl:all_reduce")."""
    return _LAUNCH.match(name) is not None


def operation_named(text: str) -> str:
    """The operation behind a name ("gloo:all_reduce", "ncclDevKernel_AllGather_RING_LL"); "other"
    for none."""
    match = _OPERATION.search(text)
    return (match.lastgroup or OTHER) if match else OTHER


def elements_of(dims: str) -> int:
    """Elements over all inputs, from shapes like [[65792]]; 0 where there are none."""
    try:
        shapes = json.loads(dims or "[]")
    except (ValueError, RecursionError):
        return 0
    total = 0
    for shape in shapes if isinstance(shapes, list) else ():
        if isinstance(shape, list) and shape and all(isinstance(n, int) for n in shape):
            # Bound the product: a hostile shape may have any number of dimensions.
            total += math.prod(shape[:16])
    return total if 0 <= total < MAX_ELEMENTS else 0


def element_bytes(dtype: str) -> int:
    """Bytes of one element; 0 for an unknown type."""
    plain = dtype.lower()
    if plain in _TYPES:
        return _TYPES[plain]
    bits = re.search(r"(?:float|int|bfloat|uint)(8|16|32|64)", plain)
    return int(bits[1]) // 8 if bits else 0


def declared_groups(header: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Ranks by group name, from the trace's distributedInfo."""
    info = header.get("distributedInfo")
    groups = info.get("pg_config") if isinstance(info, dict) else None
    ranks_by_group = {}
    for group in groups if isinstance(groups, list) else ():
        ranks = group.get("ranks") if isinstance(group, dict) else None
        if (
            isinstance(ranks, list)
            and ranks
            and all(isinstance(r, int) and 0 <= r < MAX_RANK for r in ranks)
        ):
            ranks_by_group[str(group.get("pg_name"))] = tuple(ranks)
    return ranks_by_group


def ranks_of(text: str, size: int) -> tuple[int, ...] | None:
    """Ranks of "[0, 1, 2]"; None where the list is shortened ("[0, 1, ..., 7]") or not as long as
    the group."""
    numbers = re.findall(r"\d{1,7}", text)
    whole = "..." not in text and numbers and (size == 0 or len(numbers) == size)
    return tuple(int(n) for n in numbers) if whole else None


# When the host launched each collective of a rank.


def launch_times(trace: TraceColumns, rows: Int64, launch: Int64) -> Int64:
    """ns, one per row; -1 for kernels whose launch is unknown.

    `rows` are collectives by start, `launch` the row of the call that launched each (-1 for none).
    A kernel is launched by that call. A collective on the host runs on a thread of its library, in
    the order of the calls of its process group (`c10d::allreduce_`): it takes the oldest call that
    no other took; where there is none, its own start.
    """
    has_launch = launch >= 0
    times = (
        np.where(has_launch, trace.ts[np.maximum(launch, 0)], -1)
        if len(trace)
        else np.empty(0, dtype=np.int64)
    )
    on_host = np.flatnonzero(~trace.on_device[rows])
    starts = trace.ts[rows[on_host]]
    calls = trace.rows_named(is_call)
    waiting: deque[int] = deque()
    begun = trace.ts[calls[trace.in_category("cpu_op", "operator")[calls]]].tolist()
    oldest_calls, upcoming = starts.copy(), 0
    for place, start in enumerate(starts.tolist()):
        while upcoming < len(begun) and begun[upcoming] <= start:
            waiting.append(begun[upcoming])
            upcoming += 1
        if waiting:
            oldest_calls[place] = waiting.popleft()
    times[on_host] = oldest_calls
    return times
