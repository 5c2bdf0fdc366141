"""An unknown setting is refused, and the known one that it is close to is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.errors import SettingsError
from faultline.bot.settings import load_settings


def refused(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> str:
    file = tmp_path / "faultline.toml"
    file.write_text(text)
    with pytest.raises(SettingsError) as error:
        load_settings(file, environ or {})
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[promethues]\nurl = 'http://x'", "promethues: no such section of the settings. Did you "
         "mean prometheus?"),
        ("[Slack]\nchannel = 'C1'", "Slack: no such section of the settings. Did you mean slack?"),
        ("[prometheus]\nurll = 'x'", "prometheus.urll: no such setting. Did you mean url?"),
        ("[[alerts.rules]]\nsevrity = ['x']", "alerts.rules.0.sevrity: no such setting. Did you "
         "mean severity?"),
        ("[services.cart]\ndepend_on = ['db']", "services.cart.depend_on: no such setting. Did you "
         "mean depends_on?"),
        ("[[loki]]\nname = 'eu'\nurll = 'x'", "loki.eu.urll: no such setting. Did you mean url?"),
        ("drain_s = 80", "drain_s: no such section of the settings. Did you mean server.drain_s?"),
    ],
)  # fmt: skip
def test_a_key_that_is_close_to_a_known_one_names_it(tmp_path: Path, text: str, said: str) -> None:
    assert refused(tmp_path, text) == said


def test_so_does_a_variable(tmp_path: Path) -> None:
    said = refused(tmp_path, "", {"FAULTLINE_PROMETEUS__URL": "http://x"})
    assert said.endswith("no such section of the settings. Did you mean prometheus?")


@pytest.mark.parametrize("text", ["[server]\nxyzzy = 1", "[xyzzy]\nurl = 'x'", "xyzzy = 1"])
def test_nothing_is_suggested_where_nothing_is_close(tmp_path: Path, text: str) -> None:
    assert "Did you mean" not in refused(tmp_path, text)


def test_a_key_that_many_sections_have_is_placed_in_none(tmp_path: Path) -> None:
    assert "Did you mean" not in refused(tmp_path, "url = 'http://x'")
