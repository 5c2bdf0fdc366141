"""JSON schemas as strict servers take them: every property required, no others, none of the
keywords they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

REFUSED = frozenset({"title", "default", "maxLength", "minLength"})
"""https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas; our own
checks hold anyway."""

NAMED = frozenset({"properties", "$defs"})
"""Keywords whose values are tables of schemas by name."""


@cache
def strict_schema(model: type[BaseModel]) -> Mapping[str, Any]:
    """The schema of a model. The same object each time: it is asked for in every turn."""
    # Late: the tools are used without a model too, and this takes most of a second to load.
    import openai

    schema = openai.pydantic_function_tool(model)["function"].get("parameters", {})
    accepted: dict[str, Any] = _accepted(schema)
    # It is the model's docstring, which is written for us.
    accepted.pop("description", None)
    return accepted


def _accepted(schema: Any) -> Any:
    """A schema, or a part of one, without the refused keywords."""
    if isinstance(schema, list):
        return [_accepted(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    accepted_schema = {}
    for keyword, value in schema.items():
        if keyword in NAMED:
            # These keys are names of ours: a property may be called "title".
            accepted_schema[keyword] = {name: _accepted(part) for name, part in value.items()}
        elif keyword not in REFUSED:
            accepted_schema[keyword] = _accepted(value)
    return accepted_schema
