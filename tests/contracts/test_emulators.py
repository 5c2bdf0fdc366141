"""The referees themselves: prism refuses what a specification does not know, ministack answers
boto3."""

from __future__ import annotations

from pathlib import Path

import boto3
import httpx

from tests.connectors.local_http import LocalServer, Reply
from tests.contracts.emulators import ministack, prism_before

SPEC = """
openapi: 3.0.0
info: {title: t, version: "1"}
paths:
  /things:
    get:
      parameters: [{name: limit, in: query, schema: {type: integer, maximum: 10}}]
      responses:
        "200":
          description: ok
          content:
            application/json:
              schema:
                type: object
                required: [things]
                properties: {things: {type: array, items: {type: string}}}
"""


def test_prism_refuses_requests_and_answers_that_do_not_fit(tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text(SPEC)
    with LocalServer() as server:
        server.on("/things", Reply({"things": ["a"]}), Reply({"things": [1]}))
        with prism_before(spec, server.url, tmp_path) as url:
            assert httpx.get(f"{url}/things?limit=5").json() == {"things": ["a"]}
            assert httpx.get(f"{url}/things?limit=11").status_code == 422
            assert httpx.get(f"{url}/things?limit=5").status_code == 500
            assert httpx.get(f"{url}/others").status_code == 404


def test_ministack_answers_boto3(tmp_path: Path) -> None:
    with ministack(tmp_path) as url:
        given = {
            "aws_access_key_id": "test",
            "aws_secret_access_key": "test",
            "region_name": "us-east-1",
        }
        client = boto3.client("sts", endpoint_url=url, **given)
        assert client.get_caller_identity()["Account"]
