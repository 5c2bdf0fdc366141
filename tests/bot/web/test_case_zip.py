"""The raw case as a download."""

from __future__ import annotations

import io
import os
import shutil
import threading
import zipfile
from pathlib import Path

import httpx

from faultline.bot.web.case_zip import zip_case
from tests.bot.web.sample_case import ALERT
from tests.bot.web.serving import Site


def test_the_archive_holds_every_file_of_the_case_except_its_label(
    sample: str, site: Site, browser: httpx.Client
) -> None:
    (site.cases / sample / "traces").mkdir()
    (site.cases / sample / "traces" / "rank0.json").write_text("{}" * 300_000)
    answer = browser.get(f"/investigations/{sample}/case.zip")
    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == f'attachment; filename="faultline-{sample}.zip"'
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    assert archive.testzip() is None
    names = {n.removeprefix(f"{sample}/") for n in archive.namelist()}
    assert {
        "alert.json",
        "findings.json",
        "report.json",
        "metrics.parquet",
        "traces/rank0.json",
    } <= names
    assert "label.json" not in names
    for name in names:
        assert archive.read(f"{sample}/{name}") == (site.cases / sample / name).read_bytes()


def test_links_out_of_the_case_are_not_followed(tmp_path: Path) -> None:
    case, secret = tmp_path / "case", tmp_path / "secret"
    (case / "traces").mkdir(parents=True)
    secret.mkdir()
    (secret / "key").write_text("secret")
    (case / "alert.json").write_text("{}")
    os.symlink(secret / "key", case / "key")
    os.symlink(secret, case / "traces" / "more")
    archive = zipfile.ZipFile(io.BytesIO(b"".join(zip_case(case, "c"))))
    assert archive.namelist() == ["c/alert.json"]


def test_a_case_that_is_still_written_gives_the_files_that_are_whole(tmp_path: Path) -> None:
    (tmp_path / "alert.json").write_text("{}")
    (tmp_path / "report.json").write_text("{}")
    (tmp_path / "report.json#1").write_text("{")
    (tmp_path / "zz.json").write_text("{}")
    pieces = zip_case(tmp_path, "c")
    first = next(pieces)
    (tmp_path / "zz.json").unlink()
    archive = zipfile.ZipFile(io.BytesIO(first + b"".join(pieces)))
    assert archive.namelist() == ["c/alert.json", "c/report.json"]


def test_folders_that_go_while_they_are_listed_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "alert.json").write_text("{}")
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            (tmp_path / "parts" / "one" / "two").mkdir(parents=True)
            shutil.rmtree(tmp_path / "parts", ignore_errors=True)

    worker = threading.Thread(target=work)
    worker.start()
    try:
        archives = [b"".join(zip_case(tmp_path, "c")) for _ in range(500)]
    finally:
        over.set()
        worker.join()
    assert {tuple(zipfile.ZipFile(io.BytesIO(a)).namelist()) for a in archives} == {
        ("c/alert.json",)
    }


def test_the_archive_is_sent_while_it_is_written(tmp_path: Path) -> None:
    for n in range(4):
        (tmp_path / f"{n}.parquet").write_bytes(os.urandom(1_000_000))
    pieces = list(zip_case(tmp_path, "c"))
    assert len(pieces) > 12
    assert max(len(p) for p in pieces) < 600_000


def test_an_investigation_without_a_case_has_nothing_to_download(
    site: Site, browser: httpx.Client
) -> None:
    investigation_id = site.investigate(ALERT)
    answer = browser.get(f"/investigations/{investigation_id}/case.zip")
    assert (answer.status_code, "There is no case folder to download yet." in answer.text) == (
        404,
        True,
    )
