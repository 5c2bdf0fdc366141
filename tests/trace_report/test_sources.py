"""Files, folders, patterns, archives and S3 prefixes become the same list of files; nothing gets
out of the scratch."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from faultline.trace_report import archives
from faultline.trace_report.sources import opened
from tests.lines_run import lines_run
from tests.s3 import open_client

CONTENT = {"a/rank0.json": b"[0]", "a/rank1.json.gz": b"\x1f\x8b", "notes.txt": b"seen"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in CONTENT.items():
        path = tmp_path / "job" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return tmp_path / "job"


def contents(*paths: object) -> tuple[dict[str, bytes], list[tuple[str, str]]]:
    with opened([str(p) for p in paths]) as sources:
        return {f.name: f.path.read_bytes() for f in sources.files}, list(sources.problems)


def contents_by_place(path: Path) -> tuple[set[Path], list[tuple[str, str]]]:
    """Where the copies lie; copies of one name lie apart."""
    with opened([str(path)]) as sources:
        return {f.path for f in sources.files}, list(sources.problems)


def test_a_folder_gives_all_files_below_it_but_hidden_ones(folder: Path) -> None:
    (folder / ".cache").mkdir()
    (folder / ".cache" / "x.json").write_bytes(b"")
    (folder / ".hidden.json").write_bytes(b"")
    assert contents(folder) == (CONTENT, [])


def test_a_file_given_twice_counts_once(folder: Path) -> None:
    found, _ = contents(folder / "a/rank0.json", folder)
    assert sorted(found) == ["a/rank1.json.gz", "notes.txt", "rank0.json"]


def test_a_pattern_gives_the_files_that_match(folder: Path) -> None:
    found, problems = contents(f"{folder}/**/rank*")
    assert (sorted(found), problems) == (["rank0.json", "rank1.json.gz"], [])


def test_what_is_not_there_is_one_problem_and_the_others_go_on(folder: Path) -> None:
    found, problems = contents(folder / "absent.json", folder / "notes.txt", f"{folder}/b/*.json")
    assert sorted(found) == ["notes.txt"]
    assert [why for _, why in problems] == ["no such file", "no such file"]


def test_an_empty_folder_is_a_problem(tmp_path: Path) -> None:
    assert contents(tmp_path)[1] == [(str(tmp_path), "holds no files")]


def write_zip(path: Path, content: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in content.items():
            out.writestr(name, data)
    return path


def write_tar(path: Path, content: dict[str, bytes], mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as out:  # type: ignore[call-overload]
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            out.addfile(info, io.BytesIO(data))
    return path


@pytest.mark.parametrize(
    ("name", "mode"), [("t.zip", ""), ("t.tar", "w"), ("t.tar.gz", "w:gz"), ("t.tar.xz", "w:xz")]
)
def test_an_archive_gives_its_members(tmp_path: Path, name: str, mode: str) -> None:
    archive = (
        write_tar(tmp_path / name, CONTENT, mode) if mode else write_zip(tmp_path / name, CONTENT)
    )
    assert contents(archive) == ({f"{name}/{member}": data for member, data in CONTENT.items()}, [])


HOSTILE = {
    "../../escaped.json": b"1",
    "/etc/escaped.json": b"2",
    "a/../../escaped.json": b"3",
    "..\\..\\escaped.json": b"4",
    "a\x1b[31m/b\nc.json": b"5",
}


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_names_of_members_cannot_leave_the_scratch_folder(tmp_path: Path, kind: str) -> None:
    archive = (
        write_zip(tmp_path / "h.zip", HOSTILE)
        if kind == "zip"
        else write_tar(tmp_path / "h.tar", HOSTILE, "w")
    )
    with opened([str(archive)]) as sources:
        assert len(sources.files) == len(HOSTILE)
        assert sorted(f.path.read_bytes() for f in sources.files) == sorted(HOSTILE.values())
        assert all("faultline-trace-" in str(f.path.resolve()) for f in sources.files)
        (scratch,) = {
            p
            for f in sources.files
            for p in f.path.parents
            if p.name.startswith("faultline-trace-")
        }
    assert not scratch.exists()
    assert not list(tmp_path.parent.glob("escaped.json"))


def test_links_and_devices_in_an_archive_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w") as out:
        for name, kind in (
            ("link", tarfile.SYMTYPE),
            ("hard", tarfile.LNKTYPE),
            ("pipe", tarfile.FIFOTYPE),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "/etc/passwd"
            out.addfile(info)
        info = tarfile.TarInfo("rank0.json")
        info.size = 2
        out.addfile(info, io.BytesIO(b"[]"))
    assert contents(path) == ({"links.tar/rank0.json": b"[]"}, [])


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_compression_bomb_is_refused_and_the_others_are_read(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "BOMB_BYTES", 1 << 20)
    bomb = {"ok.json": b"[]", "bomb.json": bytes(20 << 20)}
    archive = (
        write_zip(tmp_path / "b.zip", bomb)
        if kind == "zip"
        else write_tar(tmp_path / "b.tar.gz", bomb)
    )
    found, problems = contents(archive)
    assert list(found.values()) == [b"[]"]
    assert "bomb" in problems[0][1]


def test_members_of_one_name_cost_no_more_than_others(tmp_path: Path) -> None:
    def lines_for(members: int) -> int:
        archive = tmp_path / "same.tar"
        with tarfile.open(archive, "w") as out:
            for _ in range(members):
                out.addfile(tarfile.TarInfo("rank0.json"))
        found, problems = contents_by_place(archive)
        assert (len(found), problems) == (members, [])
        return lines_run(lambda: contents_by_place(archive))

    assert lines_for(400) < 4.5 * lines_for(100)


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_all_members_together_are_bounded(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "ARCHIVE_BYTES", 1 << 20)
    many = {f"rank{n}.json": bytes(400_000) for n in range(40)}
    archive = (
        write_zip(tmp_path / "b.zip", many)
        if kind == "zip"
        else write_tar(tmp_path / "b.tar.gz", many)
    )
    monkeypatch.setattr(archives, "ARCHIVE_RATIO", 1)
    found, problems = contents(archive)
    assert (len(found), len(problems)) == (2, 1)


def test_a_tar_with_an_endless_header_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 1 << 33
    with gzip.open(tmp_path / "h.tar.gz", "wb") as out:
        out.write(header.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))
    found, problems = contents(tmp_path / "h.tar.gz")
    assert found == {}
    assert "a header of" in problems[0][1]


def test_members_are_looked_at_up_to_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archives, "MAX_MEMBERS", 5)
    whole = write_zip(tmp_path / "w.zip", {f"rank{n}.json": b"[]" for n in range(9)}).read_bytes()
    (tmp_path / "w.zip").write_bytes(whole.replace(b"PK\x03\x04", b"PK\x03\x05"))
    found, problems = contents(tmp_path / "w.zip")
    assert (found, len(problems)) == ({}, 6)
    assert "more than 5 files" in problems[-1][1]


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz"])
def test_what_is_no_archive_is_one_problem(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"not an archive at all" * 100)
    found, problems = contents(tmp_path / name)
    assert found == {}
    assert len(problems) == 1
    assert "archive" in problems[0][1]


def test_an_archive_that_ends_early_gives_what_comes_before(tmp_path: Path) -> None:
    whole = write_tar(tmp_path / "w.tar", {f"rank{n}.json": b"[]" * 5000 for n in range(4)}, "w")
    cut = tmp_path / "cut.tar"
    cut.write_bytes(whole.read_bytes()[:25_000])
    found, problems = contents(cut)
    assert sorted(found) == ["cut.tar/rank0.json", "cut.tar/rank1.json"]
    assert len(problems) == 1


@pytest.fixture
def bucket(s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A bucket that holds the files below job/."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3)
    name = f"traces-{abs(hash(str(tmp_path))) % 10**8}"
    with open_client(s3) as client:
        client.create_bucket(Bucket=name)
        for key, data in CONTENT.items():
            client.put_object(Bucket=name, Key=f"job/{key}", Body=data)
        client.put_object(Bucket=name, Key="other/rank0.json", Body=b"another job")
    return name


def test_an_s3_prefix_gives_the_objects_below_it(bucket: str) -> None:
    assert contents(f"s3://{bucket}/job") == (CONTENT, [])
    assert contents(f"s3://{bucket}/job/notes.txt") == ({"notes.txt": b"seen"}, [])


def test_an_s3_prefix_without_objects_or_without_bucket_is_one_problem(bucket: str) -> None:
    assert contents(f"s3://{bucket}/absent")[1] == [(f"s3://{bucket}/absent", "holds no files")]
    ((_, why),) = contents("s3://no-such-bucket-here/x")[1]
    assert "cannot be listed" in why
    assert "\n" not in why
