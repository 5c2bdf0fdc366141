"""Faultline's side of the benchmark, in a separate process.

python ours_side.py parse|analyses|slow REPEATS FILE...
"""

from __future__ import annotations

import sys
from pathlib import Path

from measured import Measured

sys.path.insert(0, str(Path(__file__).parents[2]))


def main() -> None:
    """Load the files (one rank each), `REPEATS` times, and time the analyses on what was loaded
    last."""
    part, repeats, files = sys.argv[1], int(sys.argv[2]), [Path(f) for f in sys.argv[3:]]
    from faultline.analysis.traces.reading.kineto import read_traces

    measured = Measured()
    for _ in range(repeats):
        loaded, _ = measured.time("parse", lambda: read_traces(files))
        if part == "parse":
            del loaded
            continue
        import ours_analyses

        ours_analyses.run(measured, loaded)
        if part == "slow":
            ours_analyses.run_slow(measured, loaded[0], files[0])
    measured.send()


if __name__ == "__main__":
    main()
