"""Names of XLA's events as the engine knows them.

Sources: `xplane_schema.cc`, `HloOpcode` (names of operations) and JAX's profiler, which writes
Python calls as "$pjit.py:250 cache_miss".
"""

from __future__ import annotations

import re

MARKERS = ("ThreadpoolListener::", "end: ")
"""Moments without a length that only link threads."""
_PYTHON = re.compile(r"^\$(.*?):(\d{1,9}) (.*)$")
_COLLECTIVE = re.compile(
    r"all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast",
    re.IGNORECASE,
)
_COPY = re.compile(r"^Mem(?:cpy|Copy)", re.IGNORECASE)
_FILL = re.compile(r"^Memset", re.IGNORECASE)


def python_name(text: str) -> str:
    """A Python call as PyTorch writes it ("pjit.py(250): cache_miss"); others as they are."""
    if not text.startswith("$"):
        return text
    match = _PYTHON.match(text)
    return f"{match[1]}({match[2]}): {match[3]}" if match else text[1:]


def host_category(text: str) -> str:
    """The category of an event of a host's thread."""
    return "python_function" if text.startswith("$") else "cpu_op"


def annotated_step(name: str, number: int) -> str:
    """A step of `jax.profiler.StepTraceAnnotation`."""
    return f"{name} {number}"


def exactly(name: str) -> str:
    """The name of steps as a pattern for `TraceColumns.step_name`: itself with a number alone."""
    escaped = re.sub(r"([*?\[])", r"[\1]", name)
    return name if escaped == name else f"{escaped} [0-9]*"


def device_category(name: str) -> str:
    """The category of work on a device, by its name."""
    if _COPY.match(name):
        return "gpu_memcpy"
    if _FILL.match(name):
        return "gpu_memset"
    return "kernel"


def collective_in(name: str, hlo_category: str) -> str:
    """The name, with the collective that is only in the category of a fusion."""
    if _COLLECTIVE.search(hlo_category) and not _COLLECTIVE.search(name):
        return f"{hlo_category} ({name})"
    return name
