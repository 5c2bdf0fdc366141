"""One rank's collectives: what each moved, for which ranks, when it entered and left.

These are communication kernels on the accelerator and, on the host, the annotations of libraries
that run there (`gloo:all_reduce`, `mpi:...`, `ucc:...`). NCCL's own annotations on the host
(`nccl:all_reduce`) are launches, no collectives; they lend a kernel its operation and size where
the kernel has none. Arguments: training-telemetry of PyTorch (`record_param_comms`):
Collective name, dtype, In/Out msg nelems, Process Group ...
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from faultline.analysis.traces.columns.device import Kind
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import Spans, covered, nothing_in
from faultline.analysis.traces.columns.steps import PHASES, StepColumns
from faultline.analysis.traces.per_rank.activity import Activity, collective_rows, lies_in
from faultline.analysis.traces.per_rank.collective_names import (
    MAX_ELEMENTS,
    MAX_RANKS,
    OTHER,
    POINT_TO_POINT,
    declared_groups,
    element_bytes,
    elements_of,
    is_launch,
    launch_times,
    operation_named,
    ranks_of,
)

MAX_COLLECTIVES = 4096
"""Most collectives kept of one rank (our choice: about 150 KB as JSON); whole steps from the
start."""
MAX_GROUPS = 256
"""Process groups distinguished; a rank of a large job is in tens."""
MAX_LISTED = 1024
"""A process group of more ranks is known by its name and size alone."""
MAX_NAME = 64


@dataclass(frozen=True)
class ProcessGroup:
    """Ranks that communicate with one another."""

    name: str
    """As PyTorch names it ("0", "12", a hash); "" where the trace does not say."""
    description: str
    """"default_pg", "mesh_tp", ..."""
    ranks: tuple[int, ...] | None
    """None where the trace does not say, or not all."""
    size: int | None

    @property
    def key(self) -> str:
        """What identifies a group of a job: on some paths, different sets of ranks reuse a name."""
        return f"{self.name}|{','.join(map(str, self.ranks))}" if self.ranks else self.name


@dataclass(frozen=True, eq=False)
class CollectiveCalls:
    """Columns with one row per collective, by start; times in ns since the epoch."""

    operations: tuple[str, ...]
    groups: tuple[ProcessGroup, ...]
    dtypes: tuple[str, ...]
    operation: Int64
    """Index into `operations`."""
    group: Int64
    """Index into `groups`."""
    sequence: Int64
    """The collective's number in its group (`Seq`); -1 where the trace does not say."""
    elements: Int64
    """Of this rank's input, over all tensors; 0 where unknown."""
    bytes: Int64
    """Size as nccl-tests counts it (the larger of input and output of one rank); 0 where
    unknown."""
    dtype: Int64
    """Index into `dtypes`; -1 where unknown."""
    start: Int64
    end: Int64
    launch: Int64
    """When the host launched it (`launch_times`); -1 where unknown."""
    exposed: Int64
    """ns in which none of the rank's own computation ran."""
    awaited: Int64
    """ns of `exposed` in which the next computation was launched already and had to wait; 0 on the
    host, where that is not known."""
    step: Int64
    """Number of the step in which the host launched it; -1 for none."""
    launched_in: Int64
    """The phase of the step that the host launched it in: index into `PHASES`; -1 for none."""
    on_device: Int64
    """1 for kernels, 0 for the host's collectives."""
    event: Int64
    """Position in the file's list of events."""
    cut: int = 0
    """How many more there were."""
    launched_only: int = 0
    """Launches on the host whose kernels are not in the trace (activity of the accelerator was not
    recorded)."""

    def __len__(self) -> int:
        return len(self.start)

    def named(self, *operations: str) -> Bool:
        """Mask of the rows of these operations."""
        operation_mask = np.asarray([o in operations for o in self.operations], dtype=np.bool_)
        return (
            operation_mask[self.operation]
            if len(operation_mask)
            else np.zeros(len(self), dtype=np.bool_)
        )

    def at_most(self, limit: int) -> CollectiveCalls:
        """Whole steps from the start, of about that many collectives."""
        if len(self) <= limit:
            return self
        whole_steps = _whole_steps(self.step, limit)
        columns: dict[str, Any] = {}
        for column in fields(self):
            value = getattr(self, column.name)
            if isinstance(value, np.ndarray):
                # A slice alone would keep the whole column in memory.
                columns[column.name] = value[:whole_steps].copy()
        return replace(self, **columns, cut=self.cut + len(self) - whole_steps)


