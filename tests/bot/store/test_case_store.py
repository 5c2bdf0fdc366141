"""Case folders on disk and in S3, through the same calls."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from faultline.analysis.errors import FaultlineError
from faultline.bot.processes.server import local_cases
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.databases import open_cases
from tests.s3 import open_client

CASE = "20261121-030000-abcdef"


@pytest.fixture(params=["directory", "s3"])
def cases(request: pytest.FixtureRequest, tmp_path: Path) -> CaseStore:
    """An empty case store of either kind."""
    if request.param == "directory":
        return CaseStore(tmp_path / "cases")
    endpoint: str = request.getfixturevalue("s3")
    bucket = f"cases-{abs(hash(str(tmp_path))) % 10**8}"
    with open_client(endpoint) as client:
        client.create_bucket(Bucket=bucket)
    return CaseStore(f"s3://{bucket}/faultline", endpoint_url=endpoint)


def test_what_is_put_can_be_had_listed_moved_and_deleted(cases: CaseStore, tmp_path: Path) -> None:
    folder = tmp_path / "part"
    (folder / "files").mkdir(parents=True)
    (folder / "part.json").write_text("{}")
    (folder / "files" / "rank0.json").write_text("[]")
    cases.put(CASE, "alert.json", b"one")
    cases.put(CASE, "alert.json", b"two")
    cases.put_folder(CASE, "parts/recorded", folder)
    assert cases.get(CASE, "alert.json") == b"two"
    assert cases.get(CASE, "absent.json") is None
    assert cases.names(CASE) == [
        "alert.json",
        "parts/recorded/files/rank0.json",
        "parts/recorded/part.json",
    ]
    for _ in range(2):
        cases.move(CASE, "parts/recorded/files/rank0.json", "traces/rank0.json")
    assert cases.get(CASE, "traces/rank0.json") == b"[]"
    cases.delete(CASE, "parts")
    assert cases.names(CASE) == ["alert.json", "traces/rank0.json"]
    cases.put("20260101-000000-abcdef", "alert.json", b"older")
    assert cases.ids() == ["20260101-000000-abcdef", CASE]
    cases.delete("20260101-000000-abcdef", "")
    assert cases.ids() == [CASE]


def test_a_case_can_be_read_as_a_local_folder(cases: CaseStore) -> None:
    cases.put(CASE, "alert.json", b"{}")
    cases.put(CASE, "charts/decisive.png", b"png")
    with cases.checkout(CASE) as folder:
        assert (folder / "alert.json").read_bytes() == b"{}"
        assert (folder / "charts" / "decisive.png").read_bytes() == b"png"


def test_cases_with_a_common_beginning_of_their_names_stay_apart(cases: CaseStore) -> None:
    cases.put(CASE, "alert.json", b"{}")
    cases.put(f"{CASE}-2", "alert.json", b"{}")
    cases.delete(CASE, "")
    assert cases.names(CASE) == []
    assert cases.names(f"{CASE}-2") == ["alert.json"]


def test_moving_what_is_nowhere_is_an_error(cases: CaseStore) -> None:
    with pytest.raises(FileNotFoundError):
        cases.move(CASE, "a", "b")


def test_a_store_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    away = CaseStore("s3://cases/faultline", endpoint_url="http://127.0.0.1:9")
    with pytest.raises(FaultlineError) as error:
        away.check()
    assert "\n" not in str(error.value)


def test_pages_see_what_was_added_to_a_case_after_the_first_look(cases: CaseStore) -> None:
    async def look_twice() -> tuple[Path | None, Path | None]:
        case_path = local_cases(cases)
        cases.put(CASE, "report.json", b"{}")
        first = await case_path(CASE)
        cases.put(CASE, "charts/decisive.png", b"chart")
        cases.put(CASE, "report.json", b'{"headline": 1}')
        return first, await case_path(CASE)

    first, second = asyncio.run(look_twice())
    assert first == second
    assert second is not None
    assert (second / "charts/decisive.png").read_bytes() == b"chart"
    assert (second / "report.json").read_bytes() == b'{"headline": 1}'


def test_sizes_are_listed_by_case_within_a_bound(cases: CaseStore) -> None:
    for day in (21, 22, 23):
        for name in ("alert.json", "traces/rank0.json"):
            cases.put(f"202611{day}-030000-abcdef", name, b"x" * day)
    found = cases.sizes()
    assert not found.cut
    assert found.by_case == {f"202611{day}-030000-abcdef": 2 * day for day in (21, 22, 23)}
    assert cases.sizes(after="20261123-000000").by_case == {"20261123-030000-abcdef": 46}
    bounded = cases.sizes(most=3)
    assert bounded.cut
    assert len(bounded.by_case) <= 3


def test_sizes_of_a_store_that_is_away_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    away = CaseStore("s3://cases/faultline", endpoint_url="http://127.0.0.1:9")
    with pytest.raises(FaultlineError, match="case store s3://cases/faultline"):
        away.sizes()


def test_the_settings_name_the_endpoint_of_cases_in_s3(s3: str, tmp_path: Path) -> None:
    with open_client(s3) as client:
        client.create_bucket(Bucket="named-by-settings")
    settings = Settings.model_validate(
        {
            "store": {"cases": "s3://named-by-settings/faultline", "directory": tmp_path},
            "traces": {"endpoint_url": s3},
        }
    )
    cases = open_cases(settings)
    cases.put(CASE, "alert.json", b"{}")
    assert cases.ids() == [CASE]
    elsewhere = Settings.model_validate({"store": {"directory": tmp_path}})
    open_cases(elsewhere).put(CASE, "alert.json", b"{}")
    assert (tmp_path / "cases" / CASE / "alert.json").read_bytes() == b"{}"
