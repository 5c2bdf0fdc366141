"""The query API v1 and Entra's token endpoint as Microsoft documents them, between our connector
and our stand-in.

The part that is used, from learn.microsoft.com: "Query - Get" of the Log Analytics and Application
Insights REST APIs, "Azure Monitor Log Analytics API response format", and "OAuth 2.0 client
credentials flow".
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import collect_from
from faultline.connectors.vendors.azure import CONNECTOR
from faultline.connectors.vendors.azure.connector import AzureMonitorConnector
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins import azure_monitor as stand_in
from tests.contracts.emulators import prism_before

SPEC = """
openapi: 3.0.0
info: {title: Azure Monitor queries, version: v1}
paths:
  /v1/workspaces/{workspaceId}/query:
    get:
      parameters:
        - {name: workspaceId, in: path, required: true, schema: {type: string}}
        - name: query
          in: query
          required: true
          schema: {type: string, minLength: 1, maxLength: 6000}
        - name: timespan
          in: query
          schema: {type: string, pattern: '^(P[0-9A-Z]+|[0-9TZ:.-]+/[0-9TZ:.-]+)$'}
        - name: Prefer
          in: header
          required: true
          schema: {type: string, pattern: '^wait=[0-9]+$'}
      security: [{token: []}]
      responses: &responses
        "200":
          description: ok
          content: {application/json: {schema: {$ref: '#/components/schemas/results'}}}
        "400":
          description: no
          content: {application/json: {schema: {$ref: '#/components/schemas/refusal'}}}
  /v1/apps/{appId}/query:
    get:
      parameters:
        - {name: appId, in: path, required: true, schema: {type: string}}
        - name: query
          in: query
          required: true
          schema: {type: string, minLength: 1, maxLength: 6000}
        - {name: timespan, in: query, schema: {type: string}}
      responses: *responses
  /{tenant}/oauth2/v2.0/token:
    post:
      parameters: [{name: tenant, in: path, required: true, schema: {type: string}}]
      requestBody:
        required: true
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              required: [grant_type, client_id, client_secret, scope]
              properties:
                grant_type: {type: string, enum: [client_credentials]}
                client_id: {type: string}
                client_secret: {type: string}
                scope: {type: string, pattern: '/\\.default$'}
      responses:
        "200":
          description: ok
          content:
            application/json:
              schema:
                type: object
                required: [token_type, expires_in, access_token]
                properties:
                  token_type: {type: string}
                  expires_in: {type: integer}
                  access_token: {type: string}
components:
  securitySchemes: {token: {type: http, scheme: bearer}}
  schemas:
    error:
      type: object
      required: [code, message]
      properties: {code: {type: string}, message: {type: string}, innererror: {type: object}}
    refusal:
      type: object
      required: [error]
      properties: {error: {$ref: '#/components/schemas/error'}}
    results:
      type: object
      required: [tables]
      properties:
        error: {$ref: '#/components/schemas/error'}
        tables:
          type: array
          items:
            type: object
            required: [name, columns, rows]
            properties:
              name: {type: string}
              columns:
                type: array
                items:
                  type: object
                  required: [name, type]
                  properties: {name: {type: string}, type: {type: string}}
              rows: {type: array, items: {type: array, items: {}}}
"""


@pytest.fixture(scope="module")
def prism(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Prism in front of the stand-in."""
    folder = tmp_path_factory.mktemp("prism")
    (folder / "azure.yaml").write_text(SPEC)
    with LocalServer() as server:
        stand_in.serve(server)
        with prism_before(folder / "azure.yaml", server.url, folder) as url:
            yield url


def connector(url: str, **own: str) -> AzureMonitorConnector:
    """The connector that speaks to prism."""
    tables = stand_in.settings(url)
    tables["azure_monitor"] |= own
    built = CONNECTOR.configured(Settings.model_validate(tables))
    assert built is not None
    return built


@pytest.mark.parametrize("application", [False, True])
def test_every_call_and_its_answer_fit_what_is_documented(
    prism: str, tmp_path: Path, application: bool
) -> None:
    own = {"application_id": "app-1", "applications_url": prism} if application else {}
    alert = Alert(source="pagerduty", title="t", started_at=ALERT_AT, service="checkout")
    request = request_for(tmp_path, services=("checkout", "payments"), alert=alert)
    found = asyncio.run(collect_from(connector(prism, **own), request))
    assert found.missing == ()
    assert {name for name, table in found.tables.items() if table.height} == {
        "metrics",
        "spans",
        "logs",
        "changes",
    }


def test_the_checks_calls_fit_too(prism: str) -> None:
    assert "AppRequests, AppTraces, AzureActivity" in asyncio.run(connector(prism).check()).line


def test_the_referee_refuses_what_is_not_documented(prism: str) -> None:
    given = {"authorization": "Bearer x", "prefer": "wait=5"}
    assert httpx.get(f"{prism}{stand_in.QUERY_PATH}", headers=given).status_code == 422
    assert (
        httpx.get(f"{prism}{stand_in.QUERY_PATH}?query=x&timespan=now", headers=given).status_code
        == 422
    )
    assert (
        httpx.post(f"{prism}{stand_in.TOKEN_PATH}", data={"grant_type": "password"}).status_code
        == 422
    )
