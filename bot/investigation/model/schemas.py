"""JSON schemas as strict servers take them: every property required, no others, none of the
keywords they refuse."""

from __future__ import annotations

from typing import Any

import openai
from pydantic import BaseModel

REFUSED = frozenset({"title", "default", "maxLength", "minLength"})
"""https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas; our own
checks hold anyway."""


def strict_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model."""
    schema = openai.pydantic_function_tool(model)["function"].get("parameters", {})
    return {k: v for k, v in _without(schema).items() if k != "description"}


def _without(schema: Any, *, names: bool = False) -> Any:
    """The schema without refused keywords; `names` are properties, which may be called anything."""
    if isinstance(schema, list):
        return [_without(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {k: v for k, v in schema.items() if names or k not in REFUSED}
    return {
        k: _without(v, names=not names and k in ("properties", "$defs")) for k, v in kept.items()
    }
