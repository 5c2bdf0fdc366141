"""Faultline's side of the benchmark, in a separate process.

python ours_side.py load|analyses REPEATS FILE...
"""

from __future__ import annotations

import sys
from pathlib import Path

from measured import Measured, cpu_seconds

sys.path.insert(0, str(Path(__file__).parents[2]))


def main() -> None:
    """Load the files (one rank each), `REPEATS` times, and time the analyses on what was loaded
    last."""
    part, repeats, files = sys.argv[1], int(sys.argv[2]), [Path(f) for f in sys.argv[3:]]
    measured = Measured()
    began = cpu_seconds()
    from analysis.traces.reading.kineto import read_trace, read_traces

    measured.note("import", cpu_seconds() - began)
    loaded = None
    for _ in range(repeats):
        loaded = None
        if len(files) > 1:
            loaded = measured.time("load", lambda: read_traces(files))
        else:
            loaded = measured.time("load", lambda: read_trace(files[0]))
    if part == "analyses" and loaded is not None:
        from ours_analyses import run

        for _ in range(repeats):
            run(measured, loaded, files[0])
    measured.send()


if __name__ == "__main__":
    main()
