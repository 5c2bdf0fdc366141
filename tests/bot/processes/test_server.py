"""`faultline serve` with something wrong: one line that names what, before anything is served."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultline.analysis.errors import FaultlineError, SettingsError
from faultline.bot.processes.launch import Workers, serve
from faultline.bot.processes.server import listen
from faultline.bot.runtime.nursery import process_nursery
from faultline.bot.settings import Settings, load_settings
from faultline.loopback.bot_process import free_port
from faultline.loopback.preloaded import run_preloaded


@pytest.fixture
def temporary_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of the test's own: `serve` looks there for what other processes left behind."""
    with tempfile.TemporaryDirectory(prefix="serve-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield


def settings_of(directory: Path, **environ: str) -> Settings:
    return load_settings(
        environ={"FAULTLINE_STORE__DIRECTORY": str(directory / "state"), **environ}
    )


def refused(settings: Settings) -> str:
    with pytest.raises(SettingsError) as error:
        serve(settings, None, with_worker=False)
    return str(error.value)


def test_a_port_in_use_ends_the_program_with_one_line_and_exit_code_2(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environ = {
            **os.environ,
            "FAULTLINE_STORE__DIRECTORY": str(tmp_path),
            "FAULTLINE_SERVER__PORT": str(port),
        }
        ended = run_preloaded(["serve", "--no-worker"], env=environ)
    assert ended.returncode == 2
    assert ended.stderr == (
        f"faultline: server.port: cannot listen on 127.0.0.1 port {port} (Address already in use)\n"
    )


def test_settings_that_fail_every_worker_end_the_start(tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "FAULTLINE_STORE__DIRECTORY": str(tmp_path / "state"),
        "FAULTLINE_SERVER__PORT": "0",
        "FAULTLINE_RECORDED__CASE": str(tmp_path / "no such case"),
    }
    ended = run_preloaded(["serve"], env=environ)
    assert ended.returncode != 0
    assert ended.stderr.startswith("faultline: ")
    assert "no such case" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_host_that_is_not_ours_is_named() -> None:
    with pytest.raises(SettingsError, match=r"^server\.host: "):
        listen("192.0.2.1", 0)
    with pytest.raises(SettingsError, match=r"^server\.host: 'nowhere\.invalid' is no address"):
        listen("nowhere.invalid", 0)


def test_every_address_of_the_host_is_listened_on() -> None:
    (bound,) = listen("127.0.0.1", 0)
    with bound:
        assert bound.getsockname()[0] == "127.0.0.1"


@pytest.mark.usefixtures("temporary_folder")
@pytest.mark.parametrize(
    ("variable", "key"),
    [("FAULTLINE_STORE__DIRECTORY", "store.directory"), ("FAULTLINE_STORE__CASES", "store.cases")],
)
def test_a_directory_that_cannot_be_used_is_named(tmp_path: Path, variable: str, key: str) -> None:
    (tmp_path / "file").write_text("")
    environ = {
        "FAULTLINE_SERVER__PORT": str(free_port()),
        variable: str(tmp_path / "file" / "below"),
    }
    said = refused(settings_of(tmp_path, **environ))
    assert said.startswith(f"{key}: {tmp_path}/file/below cannot be used (")
    assert "\n" not in said


@pytest.mark.usefixtures("temporary_folder")
def test_a_database_that_is_away_is_one_line_without_the_password(tmp_path: Path) -> None:
    address = f"postgresql://u:hunter2@127.0.0.1:{free_port()}/x"
    settings = settings_of(
        tmp_path, FAULTLINE_STORE__DATABASE=address, FAULTLINE_SERVER__PORT=str(free_port())
    )
    with pytest.raises(FaultlineError, match=r"^the database does not answer") as error:
        serve(settings, None, with_worker=False)
    assert "hunter2" not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("temporary_folder")
def test_a_database_address_that_is_none_is_named_without_showing_it(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path,
        FAULTLINE_STORE__DATABASE="postgresql://u:hunter2@h:port/x",
        FAULTLINE_SERVER__PORT=str(free_port()),
    )
    said = refused(settings)
    assert said.startswith("store.database: is not an address")
    assert "hunter2" not in said


@pytest.mark.usefixtures("temporary_folder")
def test_socket_mode_without_the_bot_token_is_refused(tmp_path: Path) -> None:
    assert refused(settings_of(tmp_path, FAULTLINE_SLACK__APP_TOKEN="xapp-1")).startswith(
        "slack.bot_token: is needed"
    )


@pytest.mark.usefixtures("temporary_folder")
def test_a_start_that_fails_leaves_no_nursery_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_workers: Workers) -> None:
        raise SettingsError("recorded.case", "is not a case folder")

    # Where the first worker is forked; here, beside the tests' threads, it is not.
    monkeypatch.setattr(Workers, "begin_first", fails)
    with pytest.raises(SettingsError):
        serve(settings_of(tmp_path), None)
    assert process_nursery() is None
