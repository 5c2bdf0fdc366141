"""Settings: wrong ones stop the start with one line that names the key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from faultline.analysis.errors import SettingsError
from faultline.bot.settings import load_settings
from faultline.bot.settings.reference import PAGE, page


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A settings file to be filled."""
    return tmp_path / "faultline.toml"


def refused(file: Path, text: str, environ: dict[str, str] | None = None) -> str:
    file.write_text(text)
    with pytest.raises(SettingsError) as error:
        load_settings(file, environ or {})
    return str(error.value)


def test_without_file_and_environment_the_defaults_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(environ={})
    assert settings.server.host == "127.0.0.1"
    assert settings.store.database is None


def test_the_environment_wins_over_the_file(file: Path) -> None:
    file.write_text("[server]\nport = 1000\npublic_url = 'https://a.example/'\n")
    settings = load_settings(file, {"FAULTLINE_SERVER__PORT": "2000"})
    assert settings.server.port == 2000
    assert settings.server.public_url == "https://a.example"


def test_links_lead_to_the_port_that_is_listened_on(file: Path) -> None:
    file.write_text("[server]\nport = 9000\n")
    assert load_settings(file, {}).server.public_url == "http://127.0.0.1:9000"
    public = {"FAULTLINE_SERVER__PUBLIC_URL": "https://faultline.example"}
    assert load_settings(file, public).server.public_url == "https://faultline.example"
    port = {"FAULTLINE_SERVER__PORT": "9001"}
    assert load_settings(file, port).server.public_url == "http://127.0.0.1:9001"


def test_several_secrets_are_separated_by_commas() -> None:
    settings = load_settings(environ={"FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS": "old, new"})
    assert [s.get_secret_value() for s in settings.pagerduty.webhook_secrets] == ["old", "new"]


def test_secrets_do_not_show_when_settings_are_printed() -> None:
    settings = load_settings(environ={"FAULTLINE_SLACK__BOT_TOKEN": "xoxb-very-secret"})
    assert "very-secret" not in repr(settings)


def test_a_secret_in_the_file_is_refused_and_the_variable_named(file: Path) -> None:
    said = refused(file, "[slack]\nbot_token = 'xoxb-very-secret'\n")
    assert said.startswith("slack.bot_token: is a secret: set FAULTLINE_SLACK__BOT_TOKEN")
    assert "very-secret" not in said


@pytest.mark.parametrize(
    ("text", "environ", "key"),
    [
        ("[server]\nprt = 1\n", {}, "server.prt"),
        ("[srver]\nport = 1\n", {}, "srver"),
        ("[server]\nport = 'x'\n", {}, "server.port"),
        ("[prometheus]\nurl = 'prometheus:9090'\n", {}, "prometheus.url"),
        ("[model]\napi = 'telepathy'\n", {}, "model.api"),
        ("", {"FAULTLINE_SRV__PORT": "1"}, "FAULTLINE_SRV__PORT"),
        ("", {"FAULTLINE_WORKER__CONCURRENCY": "0"}, "worker.concurrency"),
        ("[services.a]\nowner = 'x'\n", {}, "services.a.owner"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(
    file: Path, text: str, environ: dict[str, str], key: str
) -> None:
    said = refused(file, text, environ)
    assert said.startswith(f"{key}: ")
    assert "\n" not in said


def test_a_file_that_is_not_toml_or_not_there_is_named(file: Path) -> None:
    assert "is not valid TOML" in refused(file, "[server\n")
    assert "nested too deeply" in refused(file, "a = " + "[" * 20_000)
    with pytest.raises(SettingsError, match=r"absent\.toml: the settings file cannot be read"):
        load_settings(file.with_name("absent.toml"), {})


def test_the_configuration_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize(
    ("text", "environ", "said"),
    [
        ("server = 5\n", {"FAULTLINE_SERVER__PORT": "80"}, "server: must be a table"),
        (
            "",
            {"FAULTLINE_STORE__DATABASE": "mysql://u:hunter2@h/x"},
            "store.database: must begin with postgresql://",
        ),
        (
            "[store]\ncases = 's3:/bucket'\n",
            {},
            "store.cases: must be s3://bucket/prefix or a directory",
        ),
    ],
)
def test_a_value_of_a_wrong_kind_is_one_line(
    file: Path, text: str, environ: dict[str, str], said: str
) -> None:
    assert refused(file, text, environ) == said


def test_a_file_that_is_no_text_is_one_line(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="is not UTF-8 text"):
        load_settings(file, {})


def test_an_empty_name_of_the_file_counts_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings(environ={"FAULTLINE_CONFIG": ""}) == load_settings(environ={})


def test_a_secret_may_lie_in_a_file_that_the_environment_names(tmp_path: Path) -> None:
    file = tmp_path / "signing"
    file.write_text("one,two\n")
    found = load_settings(environ={"FAULTLINE_SLACK__SIGNING_SECRETS_FILE": str(file)})
    assert [one.get_secret_value() for one in found.slack.signing_secrets] == ["one", "two"]


@pytest.mark.parametrize("content", [None, b"", b" \n", b"\xff\xfe", b"x" * 70_000])
def test_a_file_of_a_secret_that_holds_none_stops_the_start_and_is_not_quoted(
    tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingsError) as raised:
        load_settings(environ={"FAULTLINE_SERVER__ACCESS_TOKEN_FILE": str(file)})
    assert "FAULTLINE_SERVER__ACCESS_TOKEN_FILE" in str(raised.value)
    assert "xxxx" not in str(raised.value)


def test_a_secret_given_twice_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("a")
    given = {
        "FAULTLINE_SERVER__ACCESS_TOKEN": "b",
        "FAULTLINE_SERVER__ACCESS_TOKEN_FILE": str(tmp_path / "t"),
    }
    with pytest.raises(SettingsError):
        load_settings(environ=given)


def test_a_key_that_is_no_secret_is_not_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("0.0.0.0")
    with pytest.raises(SettingsError):
        load_settings(environ={"FAULTLINE_SERVER__HOST_FILE": str(tmp_path / "t")})


def test_sections_that_nothing_sets_are_not_built() -> None:
    program = """
from faultline.bot.settings.loading import settings_of
from faultline.connectors.registry import CONNECTORS
settings_of({"loki": {"url": "http://loki:3100"}}, {})
print(*sorted(name for name, one in CONNECTORS.items() if one.settings.__pydantic_complete__))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["loki"]
