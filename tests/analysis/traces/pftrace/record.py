"""Writes `recorded/*.pftrace` with Perfetto's own bindings.

    pip install perfetto && PYTHONPATH=. python tests/analysis/traces/pftrace/record.py

They are no recordings of a job. `sdk.pftrace` is laid out as Perfetto's SDK writes: names are
interned, times count from packet to packet, packets are compressed. `rocprofv3.pftrace` holds what
`generatePerfetto.cpp` of rocprofiler-sdk writes.
"""

import zlib
from pathlib import Path

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from tests.analysis.traces.pftrace.record_constants import SINCE_1970, START

RECORDED = Path(__file__).parent / "recorded"
BEGIN, END = TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END
HOST, STREAM = 11, 12


def sdk() -> bytes:
    """Two steps on a thread, a kernel each on a stream, by an incremental clock in microseconds."""
    trace = Trace()
    first = trace.packet.add(trusted_packet_sequence_id=1, sequence_flags=1)
    first.trace_packet_defaults.timestamp_clock_id = 64
    first.trace_packet_defaults.track_event_defaults.track_uuid = HOST
    snapshot = first.clock_snapshot
    snapshot.clocks.add(
        clock_id=64, timestamp=START // 1000, is_incremental=True, unit_multiplier_ns=1000
    )
    snapshot.clocks.add(clock_id=6, timestamp=START)
    snapshot.clocks.add(clock_id=1, timestamp=SINCE_1970)
    thread = trace.packet.add(trusted_packet_sequence_id=1).track_descriptor
    thread.uuid = HOST
    thread.thread.pid, thread.thread.tid, thread.thread.thread_name = 4711, 4712, "main"
    stream = trace.packet.add(trusted_packet_sequence_id=1).track_descriptor
    stream.uuid, stream.name = STREAM, "GPU 0 STREAM 7"
    names = trace.packet.add(trusted_packet_sequence_id=1, sequence_flags=2).interned_data
    for number, text in enumerate(("user_annotation", "cuda_runtime", "kernel"), start=1):
        names.event_categories.add(iid=number, name=text)
    texts = ("ProfilerStep#1", "ProfilerStep#2", "cudaLaunchKernel", "ampere_sgemm_128x64_nn")
    for number, text in enumerate(texts, start=1):
        names.event_names.add(iid=number, name=text)
    names.debug_annotation_names.add(iid=1, name="correlation")

    def event(passed_us: int, kind: int, name: int = 0, category: int = 0, **others: int) -> None:
        packet = trace.packet.add(
            trusted_packet_sequence_id=1, sequence_flags=2, timestamp=passed_us
        )
        packet.track_event.type = kind
        if name:
            packet.track_event.name_iid = name
            packet.track_event.category_iids.append(category)
        if "correlation" in others:
            packet.track_event.debug_annotations.add(name_iid=1, uint_value=others["correlation"])
        if "track" in others:
            packet.track_event.track_uuid = others["track"]

    for step in (1, 2):
        event(10, BEGIN, step, 1)
        event(5, BEGIN, 3, 2, correlation=step)
        event(2, END)
        event(3, BEGIN, 4, 3, track=STREAM, correlation=step)
        event(40, END, track=STREAM)
        event(10, END)
    # All packets after the fourth are in one that is compressed.
    packed = Trace()
    packed.packet.extend(trace.packet[:4])
    rest = Trace()
    rest.packet.extend(trace.packet[4:])
    packed.packet.add().compressed_packets = zlib.compress(rest.SerializeToString())
    return packed.SerializeToString()


def rocprofv3() -> bytes:
    """A thread that launches kernels and copies, in two streams of an agent."""
    trace = Trace()
    rows = {1: "THREAD 1 (77)", 2: "COMPUTE AGENT [2] STREAM [1] (GPU)"}
    rows |= {3: "COPY to AGENT [2] STREAM [1] (GPU)"}
    for number, text in rows.items():
        descriptor = trace.packet.add(trusted_packet_sequence_id=9).track_descriptor
        descriptor.uuid, descriptor.name = number, text

    def record(category: str, name: str, track: int, begin: int, end: int, **facts: int) -> None:
        facts = {"begin_ns": begin, "end_ns": end, "delta_ns": end - begin} | facts
        packet = trace.packet.add(trusted_packet_sequence_id=9, timestamp=begin)
        packet.track_event.type, packet.track_event.track_uuid = BEGIN, track
        packet.track_event.name = name
        packet.track_event.categories.append(category)
        for key, value in facts.items():
            packet.track_event.debug_annotations.add(name=key, uint_value=value)
        packet = trace.packet.add(trusted_packet_sequence_id=9, timestamp=end)
        packet.track_event.type, packet.track_event.track_uuid = END, track

    for number in range(4):
        at = START + 1_000 * number
        record("hip_api", "hipLaunchKernel", 1, at, at + 200, corr_id=number + 1)
    record("hip_api", "hipMemcpyAsync", 1, START + 4_000, START + 4_100, corr_id=5)
    record("marker_api", "step 1", 1, START, START + 2_000)
    record("marker_api", "step 2", 1, START + 2_000, START + 5_000)
    kernels = (
        "Cijk_Ailk_Bljk_HHS_BH_MT128x128x32_SE",
        "ncclDevKernel_Generic_1(ncclDevKernelArgs)",
    )
    for number in range(4):
        at = START + 500 + 1_000 * number
        name = kernels[number % 2]
        record("kernel_dispatch", name, 2, at, at + 900, corr_id=number + 1, queue=1)
    copy = "MEMORY_COPY_DEVICE_TO_HOST"
    record("memory_copy", copy, 3, START + 4_500, START + 4_700, corr_id=5, copy_bytes=8_000)
    return trace.SerializeToString()


if __name__ == "__main__":
    RECORDED.mkdir(exist_ok=True)
    (RECORDED / "sdk.pftrace").write_bytes(sdk())
    (RECORDED / "rocprofv3.pftrace").write_bytes(rocprofv3())
