"""Training traces in Google Cloud Storage, with the client library against documented answers of
the XML API; in Azure Blob Storage: tests/contracts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from faultline.analysis.errors import SettingsError
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.traces import CONNECTOR, object_places
from faultline.connectors.vendors.traces.connector import TrainingTracesConnector
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer, Reply

LISTED = """<?xml version='1.0' encoding='UTF-8'?>
<ListBucketResult xmlns='http://doc.s3.amazonaws.com/2006-03-01'><Name>traces</Name>
<Prefix>runs/llm-1/</Prefix><IsTruncated>false</IsTruncated>
<Contents><Key>runs/llm-1/rank0_trace.json</Key><Generation>1</Generation>
<LastModified>{at}</LastModified><ETag>"e"</ETag><Size>7</Size></Contents></ListBucketResult>"""
HEADERS = {"ETag": '"e"', "Last-Modified": "Mon, 02 Mar 2026 11:50:00 GMT"}


@pytest.fixture
def google(server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalServer:
    """A bucket behind the address that a service account's file names."""
    account = {"gcs_base_url": server.url, "disable_oauth": True, "client_email": ""}
    file = tmp_path / "account.json"
    file.write_text(json.dumps(account | {"private_key": "", "private_key_id": ""}))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(file))
    monkeypatch.setitem(object_places.CLIENT, "allow_http", True)
    at = f"{ALERT_AT:%Y-%m-%dT11:50:00.000Z}"
    server.on("/traces", Reply(LISTED.format(at=at).encode()))
    content = Reply(b"content", headers=HEADERS)
    server.on("/traces/runs%2Fllm%2D1%2Frank0%5Ftrace%2Ejson", content)
    return server


def collected(location: str, folder: Path) -> Collected:
    """What is taken of the job llm-1."""
    files = folder / "files"
    files.mkdir()
    connector = TrainingTracesConnector([location])
    return asyncio.run(collect_from(connector, request_for(files, job="llm-1")))


def test_traces_in_a_bucket_are_listed_and_read(google: LocalServer, tmp_path: Path) -> None:
    found = collected("gs://traces/runs/{job}", tmp_path)
    assert found.missing == ()
    (item,) = found.items
    assert item.link == "gs://traces/runs/llm-1/rank0_trace.json"
    assert (tmp_path / "files/rank0_trace.json").read_bytes() == b"content"
    assert google.methods == {"GET"}


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (403, "traces list: not permitted with these credentials (HTTP 403)"),
        (404, "traces list: not found (HTTP 404)"),
    ],
)
def test_a_bucket_that_is_refused_is_one_gap(
    google: LocalServer, tmp_path: Path, status: int, reason: str
) -> None:
    google.on("/traces", Reply(b"<Error><Code>No</Code></Error>", status=status))
    (gap,) = collected("gs://traces/runs/{job}", tmp_path).missing
    assert (gap.query, gap.reason) == ("gs://traces/runs/llm-1/", reason)


@pytest.mark.parametrize(
    "location",
    [
        "gs://",
        "gs://Traces/{job}",
        "https://example.com/traces",
        "https://me.blob.core.windows.net.example.com/traces",
        "https://user@account.blob.core.windows.net/traces",
        "abfss://account.dfs.core.windows.net/traces",
    ],
)
def test_another_address_stops_the_start_and_says_which_are_known(location: str) -> None:
    with pytest.raises(SettingsError, match=r"must be a directory, s3://bucket/prefix, gs://"):
        CONNECTOR.configured(Settings.model_validate({"traces": {"locations": [location]}}))


def test_places_of_one_job_may_lie_there_too() -> None:
    traces = ["gs://traces/{job}", "https://account.blob.core.windows.net/traces/{job}"]
    jobs = {"llm-1": {"traces": traces}}
    assert CONNECTOR.configured(Settings.model_validate({"jobs": jobs})) is not None


def test_without_credentials_the_gap_says_where_they_are_looked_for(
    google: LocalServer, tmp_path: Path
) -> None:
    said = b"Error performing token request"
    google.on("/traces", Reply(said, status=400))
    (gap,) = collected("gs://traces/runs/{job}", tmp_path).missing
    assert "no credentials: run it as a service account or managed identity" in gap.reason
