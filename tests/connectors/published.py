"""Answers of stand-ins held against what a vendor publishes of them."""

from __future__ import annotations

import gzip
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema
import msgspec


@lru_cache(maxsize=16)
def specification(path: Path) -> dict[str, Any]:
    """A published OpenAPI or Swagger document, JSON or YAML, packed or not."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    if ".json" in path.suffixes:
        loaded: dict[str, Any] = json.loads(content)
        return loaded
    return msgspec.yaml.decode(content, type=dict[str, Any])


def fits_published(document: dict[str, Any], path: str, answer: Any) -> None:
    """Fail unless the answer to GET `path` is what the document says of it."""
    responses = document["paths"][path]["get"]["responses"]
    response = _resolved(document, responses.get("200") or responses.get(200))
    content = response.get("content", {})
    schema = response.get("schema") or next(iter(content.values()))["schema"]
    fits_schema(document, schema, answer)


def fits_schema(document: dict[str, Any], schema: dict[str, Any], answer: Any) -> None:
    """Fail unless the answer fits a schema of the document."""
    held = {key: document[key] for key in ("components", "definitions") if key in document}
    wanted = _as_json_schema({**schema, **held})
    jsonschema.Draft202012Validator(wanted).validate(answer)


def parameters_of(document: dict[str, Any], path: str) -> set[str]:
    """The names of the parameters that GET `path` takes in its query."""
    found = document["paths"][path]
    given = [*found.get("parameters", []), *found["get"].get("parameters", [])]
    resolved = [_resolved(document, one) for one in given]
    return {one["name"] for one in resolved if one["in"] == "query"}


def _resolved(document: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in value:
        found: Any = document
        for part in value["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        value = found
    return value


def _as_json_schema(value: Any) -> Any:
    """OpenAPI 3.0 says `nullable` where JSON Schema has another type."""
    if isinstance(value, list):
        return [_as_json_schema(one) for one in value]
    if not isinstance(value, dict):
        return value
    made = {key: _as_json_schema(one) for key, one in value.items()}
    if made.pop("nullable", False) is True and isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
        if "enum" in made:
            made["enum"] = [*made["enum"], None]
    return made
