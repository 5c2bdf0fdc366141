"""Specifications as prism takes them: it leaves the base path of a specification out, so paths are
written in full."""

from __future__ import annotations

import re
from pathlib import Path


def with_full_paths(specification: Path, base: str, folder: Path) -> Path:
    """A copy of the YAML file in which every path begins with `base`, such as `/api/v2`."""
    head, mark, paths = specification.read_text().partition("\npaths:\n")
    assert mark, specification
    indent = re.search(r"^( +)/", paths, re.MULTILINE)
    assert indent, specification
    found = folder / specification.name
    head = re.sub(r"(?m)^basePath:.*$", 'basePath: "/"', head)
    found.write_text(head + mark + re.sub(rf"(?m)^{indent[1]}/", f"{indent[1]}{base}/", paths))
    return found
