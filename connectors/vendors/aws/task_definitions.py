"""What differs between two ECS task definitions: images, sizes, and the names, never the values, of
variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from faultline.connectors.vendors.aws.calls import objects
from faultline.connectors.vendors.aws.evidence import words

SIZES = ("cpu", "memory", "memoryReservation")
MOST_LINES = 60
VARIABLE = "variable "


def short_name(arn: str) -> str:
    """`family:revision` of a task definition's ARN."""
    return arn.rpartition("/")[2]


def difference(old: Any, new: Any) -> str | None:
    """One line for each difference, `-` before and `+` after; None where nothing that is compared
    differs."""
    before, after = _facts(old), _facts(new)
    lines = []
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) == after.get(name):
            continue
        if name in before:
            lines.append(f"- {name}{_shown(name, before[name])}")
        if name in after:
            lines.append(f"+ {name}{_shown(name, after[name])}")
    return "\n".join(lines[:MOST_LINES]) or None


def _facts(definition: Any) -> dict[str, str]:
    if not isinstance(definition, Mapping):
        return {}
    facts = {key: words(definition[key], 60) for key in SIZES if definition.get(key)}
    for container in objects(definition.get("containerDefinitions")):
        name = words(container.get("name"), 80)
        for key in ("image", *SIZES):
            if container.get(key):
                facts[f"{name} {key}"] = words(container[key], 300)
        variables = objects(container.get("environment")) + objects(container.get("secrets"))
        for variable in variables:
            value = words(variable.get("value") or variable.get("valueFrom"), 10_000)
            facts[f"{VARIABLE}{words(variable.get('name'), 100)} of {name}"] = value
    return facts


def _shown(name: str, value: str) -> str:
    return " (value not kept)" if name.startswith(VARIABLE) else f": {value}"
