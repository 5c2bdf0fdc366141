"""infra/helm: Helm 3 and 4 render it, the API server would take what comes out, the bot reads its
settings, and mistakes are refused with a sentence."""

from __future__ import annotations

import ipaddress
import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from faultline.bot.settings import load_settings
from infra.checks.helm import CHART, WHEELS, Helm, Refused, helm
from infra.checks.kubernetes import documents, insecure, misfits
from infra.checks.tools import ROOT, NotHere
from tests.infra.chart_values import DATABASE, INSTALLATIONS, PLAIN, POSTGRESQL, PUBLIC

Object = dict[str, Any]
KUBERNETES = ROOT / "infra/kubernetes"
RELEASE_LABELS = (
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
)
OPERATORS = "PodMonitor"
"""A kind of the Prometheus operator, which Kubernetes' schemas do not hold."""


def program(major: str) -> Helm:
    try:
        return helm(major)
    except NotHere as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def rendered() -> dict[str, list[Object]]:
    """What Helm 4 makes of each installation."""
    return {name: program("4").render(values) for name, values in INSTALLATIONS.items()}


def only(objects: list[Object], kind: str, name: str = "") -> Object:
    (one,) = [
        one for one in objects if one["kind"] == kind and name in ("", one["metadata"]["name"])
    ]
    return one


def container(objects: list[Object], role: str) -> Object:
    pod = only(objects, "Deployment", f"faultline-{role}")["spec"]["template"]["spec"]
    first: Object = pod["containers"][0]
    return first


@pytest.mark.parametrize("major", WHEELS)
def test_helm_lints_every_installation_and_both_versions_render_the_same(
    major: str, rendered: dict[str, list[Object]]
) -> None:
    for name, values in INSTALLATIONS.items():
        program(major).lint(values)
        assert program(major).render(values) == rendered[name], name


def test_the_api_server_takes_every_object(
    rendered: dict[str, list[Object]], tmp_path: Path
) -> None:
    file = tmp_path / "all.yaml"
    known = [one for objects in rendered.values() for one in objects if one["kind"] != OPERATORS]
    file.write_text(yaml.safe_dump_all(known))
    try:
        assert misfits(file) == []
        file.write_text(file.read_text().replace("terminationGracePeriodSeconds", "gracePeriod"))
        assert any("gracePeriod" in line for line in misfits(file))
    except NotHere as reason:
        pytest.skip(str(reason))


def test_restricted_admits_every_pod_and_a_token_is_mounted_only_to_read_the_cluster(
    rendered: dict[str, list[Object]],
) -> None:
    tokens = {}
    for name, objects in rendered.items():
        said = insecure(objects)
        tokens[name] = [line.partition(":")[0] for line in said if "a token is mounted" in line]
        assert len(said) == len(tokens[name]), said
    assert {name: pods for name, pods in tokens.items() if pods} == {
        "sqlite on a claim, reading the cluster": ["Deployment/faultline-server"],
        "postgresql with its own secrets and many workers": ["Deployment/faultline-worker"],
    }


def test_the_bot_reads_the_settings_with_the_environment_of_each_pod(
    rendered: dict[str, list[Object]], tmp_path: Path
) -> None:
    for name, objects in rendered.items():
        file = tmp_path / "faultline.toml"
        file.write_text(only(objects, "ConfigMap")["data"]["faultline.toml"])
        for pod in (one for one in objects if one["kind"] == "Deployment"):
            env = pod["spec"]["template"]["spec"]["containers"][0]["env"]
            environ = {one["name"]: one["value"] for one in env}
            settings = load_settings(file, environ)
            given = INSTALLATIONS[name].get("settings", {}).get("server", {})
            public_url = given.get("public_url", "http://127.0.0.1:8080")
            assert settings.server.public_url == public_url