def collective_calls(
    trace: TraceColumns, steps: StepColumns, activity: Activity
) -> CollectiveCalls:
    """The rank's collectives, sends and receives included. O(events)."""
    rows, launched_only = _rows(trace, activity)
    launch = activity.launch[rows]
    launched = launch_times(trace, rows, launch)
    moment = np.where(launched >= 0, launched, trace.ts[rows])
    step = steps.of(moment)
    whole_steps = _whole_steps(step, MAX_COLLECTIVES)
    rows, launch, moment, cut = (
        rows[:whole_steps],
        launch[:whole_steps],
        moment[:whole_steps],
        len(rows) - whole_steps,
    )
    lent = _annotation_of(trace, launch)
    operations, operation = _operations(trace, rows, lent)
    groups, group = _groups(trace, rows)
    dtypes, dtype, width = _dtypes(trace, rows, lent)
    sizes = [
        groups[g].size or (None if groups[g].name else trace.world_size) for g in group.tolist()
    ]
    elements, biggest = _elements(trace, rows, lent, operation, operations, sizes)
    on_device = trace.on_device[rows]
    return CollectiveCalls(
        operations=operations,
        groups=groups,
        dtypes=dtypes,
        operation=operation,
        group=group,
        sequence=_whole(trace, "Seq", rows, -1),
        elements=elements,
        bytes=biggest * width,
        dtype=dtype,
        start=trace.ts[rows],
        end=trace.end[rows],
        launch=launched[:whole_steps],
        exposed=trace.dur[rows] - covered(activity.computation, trace.ts[rows], trace.end[rows]),
        awaited=covered(_blocked_spans(trace, activity), trace.ts[rows], trace.end[rows]),
        step=step[:whole_steps],
        launched_in=_phases(moment, activity),
        on_device=on_device.astype(np.int64),
        event=trace.event[rows],
        cut=cut,
        launched_only=launched_only,
    )


def _blocked_spans(trace: TraceColumns, activity: Activity) -> Spans:
    """The pauses of computation during which the kernel that ends them was launched already: from
    its launch to its start."""
    starts, ends = activity.computation
    computing = np.flatnonzero((activity.kind == Kind.COMPUTATION) & (activity.launch >= 0))
    computing = computing[np.argsort(trace.ts[computing], kind="stable")]
    if not activity.accelerator or len(starts) < 2 or not len(computing):
        return nothing_in()
    first = np.searchsorted(trace.ts[computing], starts[1:])
    is_blocked = first < len(computing)
    row = computing[np.minimum(first, len(computing) - 1)]
    # A kernel that no call in the trace launched begins the pause's end unseen: nothing is known.
    is_blocked &= trace.ts[row] == starts[1:]
    begin = np.maximum(trace.ts[activity.launch[row]], ends[:-1])
    is_blocked &= begin < starts[1:]
    return begin[is_blocked], starts[1:][is_blocked]


def _rows(trace: TraceColumns, activity: Activity) -> tuple[Int64, int]:
    rows = collective_rows(trace, activity.kind)
    if trace.on_device[rows].any():
        return rows, 0
    launches = trace.rows_named(is_launch)
    return rows, int((~trace.in_category("gpu_user_annotation"))[launches].sum())


def _phases(moments: Int64, activity: Activity) -> Int64:
    """Index into PHASES of the phase in which each moment lies; -1 for none."""
    indices = np.full(len(moments), -1, dtype=np.int64)
    for index, phase in enumerate(PHASES):
        indices[lies_in(activity.annotated[phase], moments)] = index
    return indices


def _whole_steps(step: Int64, limit: int) -> int:
    """How many rows are kept: all, or whole steps up to the limit."""
    if len(step) <= limit:
        return len(step)
    last = int(step[limit])
    # A first step that is longer than the limit is cut inside.
    return (int(np.argmax(step == last)) if last >= 0 else 0) or limit


def _annotation_of(trace: TraceColumns, launch: Int64) -> Int64:
    """For each launch, the last `nccl:...` annotation around it on its thread; -1 where there is
    none."""
    annotation = np.full(len(launch), -1, dtype=np.int64)
    notes = trace.rows_named(is_launch)
    notes = notes[~trace.in_category("gpu_user_annotation")[notes]]
    here = launch >= 0
    for lane in np.unique(trace.lane[notes]).tolist():
        note = notes[trace.lane[notes] == lane]
        indexes = np.flatnonzero(here & (trace.lane[np.maximum(launch, 0)] == lane))
        moment = trace.ts[launch[indexes]]
        place = np.searchsorted(trace.ts[note], moment, side="right") - 1
        row = note[np.maximum(place, 0)]
        inside = (place >= 0) & (moment < trace.end[row])
        annotation[indexes[inside]] = row[inside]
    return annotation


def _operations(trace: TraceColumns, rows: Int64, lent: Int64) -> tuple[tuple[str, ...], Int64]:
    """By the kernel's argument, else its name; a name that is no collective's gives way to the
    launch's."""
    texts = trace.arguments.text("Collective name")
    by_text = [operation_named(t) for t in texts.texts]
    by_name = {
        i: operation_named(trace.names[i])
        for i in trace.names_of(np.append(rows, lent[lent >= 0])).tolist()
    }
    operations = []
    for text, name, note in zip(
        texts.ids_at(rows).tolist(), trace.name[rows].tolist(), lent.tolist(), strict=True
    ):
        operation = by_text[text] if text >= 0 else OTHER
        if operation == OTHER:
            operation = by_name[name]
        # NCCL runs all_to_all as SendRecv kernels: there the launch's annotation knows better.
        if operation in (OTHER, *POINT_TO_POINT) and text < 0 and note >= 0:
            operation = by_name[int(trace.name[note])]
        operations.append(operation)
    return _interned(operations)


