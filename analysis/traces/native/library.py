"""Finds and loads the compiled library; says why there is none."""

from __future__ import annotations

import ctypes
import importlib.util
import platform
from functools import cache
from pathlib import Path

EDITABLE_FOLDER = "_faultline_native"
"""The folder in site-packages that hatch_build.py puts the library of an editable install into. A
wheel has it beside this file."""
SUFFIXES = (".so", ".dylib", ".dll")
VERSION = 3
"""Of what the functions take and give; the library's own must be the same."""

BUILT_FOR = ("x86_64", "amd64", "aarch64", "arm64")
"""Machines with a compiler on PyPI (hatch_build.py)."""

COUNTS = (
    "fl_version",
    "fl_nesting",
    "fl_longest_path",
    "fl_device_rows",
    "fl_launches",
    "fl_lane_streams",
    "fl_of_lane",
    "fl_order_by_key",
    "fl_lane_order",
    "fl_stream_gaps",
    "fl_scan_key",
    "fl_scan_feed",
    "fl_scan_table",
)
"""Functions that return an int64."""
PLACES = ("fl_scan_new", "fl_scan_take")
"""Functions that return an address."""
NOTHINGS = ("fl_scan_counts", "fl_scan_free", "fl_free")


class NoLibraryError(Exception):
    """The compiled library is missing or does not fit; the message says which."""


@cache
def library() -> ctypes.CDLL | None:
    """The compiled library, or None where it was not built for this platform."""
    try:
        return load()
    except NoLibraryError:
        return None


def why_slow() -> str:
    """One line for the user where the compiled library is missing, "" where it is there."""
    try:
        load()
    except NoLibraryError as error:
        return f"traces are read in Python, many times slower: {error}"
    return ""


def load() -> ctypes.CDLL:
    """The compiled library. Raises NoLibraryError."""
    folders = [Path(__file__).parent]
    spec = importlib.util.find_spec(EDITABLE_FOLDER)
    if spec:
        folders += [Path(place) for place in spec.submodule_search_locations or ()]
    files = [
        file
        for folder in folders
        for file in sorted(folder.glob("traces.*"))
        if file.suffix in SUFFIXES
    ]
    if not files:
        machine = platform.machine()
        what_to_do = f"none is built for {machine}"
        if machine.lower() in BUILT_FOR:
            what_to_do = "install the package again (uv sync)"
        raise NoLibraryError(f"there is no compiled library: {what_to_do}")
    try:
        loaded = ctypes.CDLL(str(files[0]))
        # ctypes takes results for C ints by default: addresses would lose their upper half.
        for name in COUNTS:
            getattr(loaded, name).restype = ctypes.c_int64
        for name in PLACES:
            getattr(loaded, name).restype = ctypes.c_void_p
        for name in NOTHINGS:
            getattr(loaded, name).restype = None
        version = loaded.fl_version()
    except (OSError, AttributeError) as error:
        raise NoLibraryError(f"{files[0].name} cannot be loaded ({error})") from error
    # A library of another version takes other arguments.
    if version != VERSION:
        raise NoLibraryError(
            f"{files[0].name} has version {version}, not {VERSION}: install the package again"
        )
    return loaded


def pointer(array: object) -> ctypes.c_void_p:
    """The address of a numpy array's first element, for a call."""
    return ctypes.c_void_p(array.ctypes.data)  # type: ignore[attr-defined]
