"""What Terraform allows the bot in AWS is what the program calls: no less, and no more."""

from __future__ import annotations

import ast
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import boto3
import pytest
from botocore import xform_name
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from faultline.bot.store.case_store import CaseStore
from faultline.connectors.vendors.aws.operations import ACTIONS, CASE_STORE, storage_actions
from faultline.connectors.vendors.aws.policy_files import policy_files
from infra.checks import settings_secrets

ROOT = Path(__file__).parents[2]
CALLERS = [*sorted((ROOT / "connectors").rglob("*.py")), *sorted((ROOT / "bot").rglob("*.py"))]
LIST = ROOT / "connectors/vendors/aws/operations.py"
ONLY_WHEN_IT_FAILS = {"AbortMultipartUpload", "DeleteObject", "HeadObject"}
"""Asked of S3 when an upload breaks off, when a bucket cannot delete many at once, when a file was
moved before."""


def names_in(file: Path) -> set[str]:
    """Texts and names of attributes in a file: how an operation is named where it is called."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


def test_files_are_written_from_the_list() -> None:
    for file, content in policy_files().items():
        assert file.read_text() == content, (
            f"{file.name}: python -m faultline.connectors.vendors.aws.policy_files"
        )
    assert settings_secrets.FILE.read_text() == settings_secrets.content(), (
        "python -m infra.checks.settings_secrets"
    )


def test_every_listed_operation_is_called_somewhere() -> None:
    named = set().union(*(names_in(file) for file in CALLERS if file != LIST))
    for service, operation in ACTIONS:
        assert {operation, xform_name(operation)} & named, (
            f"{service} {operation} is allowed and never called"
        )


def test_the_policy_allows_the_listed_actions_and_no_others() -> None:
    (policy,) = [
        content for file, content in policy_files().items() if file.name == "connector-policy.json"
    ]
    allowed: set[str] = set()
    for statement in json.loads(policy)["Statement"]:
        actions = statement["Action"]
        allowed |= {actions} if isinstance(actions, str) else set(actions)
    assert allowed == {
        action for (service, _), action in ACTIONS.items() if service not in ("s3", "sts")
    }
    assert not any("*" in action for action in allowed)


def operation_of(environ: dict[str, Any]) -> str:
    """The S3 operation that a request is (Amazon S3 API reference, the request syntax of each)."""
    method, asked = (
        environ["REQUEST_METHOD"],
        set(parse_qs(environ["QUERY_STRING"], keep_blank_values=True)),
    )
    if method == "POST":
        return (
            "DeleteObjects"
            if "delete" in asked
            else "CreateMultipartUpload"
            if "uploads" in asked
            else "CompleteMultipartUpload"
        )
    if method == "PUT":
        copied = "HTTP_X_AMZ_COPY_SOURCE" in environ
        return "UploadPart" if "partNumber" in asked else "CopyObject" if copied else "PutObject"
    if method == "DELETE":
        return "AbortMultipartUpload" if "uploadId" in asked else "DeleteObject"
    return (
        "ListObjectsV2"
        if "list-type" in asked
        else "HeadObject"
        if method == "HEAD"
        else "GetObject"
    )


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[str]]]:
    """An S3 server on loopback, and the operations that it was asked."""
    asked: list[str] = []
    moto = DomainDispatcherApplication(create_backend_app)

    def noting(environ: dict[str, Any], start: Any) -> Any:
        asked.append(operation_of(environ))
        return moto(environ, start)

    server = make_server("127.0.0.1", 0, noting, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    for key, value in (
        ("ACCESS_KEY_ID", "test"),
        ("SECRET_ACCESS_KEY", "test"),
        ("DEFAULT_REGION", "us-east-1"),
    ):
        monkeypatch.setenv(f"AWS_{key}", value)
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    thread.join()


def test_the_case_store_asks_what_its_policy_allows(
    s3: tuple[str, list[str]], tmp_path: Path
) -> None:
    url, asked = s3
    boto3.client("s3", endpoint_url=url).create_bucket(Bucket="cases")
    asked.clear()
    store = CaseStore("s3://cases/faultline", endpoint_url=url)
    store.check()
    large = tmp_path / "trace.json"
    large.write_bytes(b" " * 12_000_000)
    store.put("case", "parts/a.json", b"{}")
    store.put("case", "trace.json", large)
    store.get("case", "parts/a.json")
    store.move("case", "parts/a.json", "a.json")
    store.move("case", "parts/a.json", "a.json")
    store.download("case", tmp_path / "copy")
    store.refresh("case", tmp_path / "fresh", {})
    store.delete("case", "")
    assert set(asked) <= set(CASE_STORE)
    assert set(CASE_STORE) - set(asked) <= ONLY_WHEN_IT_FAILS


def test_traces_are_read_and_cases_alone_are_written() -> None:
    split = json.loads(storage_actions())
    assert split["traces"] == {"objects": ["s3:GetObject"], "bucket": ["s3:ListBucket"]}
    assert "s3:PutObject" in split["cases"]["objects"]
    assert not any(
        "*" in action for part in split.values() for actions in part.values() for action in actions
    )
