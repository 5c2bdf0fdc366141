"""The bill of materials of what a release installs: `python -m infra.release.sbom FROM TO`.

Takes uv's CycloneDX 1.5 document, which has the hash of every file of the lock, and writes it as
1.6 with each component's licence, as its installed metadata names it.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

IN_ITS_FILES = {"promql-parser": "MIT", "resvg-py": "MIT"}
"""Packages whose metadata names no licence. The licence files in them do."""
SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"


def complete(document: dict[str, Any]) -> list[str]:
    """Make it 1.6 and add licences in place; returns the components without one."""
    document |= {"$schema": SCHEMA, "specVersion": "1.6"}
    # 1.5's form of a tool, which 1.6 deprecates.
    tools = document["metadata"]["tools"]
    document["metadata"]["tools"] = {
        "components": [
            {"type": "application", "name": one["name"], "version": one["version"]} for one in tools
        ]
    }
    document["metadata"]["component"]["licenses"] = [{"expression": "Apache-2.0"}]
    without = []
    for component in document["components"]:
        licences = licences_of(component["name"], component["version"])
        if licences:
            component["licenses"] = licences
        else:
            without.append(component["name"])
    return without


def licences_of(name: str, version: str) -> list[dict[str, Any]]:
    """CycloneDX's licences of an installed package; empty where this version is not installed or
    names none."""
    try:
        told = metadata(name)
    except PackageNotFoundError:
        return []
    if told["Version"] != version:
        return []
    if expression := told.get("License-Expression"):
        return [{"expression": expression}]
    classified = [c for c in told.get_all("Classifier") or [] if c.startswith("License ::")]
    names = [c.rpartition(" :: ")[2] for c in classified if not c.endswith(":: OSI Approved")]
    if not names and (said := (told.get("License") or "").strip()):
        # Some put the licence's whole text there; its first line is its name.
        names = [said.splitlines()[0].strip()]
    if not names and name in IN_ITS_FILES:
        return [{"expression": IN_ITS_FILES[name]}]
    return [{"license": {"name": one}} for one in names]


def main() -> None:
    """Write it and say which components have no licence."""
    source, target = map(Path, sys.argv[1:])
    document = json.loads(source.read_text())
    without = complete(document)
    target.write_text(json.dumps(document, indent=1) + "\n")
    if without:
        said = ", ".join(without)
        sys.stderr.write(f"without a licence in installed metadata: {said}\n")


if __name__ == "__main__":
    main()