def test_numbers_lists_and_several_of_each_survive_as_toml(tmp_path: Path) -> None:
    file = tmp_path / "faultline.toml"
    written = {
        **PUBLIC,
        "worker": {"concurrency": 3},
        "investigation": {"incident_minutes": 45},
        "model": {"name": "m", "max_cost_usd": 0.25},
        "prometheus": [
            {"name": "eu", "url": "http://eu:9090", "covers": {"cluster": "eu", "services": ["a"]}},
            {"name": "us", "url": "http://us:9090"},
        ],
        "services": {"checkout": {"aliases": ['the "checkout"'], "depends_on": ["payments"]}},
    }
    for major in WHEELS:
        settings_map = only(program(major).render({"settings": written}), "ConfigMap")
        file.write_text(settings_map["data"]["faultline.toml"])
        assert tomllib.loads(file.read_text()) == written
        settings = load_settings(file, {})
        assert settings.worker.concurrency == 3
        assert settings.services["checkout"].aliases == ('the "checkout"',)


def test_what_both_hold_is_the_same_in_the_chart_and_the_plain_manifests() -> None:
    ours = program("4").render(PLAIN)
    read_only = program("4").render({**PLAIN, "clusterRead": {"enabled": True}})
    plain = [one for one in documents(KUBERNETES / "faultline.yaml") if one["kind"] != "Namespace"]
    assert _named(_without_helm(ours)) == _named(plain)
    roles = _named(documents(KUBERNETES / "read-only-rbac.yaml"))
    for part in ("workloads", "nodes"):
        role = only(read_only, "ClusterRole", f"faultline-faultline-{part}")
        assert role["rules"] == roles[f"ClusterRole/faultline-{part}"]["rules"]


def _named(objects: list[Object]) -> dict[str, Object]:
    found = {f"{one['kind']}/{one['metadata']['name']}": one for one in objects}
    assert len(found) == len(objects)
    for name, one in found.items():
        if name.startswith("ConfigMap/"):
            one["data"] = tomllib.loads(one["data"]["faultline.toml"])
    return found


def _without_helm(objects: list[Object]) -> list[Object]:
    """Without what only Helm needs: whose release it is, and that pods start again for settings."""
    for one in objects:
        _drop_release(one)
        if one["kind"] == "Deployment":
            del one["spec"]["template"]["metadata"]["annotations"]
        else:
            del one["metadata"]["labels"]
    return objects


def _drop_release(part: Any) -> None:
    """The labels that name the release and the chart, wherever they stand."""
    for inner in part.values() if isinstance(part, dict) else part:
        if isinstance(inner, dict):
            for label in RELEASE_LABELS:
                inner.pop(label, None)
        if isinstance(inner, dict | list):
            _drop_release(inner)


