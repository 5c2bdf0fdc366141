"""Writes docs/trace-engine/reference.md from the docstrings of `faultline.traces`.

python docs/trace_reference.py
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import faultline.traces as ft
from faultline.traces.cost_analyses import CostAnalyses
from faultline.traces.device_analyses import DeviceAnalyses
from faultline.traces.host_analyses import HostAnalyses
from faultline.traces.job_analyses import AcrossRanks
from faultline.traces.plots import Plots

PAGE = Path(__file__).parent / "trace-engine" / "reference.md"
HEAD = (
    "# Reference of the Python API\n\n"
    "Made from the docstrings by `python docs/trace_reference.py`. "
    "How to use it: [traces in Python](library.md).\n\n"
    "Methods that give a frame are made of all ranks when they are first called, and kept. "
    "Columns end in their unit: `_ns`, `_us`, `_bytes`, `_percent`, `_gbps`. "
    "What has no unit is a count, a ratio or text.\n\n"
)
SECTIONS = {
    "The job": ft.Job,
    "The accelerator": DeviceAnalyses,
    "The host": HostAnalyses,
    "FLOPs and memory": CostAnalyses,
    "All ranks together": AcrossRanks,
}
_COLUMN = re.compile(r"\b[a-z]\w*_(?:ns|us|bytes|percent|gbps|gb_per_s|per_s|per_byte)\b")


def page() -> str:
    """The whole page."""
    parts = [HEAD + _entry("faultline.traces.open", ft.open)]
    for title, owner in SECTIONS.items():
        parts.append(f"## {title}\n\n" + "".join(_methods(owner, "job")))
    parts.append("## Charts\n\n" + "".join(_methods(Plots, "job.plot")))
    return "".join(parts).rstrip() + "\n"


def _methods(owner: type, called: str) -> Iterator[str]:
    for name, member in vars(owner).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            yield f"### {called}.{name}\n\n{_text(member)}\n\n"
        elif inspect.isfunction(member):
            yield _entry(f"{called}.{name}", member)


def _entry(name: str, function: Callable[..., object]) -> str:
    signature = inspect.signature(function)
    parameters = [p for p in signature.parameters.values() if p.name != "self"]
    shown = str(signature.replace(parameters=parameters))
    # Annotations are text, because modules import them from the future.
    shown = re.sub(r"(: |-> )'([^']*)'", r"\1\2", shown)
    return f"### {name}\n\n`{name.rpartition('.')[2]}{shown}`\n\n{_text(function)}\n\n"


def _text(documented: object) -> str:
    """The docstring with one line for each paragraph, and its columns as code."""
    paragraphs = []
    for paragraph in (inspect.getdoc(documented) or "").split("\n\n"):
        if paragraph.startswith("    "):
            paragraphs.append(paragraph)
            continue
        line = " ".join(paragraph.split())
        if line.startswith("Columns: "):
            line = _COLUMN.sub(r"`\g<0>`", line)
        paragraphs.append(line.replace("``", "`"))
    return "\n\n".join(paragraphs)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
