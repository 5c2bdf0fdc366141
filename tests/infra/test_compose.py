"""infra/compose fits the Compose specification, and all that it names is there: files, images,
ports, settings, tokens. tests/lab/live/test_compose_story.py runs it."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from faultline.bot.settings import load_settings
from faultline.lab.live import open_shop
from faultline.lab.live.watched_shop import shop_settings
from faultline.lab.shop.layout import services_of
from faultline.lab.shop.monitoring import RULES, TARGETS, write_rules, write_targets
from faultline.lab.shop.pod import ShopPod
from faultline.lab.shop.running import ShopOptions
from infra.checks.tools import CHECK_JSONSCHEMA, ROOT, NotHere, tool
from infra.container.dry_run import instructions
from tests.debian_tools import debian_binary

ROOM = ROOT / "infra/compose"
FILE = ROOM / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ALERTMANAGER = yaml.safe_load((ROOM / "alertmanager.yml").read_text())
PROMETHEUS = yaml.safe_load((ROOM / "prometheus.yml").read_text())
SETTINGS = tomllib.loads((ROOM / "faultline.toml").read_text())


def shop_arguments() -> Any:
    return open_shop._parser().parse_args(SERVICES["shop"]["command"])


def listening() -> dict[str, set[int]]:
    """Which ports each service listens on: Prometheus is beside the shop."""
    shop = shop_arguments()
    telemetry = SETTINGS["telemetry"]
    own = {int(telemetry[key].rpartition(":")[2]) for key in telemetry}
    return {
        "shop": {shop.port, shop.loki_port, shop.jaeger_port, 9090},
        "alertmanager": {9093},
        "faultline": {8080, *own},
        "grafana": {3000},
    }


def test_it_fits_the_compose_specification_and_a_mistake_does_not(tmp_path: Path) -> None:
    try:
        command = [str(tool(CHECK_JSONSCHEMA)), "--builtin-schema", "vendor.compose-spec"]
    except NotHere as reason:
        pytest.skip(str(reason))
    bad = tmp_path / "bad.yml"
    bad.write_text(FILE.read_text().replace("cap_drop", "cap_dropped"))
    ran = [
        subprocess.run([*command, str(file)], capture_output=True, text=True, check=False)
        for file in (FILE, bad)
    ]
    assert [one.returncode for one in ran] == [0, 1], ran[0].stdout
    assert "cap_dropped" in ran[1].stdout


def test_images_are_built_by_our_dockerfile_or_have_a_version() -> None:
    stages = [rest.partition(" AS ")[2] for word, rest in instructions() if word == "FROM"]
    for name, service in SERVICES.items():
        if build := service.get("build"):
            assert (ROOM / build["context"]).resolve() == ROOT
            assert (ROOT / build["dockerfile"]).is_file()
            assert build.get("target", "") in stages, name
        else:
            assert re.fullmatch(r"[a-z/-]+:v?\d+\.\d+\.\d+", service["image"]), name


def test_the_images_start_what_is_there() -> None:
    entries = [json.loads(rest) for word, rest in instructions() if word == "ENTRYPOINT"]
    assert entries[0] == ["/app/.venv/bin/python", "-m", open_shop.__name__]
    assert shop_arguments().room == Path("/shop")
    assert SERVICES["faultline"]["command"] == ["serve"]
    assert SERVICES["shop"]["healthcheck"]["test"][2] == "/app/healthy.py"


def test_every_mounted_file_exists_and_every_volume_is_declared() -> None:
    named = set()
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (ROOM / source).exists(), source
                assert volume.endswith(":ro")
            else:
                named.add(source)
    assert named == set(COMPOSE["volumes"])


def test_only_this_machine_reaches_it_and_each_published_port_is_listened_on() -> None:
    for name, service in SERVICES.items():
        for port in service.get("ports", []):
            host, published, inside = port.split(":")
            assert (host, published) == ("127.0.0.1", inside)
            assert int(inside) in listening()[name]


def test_every_address_names_a_service_and_a_port_that_it_listens_on() -> None:
    texts = [(ROOM / "faultline.toml").read_text(), (ROOM / "alertmanager.yml").read_text()]
    texts += [file.read_text() for file in ROOM.glob("grafana/*/*.yml")]
    texts += [one for service in SERVICES.values() for one in service.get("command", [])]
    addresses = re.findall(r"http://([a-z0-9.-]+):(\d+)", "\n".join(texts))
    for job in PROMETHEUS["scrape_configs"]:
        for group in job.get("static_configs", []):
            addresses += [tuple(target.split(":")) for target in group["targets"]]
    (alertmanager,) = PROMETHEUS["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    addresses.append(tuple(alertmanager.split(":")))
    assert len(addresses) > 15
    published = {
        int(port.split(":")[1]) for one in SERVICES.values() for port in one.get("ports", [])
    }
    for host, port in addresses:
        if host == "localhost":
            assert int(port) in published
        elif host == "127.0.0.1":
            assert int(port) in listening()["shop"]
        else:
            assert int(port) in listening()[host], (host, port)


def test_tokens_are_the_same_on_both_sides() -> None:
    environ = SERVICES["faultline"]["environment"]
    (webhook,) = ALERTMANAGER["receivers"][0]["webhook_configs"]
    sent = webhook["http_config"]["authorization"]["credentials"]
    assert environ["FAULTLINE_ALERTMANAGER__WEBHOOK_TOKENS"] == sent
    told = SERVICES["shop"]["environment"][open_shop.TOKEN]
    assert environ["FAULTLINE_CHANGES__TOKENS"] == told
    (shown,) = [link for link in SERVICES["shop"]["command"] if "token" in link]
    assert f'"{environ["FAULTLINE_SERVER__ACCESS_TOKEN"]}"' in shown


def test_the_bot_reads_its_settings_which_are_the_shops() -> None:
    environ = SERVICES["faultline"]["environment"]
    assert environ["FAULTLINE_CONFIG"] == "/config/faultline.toml"
    settings = load_settings(ROOM / "faultline.toml", environ)
    assert settings.server.public_url == "http://localhost:8080"
    shops = tomllib.loads(shop_settings(ShopOptions(interval_s=shop_arguments().interval)))
    # Graded incidents must not remember each other. Here the bot may.
    del shops["investigation"]["memory_days"]
    for section, values in shops.items():
        assert SETTINGS[section].items() >= values.items(), section
    assert set(SETTINGS["services"]) == {one.name for one in services_of(small=False)}


def test_promtool_takes_the_configuration_with_the_shops_rules_and_targets(tmp_path: Path) -> None:
    promtool = debian_binary("prometheus", "usr/bin/promtool")
    interval_s = shop_arguments().interval
    assert PROMETHEUS["global"]["scrape_interval"] == f"{interval_s:g}s"
    write_rules(tmp_path, interval_s, None)
    pod = ShopPod("web-eu-1", "web", "service", "eu", 8001, str(tmp_path))
    write_targets(tmp_path, [pod])
    text = (ROOM / "prometheus.yml").read_text()
    assert f"/shop/{RULES}" in text
    assert f"/shop/{TARGETS}" in text
    file = tmp_path / "prometheus.yml"
    file.write_text(text.replace("/shop/", f"{tmp_path}/"))
    command = [str(promtool), "check", "config", str(file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "5 rules found" in ran.stdout


def test_grafana_finds_its_data_source_and_the_dashboard() -> None:
    (source,) = yaml.safe_load((ROOM / "grafana/datasources/prometheus.yml").read_text())[
        "datasources"
    ]
    dashboard = json.loads((ROOT / "infra/monitoring/dashboard.json").read_text())
    (choice,) = [one for one in dashboard["templating"]["list"] if one["name"] == "datasource"]
    assert source["type"] == choice["query"]
    assert source["isDefault"]
    (provider,) = yaml.safe_load((ROOM / "grafana/dashboards/faultline.yml").read_text())[
        "providers"
    ]
    mounted = {one.split(":")[1] for one in SERVICES["grafana"]["volumes"]}
    shown = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert shown in mounted
    assert Path(shown).parent == Path(provider["options"]["path"])
    # The dashboard's panels ask for the job of this name.
    assert "faultline" in [job["job_name"] for job in PROMETHEUS["scrape_configs"]]
