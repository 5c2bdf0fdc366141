"""The floor: simdjson reads the bytes of the files and makes its tape of them, and no value is
taken out. Runs in a separate environment, where `pysimdjson` is installed.

python floor_side.py parse|whole REPEATS FILE...
"""

from __future__ import annotations

import sys
from pathlib import Path

import simdjson
from measured import Measured


def main() -> None:
    """Parse each file, `REPEATS` times."""
    repeats, files = int(sys.argv[2]), [Path(file) for file in sys.argv[3:]]
    measured = Measured()
    for _ in range(repeats):
        measured.time("parse", lambda: _tapes(files))
    measured.send()


def _tapes(files: list[Path]) -> None:
    for file in files:
        simdjson.Parser().parse(file.read_bytes())


if __name__ == "__main__":
    main()
