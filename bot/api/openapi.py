"""The OpenAPI 3.1 document of the API, made from its operations and models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from faultline.bot.api.models import Refusal
from faultline.bot.api.operations import Operation

VERSION = "1"
REFERENCE = "#/components/schemas/{model}"
REASONS = {
    400: "The body is not JSON, or ended early",
    401: "No valid token or login",
    403: "The role is not enough, or another site's page sent this",
    404: "There is nothing of this id that you may see",
    405: "Not this method",
    408: "The body took too long",
    409: "It is not answered yet",
    413: "The body is too long",
    415: "The body is not application/json",
    422: "A field or parameter is wrong; the line names it",
    429: "A limit is reached; retry-after says for how long",
    503: "The store does not answer; send the same request again",
}
ALWAYS = (401, 403, 422, 429, 503)
WITH_BODY = (400, 408, 413, 415)
EVENTS = (
    "Server-Sent Events. `progress`: seq, at, clock, stage, text, with the seq as id. `state`: "
    "status, stage. `done`: status; then the stream ends. Go on after a lost connection with "
    "Last-Event-ID."
)
EVENT = {
    "type": "object",
    "description": "One event; its data is JSON.",
    "properties": {
        "event": {"enum": ["progress", "state", "done"]},
        "id": {"type": "string"},
        "data": {"type": "string"},
    },
}
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key with the same request is the same investigation; with another "
    "request it is refused (422).",
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
}


def document(operations: Sequence[Operation], server_url: str) -> dict[str, Any]:
    """The whole document as JSON values."""
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [(Refusal, "serialization")]
    for operation in operations:
        if operation.takes is not None:
            models.append((operation.takes, "validation"))
        if operation.gives is not None:
            models.append((operation.gives, "serialization"))
    # Several operations may share a model.
    names, schemas = models_json_schema(list(dict.fromkeys(models)), ref_template=REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        entry = _operation(operation, names, schemas["$defs"])
        paths.setdefault(operation.path, {})[operation.method.lower()] = entry
    return {
        "openapi": "3.1.0",
        "info": {"title": "Faultline", "version": VERSION, "summary": "Investigations by API."},
        "servers": [{"url": server_url}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(operation: Operation, names: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {"operationId": operation.name, "summary": operation.summary}
    if parameters := [*_path_parameters(operation), *_query_parameters(operation, schemas)]:
        entry["parameters"] = parameters
    if operation.posts:
        entry["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": names[operation.takes, "validation"]}},
        }
    if operation.gives is None:
        content: dict[str, Any] = {"text/event-stream": {"schema": EVENT}}
        events = EVENTS
    else:
        content = {"application/json": {"schema": names[operation.gives, "serialization"]}}
        events = (operation.gives.__doc__ or "").partition("\n\n")[0]
    responses: dict[str, Any] = {str(operation.status): {"description": events, "content": content}}
    if operation.by_key:
        description = "The same request came before: its investigation"
        responses["200"] = {"description": description, "content": content}
    line = {"application/json": {"schema": names[Refusal, "serialization"]}}
    for status in sorted({*ALWAYS, *(WITH_BODY if operation.posts else ()), *operation.refuses}):
        responses[str(status)] = {"description": REASONS[status], "content": line}
    entry["responses"] = responses
    return entry


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", operation.path)
    ]
    return [*parameters, KEY] if operation.by_key else parameters


def _query_parameters(operation: Operation, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    if operation.posts or operation.takes is None:
        return []
    parameters = []
    # A query is described by its fields; the model itself is named nowhere.
    for name, field in schemas.pop(operation.takes.__name__)["properties"].items():
        described = {key: value for key, value in field.items() if key != "description"}
        # A parameter is left out, never null.
        some = [s for s in described.get("anyOf", ()) if s.get("type") != "null"]
        schema = some[0] if some else described
        parameter = {"name": name, "in": "query", "schema": schema}
        if "description" in field:
            parameter["description"] = field["description"]
        parameters.append(parameter)
    return parameters
