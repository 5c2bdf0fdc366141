from __future__ import annotations

import json
import platform
import sys

import numpy as np
import pytest

from faultline.analysis.traces.native import device_work, lane
from faultline.analysis.traces.reading import kineto
from faultline.analysis.traces.reading.kineto import read_trace_stream
from tests.analysis.traces.both_lanes import assert_equal
from tests.analysis.traces.written_traces import document, event


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="not a platform we build for",
)
def test_the_compiled_library_is_there() -> None:
    assert lane.load().fl_version() > 0


def test_without_the_library_traces_are_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(document([event("aten::mm", 1.5, 2.25, stream=3)])).encode()
    expected = read_trace_stream("t.json", [text])
    for module in (kineto, device_work, device_work):
        monkeypatch.setattr(module, "library", lambda: None)
    assert_equal(read_trace_stream("t.json", [text]), expected)
    column = np.zeros(1, dtype=np.int64)
    assert device_work.nesting_parents(column.astype(np.int32), column, column)[0].tolist() == [-1]
    assert device_work.longest_path(2, column, column + 1, column + 4)[0].tolist() == [0, 4]


def test_a_missing_library_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "EDITABLE_FOLDER", "no_such_folder")
    with pytest.raises(lane.NoLibraryError, match="install the package again"):
        lane.load()


def test_a_machine_without_a_compiler_is_not_told_to_install_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane, "EDITABLE_FOLDER", "no_such_folder")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert lane.why_slow().endswith("none is built for riscv64")


def test_nothing_is_said_where_the_library_is_there() -> None:
    assert lane.why_slow() == ""
