"""The C scanner under address and undefined-behaviour sanitizers:
`python -m tests.fuzz.native_scanner [--seconds S] [--inputs N] [--seed S]`.

Compiles the library with gcc, then feeds it the kept corpus (`native_corpus/`: the members of
`traceEvents`) and inputs made from it. Each buffer is of its exact size, so that one byte read
too far is seen. With `--keep` an input that reaches new code joins the corpus. What a sanitizer
finds ends the program with its report.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from faultline.analysis.traces.native.lane import EDITABLE_FOLDER, NativeLane, load
from faultline.analysis.traces.reading.event_scanner import ScanLimits
from tests.analysis.traces.trace_texts import KEYS, VALUES

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "analysis/traces/native"
CORPUS = HERE / "native_corpus"
FLAGS = (
    *("-shared", "-fPIC", "-std=gnu99", "-O1", "-g", "-fvisibility=hidden"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fsanitize-coverage=trace-pc"),
)
PIECES = tuple(
    text.encode("utf-8", "surrogatepass")
    for text in (*(f'"{k}":' for k in KEYS), *VALUES, "{", "}", "[", "]", ",", '"', "\\", " ")
)
LIMITS = (ScanLimits(), ScanLimits(events=3, arguments=5, text_bytes=60, names=2, texts=1))
PLACES = 65536
LONGEST = 4096


def compile_sanitized(folder: Path, sources: Path = SOURCES) -> dict[str, str]:
    """The library below `folder`, and the environment in which Python loads it instead of the
    installed one. Raises CalledProcessError, or FileNotFoundError where there is no gcc."""
    package = folder / EDITABLE_FOLDER
    package.mkdir()
    files = [str(file) for file in (*sorted(sources.glob("*.c")), HERE / "coverage.c")]
    command = ["gcc", *FLAGS, *files, "-o", str(package / "traces.so")]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    runtime = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    )
    return {
        **os.environ,
        "LD_PRELOAD": str(Path(runtime.stdout.strip()).resolve()),
        "PYTHONPATH": os.pathsep.join([str(folder), str(HERE.parents[1])]),
        "PYTHONMALLOC": "malloc",
        # Python itself leaves much allocated at its end.
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }


def scanned(text: bytes, block: int, limits: ScanLimits) -> None:
    """Feed it in blocks, as analysis/traces/reading/ does."""
    lane, rest, offset = NativeLane(limits), b"", 0
    for at in range(0, len(text), block):
        rest += text[at : at + block]
        # A bytearray would have a zero behind its end, which a scan may read unseen.
        buffer: Any = np.frombuffer(rest, np.uint8).copy()
        outcome, consumed = lane.feed(buffer, 0, len(rest), offset)
        rest, offset = rest[consumed:], offset + consumed
        if outcome != "more":
            break
    lane.finish()


def changed(chance: random.Random, corpus: list[bytes]) -> bytes:
    """One of the corpus, with pieces of JSON, of others or of chance in some of its places."""
    text = chance.choice(corpus)
    for _ in range(chance.randint(1, 6)):
        at, other = chance.randint(0, len(text)), chance.choice(corpus)
        start = chance.randint(0, len(other))
        new = chance.choice(
            (
                b"",
                chance.choice(PIECES),
                bytes([chance.randrange(256)]),
                other[start : start + chance.randint(0, 80)],
            )
        )
        text = text[:at] + new + text[at + chance.choice((0, 0, 1, 5, 40)) :]
    return text[:LONGEST]


def main() -> int:
    """Compile and start again under the sanitizer's runtime, or try inputs if that was done."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seconds", type=float, default=600)
    asked.add_argument("--inputs", type=int, default=1 << 40)
    asked.add_argument("--seed", type=int, default=19)
    asked.add_argument("--keep", action="store_true")
    asked.add_argument("--sources", type=Path, default=SOURCES)
    given = asked.parse_args()
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        return _try(given)
    folder = Path(tempfile.mkdtemp())
    try:
        environment = compile_sanitized(folder, given.sources)
        command = [sys.executable, "-m", "tests.fuzz.native_scanner", *sys.argv[1:]]
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        shutil.rmtree(folder)


def _try(given: argparse.Namespace) -> int:
    reached = (ctypes.c_uint8 * PLACES).in_dll(load(), "fl_reached")
    corpus = [file.read_bytes() for file in sorted(CORPUS.iterdir())]
    chance, end, known, tried = random.Random(given.seed), time.monotonic() + given.seconds, 0, 0
    last = Path(tempfile.gettempdir()) / f"native-scanner-{os.getpid()}.input"
    waiting = list(corpus)
    while waiting or (tried < given.inputs and time.monotonic() < end):
        kept = bool(waiting)
        text = waiting.pop() if kept else changed(chance, corpus)
        # A sanitizer ends the process: what it read has to be somewhere by then.
        last.write_bytes(text)
        for block in (chance.randint(1, 64), LONGEST * 32):
            scanned(text, block, LIMITS[tried % 3 == 0])
        tried += 1
        now = PLACES - bytes(reached).count(0)
        if now > known and not kept:
            corpus.append(text)
            if given.keep:
                (CORPUS / hashlib.sha256(text).hexdigest()[:16]).write_bytes(text)
        known = now
    last.unlink()
    print(f"{tried:,} inputs, {known} places reached, 0 found by the sanitizers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
