"""Texts for fuzzing: traces that profilers write, and pieces of JSON that go wrong in every way."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from tests.analysis.traces.written_traces import document, event, job

MEMORY = {
    "ph": "i",
    "cat": "cpu_instant_event",
    "s": "t",
    "name": "[memory]",
    "pid": 1,
    "tid": 1,
    "ts": 1002.5,
    "args": {
        "Total Reserved": 0,
        "Total Allocated": 64,
        "Bytes": -64,
        "Addr": 140235,
        "Device Id": -1,
        "Device Type": 0,
    },
}
KERNEL = event(
    'void at::native::kernel<float, 4>("x\\y")',
    1003.125,
    7.5,
    cat="kernel",
    tid=7,
    **{
        "stream": 7,
        "correlation": 12,
        "External id": 3,
        "grid": [80, 1, 1],
        "est. achieved occupancy %": 12.345678901234567,
        "memory bandwidth (GB/s)": "0x10",
        "Input Dims": [[64, 3], [], [[1]]],
        "Input dims": [[2]],
    },
)
RICH = [
    *job(ranks=1, steps=1)[0],
    KERNEL,
    {**KERNEL, "args": {}, "tid": "stream 9"},
    MEMORY,
    event(
        "__cupti_profiler__",
        1000,
        50,
        cat="cuda_profiler_range",
        smsp__inst=7,
        **{"dram.sum": 1.5e300},
    ),
    {
        "ph": "M",
        "name": "thread_name",
        "pid": 1,
        "tid": 1,
        "ts": 0,
        "args": {"name": "main \u00e9"},
    },
    {"ph": "M", "name": "process_labels", "pid": 1, "tid": 0, "args": {"labels": "CPU"}},
    {"ph": "f", "id": 3, "pid": 1, "tid": 1, "ts": 1, "cat": "ac2g", "name": "ac2g", "bp": "e"},
]
"""One event of every kind that is kept."""
SEED = json.dumps(document(RICH)).encode()
PRETTY = json.dumps(document(RICH), indent=2, ensure_ascii=False).encode()

KEYS = (
    *(
        "ph",
        "cat",
        "name",
        "pid",
        "tid",
        "ts",
        "dur",
        "args",
        "id",
        "stream",
        "correlation",
        "External id",
        "bytes",
    ),
    *(
        "grid",
        "dtype",
        "Input dims",
        "Input Dims",
        "Addr",
        "Total Allocated",
        "kind",
        "a\\u0062",
        "\\u0074s",
        "x" * 60,
        "",
    ),
)
VALUES = (
    *(
        '"X"',
        '"i"',
        '"M"',
        '""',
        '"XY"',
        '"\\u0058"',
        '"[memory]"',
        '"thread_name"',
        '"cuda_profiler_range"',
        '"kernel"',
    ),
    *(
        "0",
        "-0",
        "1",
        "12.5",
        "-7.25",
        "1e3",
        "1E-2",
        "2.5e-4",
        "4294967295",
        "9007199254740993",
        "9223372036854775807",
    ),
    *(
        "9223372036854775808",
        "1e15",
        "9999999999999999",
        "9223372036854775.8",
        "0.0005",
        "0.0015",
        "1e99999",
        "1e999999",
    ),
    *(
        "12345678901234567890123456789012345678901234567890123456789012345",
        "0.1234567890123456789",
        "01",
        "1.",
        ".5",
    ),
    *(
        '"7"',
        '"0x1f"',
        '"0xg"',
        '"12.5"',
        '" 3 "',
        '"1_0"',
        '"inf"',
        '"stream 12"',
        '"stream x"',
        '"stream 1234567890"',
    ),
    *(
        "null",
        "true",
        "false",
        "N/A",
        "NaN",
        "nan",
        "inf",
        "-inf",
        "Infinity",
        "-Infinity",
        "tru",
        "-",
        "+1",
        "--1",
    ),
    *(
        "{}",
        "[]",
        '[1, [2, {"a": 3}]]',
        '{"a": [], "b": {}}',
        "[1,]",
        "{,}",
        '{"a"}',
        "[" * 130 + "]" * 130,
    ),
    *(
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        '"\\x"',
        '"\\u12"',
        '"a\\\\"',
        '"\x01\x00\n"',
        '"\u00e9"',
        '"a"b"',
        '"N/A, nan"',
    ),
)
MEMBERS = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES)), max_size=8)
SPACES = st.sampled_from(["", " ", "\n  ", "\t\r\n"])


def _object(members: list[tuple[str, str]], args: list[tuple[str, str]] | None, space: str) -> str:
    if args is not None:
        members = [*members, ("args", _object(args, None, space))]
    return (
        "{"
        + ",".join(f'{space}"{key}"{space}:{space}{value}{space}' for key, value in members)
        + "}"
    )


EVENTS = st.builds(_object, MEMBERS, st.none() | MEMBERS, SPACES)
INTERVALS = st.builds(
    lambda members, args, space: _object(
        [("ph", '"X"'), ("ts", "5"), ("dur", "1"), *members], args, space
    ),
    MEMBERS,
    st.none() | MEMBERS,
    SPACES,
)
LISTS = st.lists(EVENTS | INTERVALS | st.sampled_from(VALUES), max_size=8).map(
    lambda parts: ('{"traceEvents": [' + ", ".join(parts) + "]}").encode("utf-8", "surrogatepass")
)
"""Lists of events of any members with any values."""
BYTES = st.lists(
    st.sampled_from(
        [
            b"{",
            b"}",
            b"[",
            b"]",
            b'"',
            b",",
            b":",
            b"\\",
            b" ",
            b"\xff",
            b"\x00",
            b"1",
            b"-",
            b"N/A",
            b'"ph"',
        ]
    )
    | st.sampled_from(
        [
            b'"ph":"X"',
            b'"ts":1',
            b'"dur":1',
            b'"args":{',
            b'},{"ph":',
            b'"name":"',
            b"\xc3\xa9",
            b"nan",
        ]
    ),
    max_size=40,
).map(b"".join)
"""Bytes that look like JSON for a while."""
DAMAGE = st.lists(
    st.tuples(st.integers(0, 1 << 20), st.integers(0, 6), BYTES | st.binary(max_size=6)), max_size=5
)


def damaged(content: bytes, damage: list[tuple[int, int, bytes]]) -> bytes:
    """With some places overwritten."""
    for at, length, replacement in damage:
        place = at % (len(content) + 1)
        content = content[:place] + replacement + content[place + length :]
    return content
