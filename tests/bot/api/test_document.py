"""The OpenAPI document holds: schemathesis sends what it allows and what it forbids, and each
answer is one that it describes."""

from __future__ import annotations

from typing import Any

import httpx
from hypothesis import HealthCheck, Phase, given, settings

from faultline.bot.store.quotas import TokenLimits
from tests.bot.api.conftest import Program
from tests.bot.api.test_api import ALL, answered
from tests.bot.web.serving import PATIENT_S, Site

EXAMPLES = 12
"""Of each operation: some seconds in all."""
FREE = TokenLimits(investigations_per_hour=1_000, calls_per_minute=10_000)


def test_the_document_names_every_operation_and_the_shapes_of_its_answers(site: Site) -> None:
    document = httpx.get(f"{site.url}/api/openapi.json", timeout=PATIENT_S).json()
    assert document["openapi"] == "3.1.0"
    names = {op["operationId"] for path in document["paths"].values() for op in path.values()}
    assert len(names) == 10
    start = document["paths"][ALL]["post"]
    assert {p["name"] for p in start["parameters"]} == {"Idempotency-Key"}
    assert {"202", "200", "401", "403", "415", "422", "429", "503"} <= set(start["responses"])
    listed = {p["name"] for p in document["paths"][ALL]["get"]["parameters"]}
    assert listed == {"status", "service", "q", "after", "limit"}


def test_answers_are_as_the_document_says_whatever_is_sent(site: Site, program: Program) -> None:
    client, known = program(limits=FREE), answered(site)
    check = client.post("/api/deploy-checks", json={"service": "checkout"}).json()["id"]
    document = httpx.get(f"{site.url}/api/openapi.json", timeout=PATIENT_S).json()
    # With ids that exist, too: those of chance reach nothing.
    for path in document["paths"].values():
        for operation in path.values():
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    there = {"id": known, "check_id": check}.get(parameter["name"], "F1")
                    parameter["schema"] = {"enum": [there, "none"]}
    # It takes as long to load as the rest of the tests of this room.
    import schemathesis
    from schemathesis.core.result import Ok

    schema = schemathesis.openapi.from_dict(document)
    headers = {"authorization": client.headers["authorization"]}
    for result in schema.get_all_operations():
        assert isinstance(result, Ok)
        _send(result.ok(), site.url, headers)


def _send(operation: Any, url: str, headers: dict[str, str]) -> None:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    # Not ignored_auth: it sends wrong tokens until the throttle answers. test_roles closes each
    # route.
    held_to = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_schema_conformance,
        checks.negative_data_rejection,
        checks.unsupported_method,
    ]
    strategy = operation.as_strategy()

    def one(case: Any) -> None:
        response = case.call(base_url=url, headers=headers, timeout=PATIENT_S)
        case.validate_response(response, checks=held_to, headers=headers)

    limited = settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    limited(given(case=strategy)(one))()
