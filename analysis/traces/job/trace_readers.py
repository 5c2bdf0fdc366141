"""One file that is a trace, of whatever format, as columns."""

from __future__ import annotations

from pathlib import Path

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.reading.file_kinds import FileKind, first_block, kind_of
from faultline.analysis.traces.reading.kineto import ascend_trace, is_ascend, read_trace
from faultline.analysis.traces.reading.trace_bytes import Progress
from faultline.analysis.traces.xla.chrome import is_profile, profile_traces


def traces_in(
    path: Path, kind: FileKind | None = None, order: int = 0, progress: Progress | None = None
) -> list[TraceColumns]:
    """The ranks of a file: one, or one for each process or device that it holds.

    `kind` None: looked up. `order` is the rank of a profiler trace that does not say its own.
    Raises EvidenceError for a file that is no trace.
    """
    if kind is None:
        try:
            kind = kind_of(path, first_block(path))
        except OSError as error:
            raise EvidenceError(path.name, f"cannot be read ({error.strerror})") from error
    # Readers of formats that most jobs do not have are imported when they are needed.
    if kind == "nsight_sqlite":
        from faultline.analysis.traces.nsight.export import read_export

        return read_export(path)
    if kind == "xplane":
        from faultline.analysis.traces.xla.xplane import read_xplane

        return read_xplane(path)
    if kind == "perfetto_trace":
        from faultline.analysis.traces.pftrace.trace import read_pftrace

        return read_pftrace(path)
    if kind == "rocprof_json":
        from faultline.analysis.traces.rocprof.results import read_results

        return read_results(path)
    trace = read_trace(path, order=order, progress=progress)
    if is_ascend(trace):
        return [ascend_trace(trace)]
    return profile_traces(trace) if is_profile(trace) else [trace]
