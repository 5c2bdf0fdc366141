"""Training traces in Azure Blob Storage, against Azurite: Microsoft's own emulator."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import obstore
import pytest
from obstore.store import AzureStore

from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.traces import object_places
from faultline.connectors.vendors.traces.connector import TrainingTracesConnector
from tests.connectors.conftest import request_for
from tests.contracts.emulators import azurite

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account and the key of every Azurite (learn.microsoft.com, "Use the Azurite emulator")."""
VERSION = "2021-08-06"


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A storage account with the container `traces` and the traces of two jobs."""
    with azurite(tmp_path_factory.mktemp("azurite")) as url, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
        patch.setenv("AZURITE_BLOB_STORAGE_URL", url)
        patch.setitem(object_places.CLIENT, "allow_http", True)
        make_container(url, "traces")
        store = AzureStore("traces", client_options={"allow_http": True})
        for rank in range(2):
            obstore.put(store, f"runs/llm-1/rank{rank}_trace.json", b'{"traceEvents": []}')
        obstore.put(store, "runs/llm-10/rank0_trace.json", b"another job")
        obstore.put(store, "runs/llm-1/notes.md", b"no trace")
        yield url


def make_container(url: str, name: str) -> None:
    """As "Authorize with Shared Key" has it."""
    now = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = f"x-ms-date:{now}\nx-ms-version:{VERSION}\n"
    signed = f"PUT{chr(10) * 12}{headers}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    authorization = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    sent = {"x-ms-date": now, "x-ms-version": VERSION, "authorization": authorization}
    made = httpx.put(f"{url}/{ACCOUNT}/{name}?restype=container", headers=sent)
    assert made.status_code == 201, made.text


def collected(location: str, folder: Path) -> Collected:
    """What is taken of the job llm-1."""
    connector = TrainingTracesConnector([location])
    return asyncio.run(collect_from(connector, request_for(folder, job="llm-1")))


@pytest.mark.parametrize(
    "location",
    [
        f"https://{ACCOUNT}.blob.core.windows.net/traces/runs/{{job}}",
        f"abfss://traces@{ACCOUNT}.dfs.core.windows.net/runs/{{job}}/",
    ],
)
def test_the_jobs_traces_are_taken_and_no_others(blobs: str, location: str, tmp_path: Path) -> None:
    found = collected(location, tmp_path)
    assert found.missing == ()
    taken = {one.file: (tmp_path / (one.file or "")).read_bytes() for one in found.items}
    assert taken == {f"rank{rank}_trace.json": b'{"traceEvents": []}' for rank in range(2)}
    link = location.replace("{job}", "llm-1").rstrip("/")
    assert {one.link for one in found.items} == {f"{link}/{name}" for name in taken}


def test_a_container_that_is_not_there_is_one_gap(blobs: str, tmp_path: Path) -> None:
    found = collected(f"https://{ACCOUNT}.blob.core.windows.net/absent/{{job}}", tmp_path)
    (gap,) = found.missing
    assert gap.reason == "traces list: not found (HTTP 404)"
