"""A section that is given several times: each table has a name, and its secrets carry it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.errors import SettingsError
from faultline.bot.settings import Settings, load_settings, sections_that_repeat
from faultline.connectors.registry import build_connectors
from faultline.connectors.shared.contract.instances import visible_settings
from faultline.connectors.shared.settings.instances import Covers, Instance
from faultline.connectors.vendors.grafana import GrafanaSettings
from faultline.connectors.vendors.prometheus import PrometheusSettings

TWO = """
[[prometheus]]
name = "prod-eu"
url = "http://eu:9090"
covers = { cluster = "prod-eu", services = ["checkout", "pay*"] }

[[prometheus]]
name = "prod.us"
url = "http://us:9090"
step_s = 30
"""


def load(folder: Path, text: str, environ: dict[str, str] | None = None) -> Settings:
    """The settings of a file with this text."""
    file = folder / "faultline.toml"
    file.write_text(text)
    return load_settings(file, environ or {})


def test_each_table_is_a_section_with_a_name_and_what_it_covers(tmp_path: Path) -> None:
    settings = load(tmp_path, TWO)
    eu, us = settings.instances("prometheus")
    covers = Covers({"cluster": ("prod-eu",)}, ("checkout", "pay*"))
    assert eu.instance == Instance("prod-eu", covers)
    assert us.instance == Instance("prod.us", Covers())
    views = settings.per_instance("prometheus")
    urls = [(view.prometheus.url, view.prometheus.step_s) for view in views]
    assert urls == [("http://eu:9090", 15), ("http://us:9090", 30)]


def test_a_single_table_is_one_instance_without_a_name(tmp_path: Path) -> None:
    settings = load(tmp_path, "[prometheus]\nurl = 'http://one:9090'\n")
    (table,) = settings.instances("prometheus")
    assert table.instance == Instance("", Covers())
    assert [view.prometheus.url for view in settings.per_instance("prometheus")] == [
        "http://one:9090"
    ]
    assert [one.name for one in build_connectors(settings)] == ["prometheus"]


def test_secrets_of_an_instance_come_from_variables_with_its_name(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("from-file\n")
    environ = {
        "FAULTLINE_PROMETHEUS__PROD_EU__TOKEN": "from-environment",
        "FAULTLINE_PROMETHEUS__PROD_US__STEP_S": "60",
        "FAULTLINE_DATADOG__ACME_INC__API_KEY_FILE": str(secret),
    }
    settings = load(tmp_path, TWO + "[[datadog]]\nname = 'acme.inc'\n", environ)
    eu, us = (view.prometheus for view in settings.per_instance("prometheus"))
    (datadog,) = (view.datadog for view in settings.per_instance("datadog"))
    assert eu.token is not None
    assert eu.token.get_secret_value() == "from-environment"
    assert (us.token, us.step_s) == (None, 60)
    assert datadog.api_key is not None
    assert datadog.api_key.get_secret_value() == "from-file"


def test_settings_with_instances_reach_other_processes_whole(tmp_path: Path) -> None:
    settings = load(tmp_path, TWO, {"FAULTLINE_PROMETHEUS__PROD_EU__TOKEN": "very-secret"})
    assert pickle.loads(pickle.dumps(settings)).instances("prometheus") == settings.instances(
        "prometheus"
    )
    assert "very-secret" not in repr(settings)
    assert "very-secret" not in repr(settings.instances("prometheus"))


def test_a_connector_sees_the_grafana_of_its_own_place(tmp_path: Path) -> None:
    text = TWO + "".join(
        f'[[grafana]]\nname = "{name}"\nurl = "http://{name}"\ncovers = {{ cluster = "{name}" }}\n'
        for name in ("prod-eu", "prod-ap")
    )
    settings = load(tmp_path, text + '[services."checkout"]\n[services.cart]\n')
    eu, us = settings.instances("prometheus")
    seen = visible_settings(settings, "prometheus", eu)
    assert seen.section(GrafanaSettings).url == "http://prod-eu"
    assert seen.section(PrometheusSettings).url == "http://eu:9090"
    assert list(seen.services) == ["checkout"]
    # Both may be about its place: a link to the wrong one would be worse than none.
    of_us = visible_settings(settings, "prometheus", us)
    assert of_us.section(GrafanaSettings).url is None


@pytest.mark.parametrize(
    ("text", "environ", "said"),
    [
        ("[[prometheus]]\nurl = 'http://a'\n", {}, "prometheus: each [[prometheus]] needs a name"),
        (TWO + "[[prometheus]]\nname = 'prod-eu'\n", {}, "prometheus.name: two of [[prometheus]]"),
        (
            TWO + "[[prometheus]]\nname = 'PROD_EU'\n",
            {},
            "prometheus.name: 'prod-eu' and 'PROD_EU' of [[prometheus]] have the same variables, "
            "FAULTLINE_PROMETHEUS__PROD_EU__...",
        ),
        ("[[prometheus]]\nname = 'a__b'\n", {}, "prometheus.name: 'a__b' must be letters"),
        ("[[prometheus]]\nname = 'prod eu'\n", {}, "prometheus.name: 'prod eu' must be letters"),
        ("[[prometheus]]\nname = 'a\\n'\n", {}, "prometheus.name: 'a\\\\n' must be letters"),
        ("[[prometheus]]\nname = 5\n", {}, "prometheus.name: '5' must be letters"),
        ("prometheus = [1]\n", {}, "prometheus: must be a table or several of [[prometheus]]"),
        ("[[prometheus]]\nname = 'a'\nurll = 'x'\n", {}, "prometheus.a.urll: no such setting"),
        ("[[prometheus]]\nname = 'a'\nurl = 'x'\n", {}, "prometheus.a.url: must begin with"),
        ("[[prometheus]]\nname = 'a'\ncovers = 'x'\n", {}, "prometheus.a.covers: "),
        (
            "[[prometheus]]\nname = 'a'\ntoken = 'hunter2'\n",
            {},
            "prometheus.a.token: is a secret: set FAULTLINE_PROMETHEUS__A__TOKEN in the environ",
        ),
        ("[[server]]\nname = 'a'\n", {}, "server: must be one table, [server]"),
        ("[[server]]\nport = 1\n", {}, "server: must be one table, [server]"),
        (
            TWO,
            {"FAULTLINE_PROMETHEUS__TOKEN": "x"},
            "FAULTLINE_PROMETHEUS__TOKEN: name the one of [[prometheus]] that it is for, as in "
            "FAULTLINE_PROMETHEUS__NAME__TOKEN",
        ),
        (
            TWO,
            {"FAULTLINE_PROMETHEUS__ASIA__TOKEN": "x"},
            "FAULTLINE_PROMETHEUS__ASIA__TOKEN: there is no such table: [[prometheus]] has "
            "prod-eu, prod.us",
        ),
        (TWO, {"FAULTLINE_PROMETHEUS__PROD_EU__NAME": "x"}, "FAULTLINE_PROMETHEUS__PROD_EU__NAME"),
        (TWO, {"FAULTLINE_PROMETHEUS__PROD_EU__TOKN": "x"}, "prometheus.prod-eu.tokn: no such"),
        (
            "[[prometheus]]\nname = 'a'\nurl = 'http://p'\nservice_label = 'a b'\n",
            {},
            "prometheus.a.service_label: ",
        ),
    ],
)
def test_what_is_wrong_with_an_instance_is_one_line(
    tmp_path: Path, text: str, environ: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError) as error:
        build_connectors(load(tmp_path, text, environ))
    assert str(error.value).startswith(said)
    assert "\n" not in str(error.value)
    assert "hunter2" not in str(error.value)


def test_the_bots_own_sections_and_those_it_talks_through_stand_once() -> None:
    repeated: dict[str, Any] = dict(sections_that_repeat(Settings))
    assert not {"aws", "server", "services", "recorded", "traces"} & set(repeated)
    assert {"prometheus", "datadog", "kubernetes", "slack", "pagerduty"} <= set(repeated)
