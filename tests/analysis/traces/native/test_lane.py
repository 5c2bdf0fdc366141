"""The compiled scanner reads nothing outside the text it is given, and keeps nothing that it should
give back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from faultline.analysis.traces.native.lane import library

ROOT = Path(__file__).parents[4]
pytestmark = pytest.mark.skipif(
    library() is None or sys.platform != "linux", reason="needs the library, and mprotect"
)

GUARDED = """
import ctypes, mmap, random
from faultline.analysis.traces.reading.kineto import LIMITS
from faultline.analysis.traces.native.lane import NativeLane
from faultline.analysis.traces.native.lane import library
from tests.analysis.traces.trace_texts import KEYS, PRETTY, SEED, VALUES

PAGE, ROOM = mmap.PAGESIZE, 64 * mmap.PAGESIZE
memory = mmap.mmap(-1, ROOM + PAGE)
place = ctypes.addressof(ctypes.c_char.from_buffer(memory))
assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(place + ROOM), PAGE, 0) == 0
consumed = ctypes.c_int64()


def feed(text):
    start = place + ROOM - len(text)
    ctypes.memmove(start, text, len(text))
    lane = NativeLane(LIMITS)
    library().fl_scan_feed(
        lane._state, ctypes.c_void_p(start), ctypes.c_int64(len(text)), ctypes.c_int64(0), ctypes.byref(consumed)
    )
    assert 0 <= consumed.value <= len(text)


for whole in (SEED, PRETTY):
    events = whole[whole.index(b"[", whole.index(b"traceEvents")) + 1 :]
    for cut in range(0, len(events), 7):
        feed(events[:cut])
random.seed(7)
for _ in range(1500):
    members = [f'"{random.choice(KEYS)}": {random.choice(VALUES)}' for _ in range(random.randrange(6))]
    text = ('{"ph": "X", "ts": 1, "dur": 1, ' + ", ".join(members) + "}").encode("utf-8", "surrogatepass")
    feed(text[: random.randrange(len(text) + 1)])
    feed(random.choice(VALUES).encode("utf-8", "surrogatepass")[: random.randrange(20)])
print("unharmed")
"""  # noqa: E501

REPEATED = """
import resource
from faultline.analysis.traces.reading.kineto import read_trace_stream
from tests.analysis.traces.trace_texts import SEED

text = b"[" + b",".join([SEED[SEED.index(b"[") + 1 : SEED.rindex(b"]")]] * 2000) + b"]"


def peak(times):
    for _ in range(times):
        read_trace_stream("t.json", [text])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


few, many = peak(3), peak(18)
assert many < few + 20_000, (few, many)
print("unharmed")
"""


@pytest.mark.parametrize(
    "program", [GUARDED, REPEATED], ids=["reads stay inside the text", "memory is given back"]
)
def test_in_a_process_of_its_own(program: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ran.returncode, ran.stdout.strip()) == (0, "unharmed"), ran.stderr[-2000:]
