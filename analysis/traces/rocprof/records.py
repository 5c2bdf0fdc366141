"""What is read of rocprofv3's JSON (`--output-format json`), as types.

Source: `generateJSON.cpp` and the serialisation of records in ROCm/rocprofiler-sdk. Members that
are missing have defaults, as builds differ; those that are not listed are skipped.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

# Bounded, so that sums of times stay within 64 bits.
Time = Annotated[int, msgspec.Meta(ge=0, lt=1 << 61)]
"""ns of the machine's clock."""
Size = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class Handle(msgspec.Struct):
    """An id that is wrapped."""

    handle: int = 0


class Correlation(msgspec.Struct):
    """What links work to its call."""

    internal: int = 0


class Extent(msgspec.Struct):
    """Work items by axis."""

    x: Size = 0
    y: Size = 0
    z: Size = 0


class DispatchInfo(msgspec.Struct):
    """What was launched, and where."""

    kernel_id: int = 0
    agent_id: Handle = msgspec.field(default_factory=Handle)
    queue_id: Handle = msgspec.field(default_factory=Handle)
    workgroup_size: Extent = msgspec.field(default_factory=Extent)
    grid_size: Extent = msgspec.field(default_factory=Extent)
    group_segment_size: Size = 0


class Dispatch(msgspec.Struct):
    """A kernel."""

    start_timestamp: Time
    end_timestamp: Time
    dispatch_info: DispatchInfo
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)
    stream_id: Handle | None = None


class Copy(msgspec.Struct):
    """A copy of memory."""

    start_timestamp: Time
    end_timestamp: Time
    kind: int = -1
    operation: int = -1
    bytes: Size = 0
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)
    src_agent_id: Handle = msgspec.field(default_factory=Handle)
    dst_agent_id: Handle = msgspec.field(default_factory=Handle)
    stream_id: Handle | None = None


class Call(msgspec.Struct):
    """A call of the host: HIP, HSA, RCCL or a marker."""

    start_timestamp: Time
    end_timestamp: Time
    kind: int = -1
    operation: int = -1
    thread_id: int = 0
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)


class Kind(msgspec.Struct):
    """A kind of record and its operations, by number."""

    kind: str = ""
    operations: list[str] = []


class Message(msgspec.Struct):
    """The text of a marker, by its correlation."""

    key: int = 0
    value: str = ""


class Strings(msgspec.Struct):
    """Texts of the records."""

    buffer_records: list[Kind] = []
    marker_api: list[Message] = []


class Agent(msgspec.Struct):
    """A processor."""

    id: Handle = msgspec.field(default_factory=Handle)
    type: int = 0
    node_id: int = -1
    logical_node_id: int = -1
    name: str = ""
    product_name: str = ""


class Symbol(msgspec.Struct):
    """A kernel's names."""

    kernel_id: int = -1
    kernel_name: str = ""
    formatted_kernel_name: str = ""
    demangled_kernel_name: str = ""


class Records(msgspec.Struct):
    """All records of a process."""

    kernel_dispatch: list[Dispatch] = []
    memory_copy: list[Copy] = []
    hip_api: list[Call] = []
    hsa_api: list[Call] = []
    marker_api: list[Call] = []
    rccl_api: list[Call] = []


class Metadata(msgspec.Struct):
    """Facts about the run."""

    pid: int = 0


class Process(msgspec.Struct):
    """One process."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    agents: list[Agent] = []
    strings: Strings = msgspec.field(default_factory=Strings)
    kernel_symbols: list[Symbol] = []
    buffer_records: Records = msgspec.field(default_factory=Records)


class Results(msgspec.Struct, rename={"processes": "rocprofiler-sdk-tool"}):
    """A whole file."""

    processes: list[Process]