def test_sqlite_is_one_pod_on_one_volume_that_helm_does_not_delete(
    rendered: dict[str, list[Object]],
) -> None:
    objects = rendered["as it comes"]
    pod = only(objects, "Deployment")
    assert (pod["spec"]["replicas"], pod["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert container(objects, "server")["args"] == ["serve"]
    claim = only(objects, "PersistentVolumeClaim")
    assert claim["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    volumes = {one["name"]: one for one in pod["spec"]["template"]["spec"]["volumes"]}
    assert volumes["state"]["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}
    # It investigates, so it needs what a worker needs.
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert container(objects, "server")["resources"] == values["worker"]["resources"]
    assert volumes["tmp"] == {"name": "tmp", "emptyDir": {"sizeLimit": values["worker"]["scratch"]}}
    kinds = [one["kind"] for one in rendered["sqlite on a claim, reading the cluster"]]
    assert "PersistentVolumeClaim" not in kinds


def test_each_role_gets_its_own_secret_and_the_one_pod_both(
    rendered: dict[str, list[Object]],
) -> None:
    both = rendered["sqlite with secrets and an ingress"]
    assert container(both, "server")["envFrom"] == [
        {"secretRef": {"name": "faultline-server-secrets"}},
        {"secretRef": {"name": "faultline-worker-secrets"}},
    ]
    secret = only(both, "Secret", "faultline-server-secrets")
    assert secret["stringData"] == {"FAULTLINE_SERVER__ACCESS_TOKEN": 'a "quoted": token # 1'}
    assert only(both, "Secret", "faultline-worker-secrets")["stringData"] == {
        "FAULTLINE_GITHUB__TOKEN": "123"
    }
    apart = rendered["postgresql"]
    assert [one for one in apart if one["kind"] == "Secret"] == []
    for role in ("server", "worker"):
        named = [{"secretRef": {"name": f"faultline-{role}-secrets"}}]
        assert container(apart, role)["envFrom"] == named


def test_changed_settings_and_secrets_replace_the_pods() -> None:
    def annotations(values: Object) -> Object:
        pod = only(program("4").render(values), "Deployment")["spec"]["template"]
        found: Object = pod["metadata"]["annotations"]
        return found

    before = annotations({})
    assert annotations({"settings": {"worker": {"concurrency": 3}}}) != before
    assert annotations({"secrets": {"server": {"data": {"FAULTLINE_A__B": "1"}}}}) != before
    assert annotations({"service": {"port": 81}}) == before


def allows(policy: Object, direction: str, *, namespace: str = "", ip: str = "", port: int) -> bool:
    """Whether the policy lets through a connection with a pod of that namespace, or that address
    outside, as https://kubernetes.io/docs/concepts/services-networking/network-policies/ has it."""
    peers_key = "to" if direction == "egress" else "from"
    for rule in policy["spec"].get(direction, []):
        if port not in [one["port"] for one in rule["ports"]]:
            continue
        # A rule without peers is open to all of them.
        if peers_key not in rule:
            return True
        for peer in rule[peers_key]:
            if "ipBlock" in peer:
                network = ipaddress.ip_network(peer["ipBlock"]["cidr"])
                if ip and ipaddress.ip_address(ip) in network:
                    return True
            elif namespace and peer["namespaceSelector"]["matchLabels"] == {
                "kubernetes.io/metadata.name": namespace
            }:
                return True
    return False


def test_the_network_policy_lets_the_configured_sources_through_and_nothing_else() -> None:
    egress = [
        {"ports": [443]},
        {"ports": [9090, 3100], "namespaces": ["monitoring", "logs"]},
        {"ports": [5432], "cidrs": ["10.20.0.0/16"]},
    ]
    objects = program("4").render({**POSTGRESQL, "networkPolicy": {"egress": egress}})
    policy = only(objects, "NetworkPolicy")
    assert allows(policy, "egress", namespace="kube-system", port=53)
    assert allows(policy, "egress", ip="203.0.113.7", port=443)
    assert allows(policy, "egress", namespace="monitoring", port=9090)
    assert allows(policy, "egress", namespace="logs", port=3100)
    assert allows(policy, "egress", ip="10.20.3.4", port=5432)
    assert not allows(policy, "egress", ip="10.21.3.4", port=5432)
    assert not allows(policy, "egress", namespace="shop", port=9090)
    assert not allows(policy, "egress", ip="203.0.113.7", port=80)
    assert allows(policy, "ingress", namespace="ingress-nginx", port=8080)
    assert not allows(policy, "ingress", namespace="ingress-nginx", port=9090)
    assert allows(policy, "ingress", namespace="monitoring", port=9090)
    assert not allows(policy, "ingress", namespace="shop", port=8080)


def test_without_anybody_named_the_network_policy_lets_nobody_in() -> None:
    nobody = {"networkPolicy": {"ingressFrom": [], "metricsFrom": []}}
    policy = only(program("4").render(nobody), "NetworkPolicy")
    assert not policy["spec"]["ingress"]
    assert "Ingress" in policy["spec"]["policyTypes"]


def test_prometheus_finds_the_ports_that_the_processes_listen_on(
    rendered: dict[str, list[Object]],
) -> None:
    one_pod = program("4").render({"podMonitor": {"enabled": True}})
    for objects in (one_pod, rendered["everything else"]):
        monitor = only(objects, OPERATORS)["spec"]
        scraped = {one["port"] for one in monitor["podMetricsEndpoints"]}
        served = set()
        for pod in (one for one in objects if one["kind"] == "Deployment"):
            spec = pod["spec"]["template"]["spec"]["containers"][0]
            ports = {one["containerPort"]: one["name"] for one in spec["ports"]}
            for variable in spec["env"]:
                if variable["name"].endswith("_ADDRESS"):
                    served.add(ports[int(variable["value"].rpartition(":")[2])])
            labels = pod["spec"]["template"]["metadata"]["labels"].items()
            assert monitor["selector"]["matchLabels"].items() <= labels
        assert scraped == served


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"server": {"replicas": 2}}, "server.replicas is 2, but SQLite takes one pod"),
        ({"worker": {"replicas": 4}}, "worker.replicas is 4, but SQLite takes one pod"),
        (
            {**POSTGRESQL, "secrets": {"server": {"existingSecret": "a"}}},
            "PostgreSQL's address is missing: set secrets.worker.existingSecret",
        ),
        (
            {**POSTGRESQL, "secrets": {"server": {"data": {"FAULTLINE_A__B": "1"}}}},
            "secrets.server.data lacks FAULTLINE_STORE__DATABASE",
        ),
        (
            {"secrets": {"server": {"data": DATABASE}}},
            "secrets.server.data names a database, but database is sqlite",
        ),
        (
            {"secrets": {"worker": {"data": DATABASE, "existingSecret": "a"}}},
            "secrets.worker has both existingSecret and data",
        ),
        ({**POSTGRESQL, "settings": PUBLIC}, "settings.store.cases must be a bucket"),
        ({"ingress": {"enabled": True}}, "settings.server.public_url is http://127.0.0.1:8080"),
        ({"settings": {"aws": {"regions": [None]}}}, "settings cannot be written as TOML"),
        ({"replicaCount": 3}, "replicaCount"),
        ({"database": "mysql"}, "database"),
        ({"settings": {"server": {"public_url": "faultline.example.com"}}}, "public_url"),
        ({"image": {"tag": "latest"}}, "tag"),
        ({"networkPolicy": {"egress": [{"port": 443}]}}, "ports"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@pytest.mark.parametrize("major", WHEELS)
def test_a_mistake_is_refused_and_named(major: str, values: Object, said: str) -> None:
    with pytest.raises(Refused) as refusal:
        program(major).render(values)
    assert said in str(refusal.value)


def test_the_notes_say_what_listens_and_how_to_try_it() -> None:
    # Helm 3 asks a cluster before it shows them.
    alone = program("4").notes({})
    assert "one pod and SQLite on a volume" in alone
    assert "kubectl -n faultline port-forward svc/faultline 8080:80" in alone
    assert "exec deploy/faultline-server -- faultline check" in alone
    assert "no webhook is taken" in alone
    public = program("4").notes(PLAIN)
    assert "https://faultline.example.com (ingress)" in public
    assert "rollout status deploy/faultline-server deploy/faultline-worker" in public
    assert "exec deploy/faultline-worker -- faultline check" in public
    assert "port-forward" not in public


def test_the_values_of_the_docs_install() -> None:
    page = (ROOT / "docs/deploy-kubernetes.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    documented = yaml.safe_load(block)
    for major in WHEELS:
        program(major).lint(documented)
        assert [one["kind"] for one in program(major).render(documented)].count("Deployment") == 2
    command = page.partition("helm install ")[2].partition("\n\n")[0].replace("\\\n", " ")
    words = ["template", *shlex.split(command), "--kube-version", "1.31"]
    ran = subprocess.run(
        [str(program("4").program), *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    policy = only([one for one in yaml.safe_load_all(ran.stdout) if one], "NetworkPolicy")
    assert allows(policy, "egress", namespace="monitoring", port=9090)


def test_every_value_is_explained_and_has_its_type_in_the_schema() -> None:
    text = (CHART / "values.yaml").read_text()
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load(text)
    assert set(values) == set(schema["properties"]) - {"global"}
    for section, content in values.items():
        inside = schema["properties"][section].get("properties", {})
        if section != "settings" and inside:
            assert set(content) == set(inside), section
    # A value, or the first of some values that go together, stands below a sentence about it.
    for paragraph in text.split("\n\n"):
        assert paragraph.lstrip().startswith("#"), paragraph


def test_chart_and_program_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["version"] == chart["appVersion"] == project["version"]