def _interned(words: list[str]) -> tuple[tuple[str, ...], Int64]:
    ids: dict[str, int] = {}
    column = np.asarray([ids.setdefault(t, len(ids)) for t in words], dtype=np.int64)
    return tuple(ids), column


def _groups(trace: TraceColumns, rows: Int64) -> tuple[tuple[ProcessGroup, ...], Int64]:
    arguments = trace.arguments
    name, description = (
        arguments.text("Process Group Name"),
        arguments.text("Process Group Description"),
    )
    ranks, sizes = arguments.text("Process Group Ranks"), _whole(trace, "Group size", rows, 0)
    members_by_group = declared_groups(trace.header)
    unnamed = _group_of_all(members_by_group, trace.world_size)
    ids: dict[tuple[int, int, int, int], int] = {}
    keys = zip(
        name.ids_at(rows).tolist(),
        description.ids_at(rows).tolist(),
        ranks.ids_at(rows).tolist(),
        sizes.tolist(),
        strict=True,
    )
    column = np.asarray([ids.setdefault(key, len(ids)) for key in keys], dtype=np.int64)
    groups = []
    for n, d, r, s in list(ids)[:MAX_GROUPS]:
        called = name.texts[n] if n >= 0 else ""
        members = ranks_of(ranks.texts[r], s) if r >= 0 else None
        members = members or (members_by_group.get(called) if n >= 0 else unnamed)
        about = description.texts[d] if d >= 0 else ""
        size = len(members) if members else s or None
        listed = members if members and len(members) <= MAX_LISTED else None
        groups.append(ProcessGroup(called[:MAX_NAME], about[:MAX_NAME], listed, size))
    # Groups beyond the bound share the last place.
    return tuple(groups), np.minimum(column, max(len(groups) - 1, 0))


def _group_of_all(
    members_by_group: Mapping[str, tuple[int, ...]], world: int | None
) -> tuple[int, ...] | None:
    """Where events name no group (gloo's do not): the group of the whole world, or the only one.
    Ranks that are in further groups must not differ in this from those that are not."""
    whole = [ranks for ranks in members_by_group.values() if len(ranks) == world]
    return (
        whole[0]
        if whole
        else next(iter(members_by_group.values()))
        if len(members_by_group) == 1
        else None
    )


def _dtypes(trace: TraceColumns, rows: Int64, lent: Int64) -> tuple[tuple[str, ...], Int64, Int64]:
    """Names of element types, each row's, and its bytes (0 where unknown)."""
    dtype_texts, inputs = trace.arguments.text("dtype").at(rows), trace.arguments.text("Input type")
    input_types, lender = inputs.at(rows), inputs.at(np.maximum(lent, 0))
    types = []
    for dtype_text, mine, theirs, note in zip(
        dtype_texts, input_types, lender, lent.tolist(), strict=True
    ):
        match = re.search(r'"([^"]+)"', mine or (theirs if note >= 0 else ""))
        types.append((dtype_text or (match[1] if match else ""))[:MAX_NAME])
    names, column = _interned(types)
    width = np.asarray([element_bytes(n) for n in names], dtype=np.int64)
    return names, column, width[column] if len(names) else column


def _elements(
    trace: TraceColumns,
    rows: Int64,
    lent: Int64,
    operation: Int64,
    operations: tuple[str, ...],
    sizes: list[int | None],
) -> tuple[Int64, Int64]:
    """Elements of each input, and of the larger of input and output."""
    dims = trace.arguments.text("Input Dims")
    ids = dims.ids_at(rows)
    their_id = np.where(lent >= 0, dims.ids_at(np.maximum(lent, 0)), -1)
    # Operators have many more shapes than collectives. The last place is that of no shape.
    counted = np.zeros(len(dims.texts) + 1, dtype=np.int64)
    used = np.unique(np.append(ids, their_id))
    counted[used] = [elements_of(dims.texts[i]) if i >= 0 else 0 for i in used.tolist()]
    mine, theirs = counted[ids], counted[their_id]
    in_elements = _whole(trace, "In msg nelems", rows, 0)
    elements = np.where(in_elements > 0, in_elements, np.where(mine > 0, mine, theirs))
    out = _whole(trace, "Out msg nelems", rows, 0)
    gathers = (
        np.asarray([o == "all_gather" for o in operations] or [False])[operation]
        if len(rows)
        else rows > 0
    )
    group = np.asarray([min(s or 1, MAX_RANKS) for s in sizes], dtype=np.int64)
    # Bound the count before multiplying: a hostile one must not overflow.
    gathered = np.where(
        gathers & (out == 0), np.minimum(elements, MAX_ELEMENTS // MAX_RANKS) * group, out
    )
    return elements, np.maximum(elements, gathered)


def _whole(trace: TraceColumns, name: str, rows: Int64, default: int) -> Int64:
    """A numeric argument; the default where it is missing, negative or beyond all reason."""
    values = trace.arguments.number(name).at(rows, default)
    return np.where((values >= 0) & (values < MAX_ELEMENTS), values, default).astype(np.int64)
