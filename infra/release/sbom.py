"""The bill of materials of what a release installs: `python -m infra.release.sbom FROM TO`.

Takes uv's CycloneDX 1.5 document, which has the hash of every file of the lock, and writes it as
1.6 with each component's licence as an SPDX expression: as its installed metadata has it, or as one
of two lists below says and why.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
NAMES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
"""Licences as older metadata names them, and their SPDX identifiers. `BSD License` is several."""
IDENTIFIERS = frozenset(
    {
        *NAMES.values(),
        "0BSD",
        "BSD-2-Clause",
        "CC0-1.0",
        "CNRI-Python",
        "LGPL-3.0-only",
        "MIT-0",
        "MIT-CMU",
        "Zlib",
    }
)
"""SPDX identifiers that older metadata may give where it has no field for an expression."""


@dataclass(frozen=True)
class StatedLicence:
    """The licence of a package that its installed metadata does not tell, and how it is known."""

    expression: str
    because: str


IN_ITS_FILES = {
    "altair": StatedLicence("BSD-3-Clause", "metadata says BSD; its LICENSE has three clauses"),
    "google-re2": StatedLicence("BSD-3-Clause", "metadata says BSD; its LICENSE has three clauses"),
    "jinja2": StatedLicence("BSD-3-Clause", "metadata says BSD; its LICENSE.txt has three clauses"),
    "promql-parser": StatedLicence("MIT", "metadata says nothing; its LICENSE is the MIT licence"),
    "python-dateutil": StatedLicence(
        "Apache-2.0 AND BSD-3-Clause",
        "its LICENSE: Apache's for what is new, BSD's for the rest",
    ),
    "resvg-py": StatedLicence("MIT", "metadata says nothing; its LICENSE is the MIT licence"),
    "uvloop": StatedLicence("MIT OR Apache-2.0", "it comes with both, to choose from"),
}
"""Packages whose metadata is silent or leaves a choice. The licence files in them are not."""
ELSEWHERE = {
    "colorama": StatedLicence("BSD-3-Clause", "for Windows alone"),
    "httpx2-jsfetch": StatedLicence("BSD-3-Clause", "for Emscripten alone"),
    "numpy": StatedLicence(
        "BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0",
        "the lock holds two versions: one for Python 3.11, one for later ones",
    ),
    "pywin32": StatedLicence("PSF-2.0", "for Windows alone"),
    "tzdata": StatedLicence("Apache-2.0", "for Windows alone"),
}
"""Packages of other platforms and Pythons, as they stand in the package index."""


def complete(document: dict[str, Any]) -> list[str]:
    """Make it 1.6 and add licences in place; returns the components without one."""
    document |= {"$schema": SCHEMA, "specVersion": "1.6"}
    # 1.5's form of a tool, which 1.6 deprecates.
    tools = document["metadata"]["tools"]
    document["metadata"]["tools"] = {
        "components": [
            {"type": "application", "name": tool["name"], "version": tool["version"]}
            for tool in tools
        ]
    }
    document["metadata"]["component"]["licenses"] = [{"expression": "Apache-2.0"}]
    without = []
    for component in document["components"]:
        name = component["name"]
        expression = licence_of(name, component["version"])
        if expression is None and name in ELSEWHERE:
            expression = ELSEWHERE[name].expression
        if expression is None:
            without.append(name)
        else:
            component["licenses"] = [{"expression": expression}]
    return without


def licence_of(name: str, version: str) -> str | None:
    """The SPDX expression of an installed package; None where this version is not installed or
    names none."""
    try:
        package_metadata = metadata(name)
    except PackageNotFoundError:
        return None
    if package_metadata["Version"] != version:
        return None
    if expression := package_metadata.get("License-Expression"):
        return str(expression)
    if name in IN_ITS_FILES:
        return IN_ITS_FILES[name].expression
    classifiers = [
        c for c in package_metadata.get_all("Classifier") or [] if c.startswith("License ::")
    ]
    names = [
        (package_metadata.get("License") or "").strip(),
        *(c.rpartition(" :: ")[2] for c in classifiers),
    ]
    return next(_expressions(names), None)


def _expressions(names: list[str]) -> Iterator[str]:
    """Those that are an SPDX expression, or a name that means one."""
    for name in names:
        if name in NAMES:
            yield NAMES[name]
        elif all(part in IDENTIFIERS for part in re.split(r" (?:AND|OR) ", name)):
            yield name


def main() -> None:
    """Write it; exit 1 where a component has no licence."""
    source, target = map(Path, sys.argv[1:])
    document = json.loads(source.read_text())
    without = complete(document)
    target.write_text(json.dumps(document, indent=1) + "\n")
    if without:
        text = ", ".join(without)
        sys.exit(f"no SPDX licence: {text}. Read theirs, and add it to infra/release/sbom.py")


if __name__ == "__main__":
    main()
