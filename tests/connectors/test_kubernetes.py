"""The Kubernetes connector against a local server that answers in the shapes of the API.

No API server can be had offline (none is in PyPI, npm or Debian), so
tests/connectors/kubernetes_objects.py stands in. Its objects are those that the models of the
official Python client accept.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from faultline.analysis.case.folder import read_case, write_evidence, write_json
from faultline.analysis.case.rounds import Lead
from faultline.analysis.case.tables import SCHEMAS, conform, write_table
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.errors import SettingsError
from faultline.analysis.logs.signature_findings import match
from faultline.analysis.vocabulary import Alert, Diagnosis, Evidence, Gap, JobIdentity, Window
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.kubernetes import CONNECTOR
from faultline.connectors.vendors.kubernetes.answers import KubernetesEvent
from faultline.connectors.vendors.kubernetes.connector import LIMITS, KubernetesConnector
from faultline.connectors.vendors.kubernetes.events import MOST_REPEATS, log_rows
from faultline.connectors.vendors.kubernetes.inquiry import MOST_NODES, MOST_PODS
from faultline.connectors.vendors.kubernetes.job_objects import JOB_KINDS
from faultline.connectors.vendors.kubernetes.pod_templates import config_maps_of, facts
from faultline.connectors.vendors.kubernetes.session import MOST_PAGES
from faultline.connectors.vendors.kubernetes.workloads import (
    MOST_NAMESPACES,
    MOST_WORKLOADS,
    makers_of,
    parsed,
)
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.kubernetes_objects import (
    ROLLED_OUT,
    as_core,
    listed,
    node,
    pod,
    refused,
    replica_set,
    workload,
)
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import kubernetes as stand_in
from tests.connectors.stand_ins.kubernetes import NEW_SET, TOKEN

MANIFEST = Path(__file__).resolve().parents[2] / "infra" / "kubernetes" / "read-only-rbac.yaml"
WORDS = (
    "containers",
    "env",
    "envFrom",
    "resources",
    "limits",
    "name",
    "volumes",
    "configMap",
    "annotations",
    "valueFrom",
)
SHOP = "/apis/apps/v1/namespaces/shop"


def connector(server: LocalServer, **tables: Any) -> KubernetesConnector:
    """From settings, as the bot builds it."""
    given = stand_in.settings(server.url)
    given["kubernetes"] |= tables.pop("kubernetes", {})
    built = CONNECTOR.configured(Settings.model_validate(given | tables))
    assert built is not None
    return built


def collect(
    server: LocalServer, folder: Path, about: Alert | None = None, **tables: Any
) -> Collected:
    """What is collected for an alert about checkout."""
    alert = about or Alert(
        source="x", title="Checkout fails", started_at=ALERT_AT, service="checkout"
    )
    request = request_for(folder, services=("checkout", "cart"), alert=alert)
    return asyncio.run(collect_from(connector(server, **tables), request))


def table(found: Collected, name: str) -> pl.DataFrame:
    """A table in its schema."""
    return conform(found.tables[name], name, name)


def reasons(found: Collected) -> str:
    """All gaps in one text."""
    return " | ".join(f"{m.query}: {m.reason}" for m in found.missing)


@pytest.fixture
def cluster(server: LocalServer) -> LocalServer:
    """A cluster, with its incident."""
    stand_in.serve(server)
    return server


def test_a_rollout_is_a_deploy_with_images_limits_and_names_of_what_changed(
    cluster: LocalServer, tmp_path: Path
) -> None:
    found = collect(cluster, tmp_path)
    assert found.missing == ()
    row = table(found, "changes").filter(id=NEW_SET).row(0, named=True)
    assert (row["time"], row["service"], row["kind"]) == (ROLLED_OUT, "checkout", "deploy")
    assert row["title"].startswith(
        "Rollout of checkout: image checkout:1.4.0 -> checkout:1.5.0, limits.memory 512Mi -> 256Mi"
    )
    assert "env DATABASE_URL changed" in row["title"]
    assert "release 1.5.0" in row["title"]
    assert "-app limits.memory: 512Mi\n+app limits.memory: 256Mi" in row["diff"]
    assert "+app env DATABASE_URL: not shown (after)" in row["diff"]
    assert row["link"] == "https://headlamp.example.com/c/main/deployments/shop/checkout"
    # The one before is three days old: it shows how often checkout is rolled out anyway.
    assert "checkout-6b8c7d5f9" in table(found, "changes")["id"].to_list()


def test_no_value_of_a_variable_or_config_map_is_brought(
    cluster: LocalServer, tmp_path: Path
) -> None:
    found = collect(cluster, tmp_path)
    everything = repr(found.items) + "".join(repr(t.to_dicts()) for t in found.tables.values())
    assert "hunter2" not in everything
    asked = [a for a in cluster.asked if a.path.endswith("/configmaps")]
    assert asked
    assert all("PartialObjectMetadataList" in a.headers["Accept"] for a in asked)
    assert not [a for a in cluster.asked if "secrets" in a.path]


def test_scaling_and_config_maps_are_changes(cluster: LocalServer, tmp_path: Path) -> None:
    rows = table(collect(cluster, tmp_path), "changes").to_dicts()
    scaled = next(r for r in rows if r["kind"] == "scale")
    assert (scaled["time"], scaled["service"]) == (ALERT_AT - timedelta(hours=1), "cart")
    assert "set cart to 3 replicas: cpu resource utilization" in scaled["title"]
    config = [r for r in rows if r["kind"] == "config"]
    assert [(r["service"], r["title"], r["time"]) for r in config] == [
        (
            "checkout",
            "ConfigMap shop/checkout-config written by helm",
            ALERT_AT - timedelta(hours=9),
        )
    ]


def test_the_autoscalers_last_scaling_is_told_when_its_event_is_gone(
    cluster: LocalServer, tmp_path: Path
) -> None:
    cluster.on("/apis/events.k8s.io/v1/namespaces/shop/events", listed([]))
    late = stand_in.of_namespace()["horizontalpodautoscalers"]
    late[0]["status"]["lastScaleTime"] = "2026-03-02T11:40:00Z"
    cluster.on("/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers", listed(late))
    scaled = table(collect(cluster, tmp_path), "changes").filter(kind="scale").row(0, named=True)
    assert scaled["title"] == "Autoscaler cart scaled cart: 2 replicas wanted, 2 there"
    cluster.on("/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers", listed([]))
    assert table(collect(cluster, tmp_path), "changes").filter(kind="scale").height == 0


def test_events_are_log_lines_with_level_and_reason_of_pods_that_are_gone_too(
    cluster: LocalServer, tmp_path: Path
) -> None:
    logs = table(collect(cluster, tmp_path), "logs")
    lines = [
        (r["service"], r["level"], json.loads(r["attributes"]), r)
        for r in logs.iter_rows(named=True)
    ]
    back_off = [one for one in lines if one[2].get("reason") == "BackOff"]
    assert {one[2]["object"] for one in back_off} == {
        f"Pod/{NEW_SET}-x2x4b",
        f"Pod/{NEW_SET}-gnnn2",
    }
    assert {(one[0], one[1]) for one in back_off} == {("checkout", "WARNING")}
    assert len(back_off) == 24 + 9
    assert min(one[3]["time"] for one in back_off) == ONSET + timedelta(minutes=1)
    assert "search" not in repr(lines)


def test_an_event_that_always_came_comes_in_the_baseline_too(
    cluster: LocalServer, tmp_path: Path
) -> None:
    logs = table(collect(cluster, tmp_path), "logs")
    probes = logs.filter(pl.col("message").str.contains("Readiness probe failed"))
    before = probes.filter(pl.col("time") < ALERT_AT - timedelta(minutes=30)).height
    assert before / (probes.height - before) == pytest.approx(4, rel=0.15)


def test_how_containers_ended_and_what_they_wait_for_is_told(
    cluster: LocalServer, tmp_path: Path
) -> None:
    found = collect(cluster, tmp_path)
    killed = table(found, "logs").filter(pl.col("message").str.contains("OOMKilled"))
    assert sorted(killed["time"]) == [ONSET + timedelta(minutes=3), ONSET + timedelta(minutes=6)]
    assert (
        killed["message"][0]
        == "container app terminated: OOMKilled, exit code 137, restarts so far: 4"
    )
    assert json.loads(killed["attributes"][0])["node"] == "node-1"
    states = table(found, "monitors").filter(service="checkout")
    said = " ".join(states["state"])
    assert "waiting: CrashLoopBackOff; last run ended: OOMKilled, exit code 137; 4 restarts" in said
    assert "not Ready: ContainersNotReady" in said
    assert set(states.filter(pl.col("monitor").str.starts_with("node node-1"))["state"]) == {"ok"}


def test_a_bad_condition_of_a_node_is_told_to_the_services_on_it(
    cluster: LocalServer, tmp_path: Path
) -> None:
    cluster.on(
        "/api/v1/nodes",
        listed([node("node-1", Ready="Unknown"), node("node-2", DiskPressure="True")]),
    )
    found = collect(cluster, tmp_path)
    logs = [
        (r["service"], json.loads(r["attributes"]))
        for r in table(found, "logs").iter_rows(named=True)
    ]
    told = {
        (service, said["node"], said["reason"])
        for service, said in logs
        if said["source"] == "kubernetes node"
    }
    assert told == {
        ("checkout", "node-1", "NodeNotReady"),
        ("cart", "node-2", "NodeHasDiskPressure"),
    }
    bad = (
        table(found, "monitors").filter(pl.col("monitor") == "node node-1 Ready").row(0, named=True)
    )
    assert (bad["state"], bad["since"]) == (
        "Ready=Unknown: KubeletStatus: kubelet says Ready",
        ONSET,
    )


@pytest.mark.parametrize(
    ("reason", "note", "signature"),
    [
        ("BackOff", "Back-off restarting failed container app in pod a", "crash_loop"),
        ("Failed", 'Failed to pull image "a:1": not found', "image_pull_failed"),
        (
            "FailedScheduling",
            "0/5 nodes are available: 5 Insufficient nvidia.com/gpu.",
            "pod_unschedulable",
        ),
        ("Evicted", "The node was low on resource: memory.", "memory_pressure"),
        ("Unhealthy", "Liveness probe failed: timeout", "probe_failed"),
        ("NodeNotReady", "Node node-1 status is now: NodeNotReady", "node_not_ready"),
        ("OOMKilling", "Memory cgroup out of memory: Killed process 7", "container_out_of_memory"),
        ("FailedMount", "MountVolume.SetUp failed for volume", "volume_mount_failed"),
    ],
)
def test_reasons_and_notes_show_known_failures(reason: str, note: str, signature: str) -> None:
    given = {
        "metadata": {"name": "e"},
        "reason": reason,
        "note": note,
        "eventTime": ALERT_AT.isoformat(),
    }
    event = msgspec.convert(given, KubernetesEvent)
    ((_, _, text, _, _, attributes),) = log_rows(event, ("a",), Window(start=ONSET, end=ALERT_AT))
    found = match(f"{json.loads(attributes)['reason']} {text}")
    assert found is not None
    assert found.name == signature


def test_an_event_repeated_without_end_is_thinned_out() -> None:
    given = {
        "metadata": {"name": "e"},
        "reason": "X",
        "firstTimestamp": "2020-01-01T00:00:00Z",
        "count": 2_000_000_000,
    }
    event = msgspec.convert(given | {"lastTimestamp": ALERT_AT.isoformat()}, KubernetesEvent)
    rows = log_rows(event, ("a",), Window(start=ONSET, end=ALERT_AT))
    assert MOST_REPEATS / 2 < len(rows) <= MOST_REPEATS
    assert all(ONSET <= row[0] <= ALERT_AT for row in rows)


def test_a_rollback_counts_from_when_the_old_revision_was_scaled_up(
    cluster: LocalServer, tmp_path: Path
) -> None:
    old, new = stand_in.checkout("1.4.0", "512Mi", "a"), stand_in.checkout("1.5.0", "256Mi", "b")
    again = {"deployment.kubernetes.io/revision-history": "42"}
    sets = [
        replica_set("checkout", "6b8c7d5f9", 43, new, ROLLED_OUT),
        replica_set("checkout", "7d9f8c6b5d", 44, old, ALERT_AT - timedelta(days=3), **again),
    ]
    cluster.on(f"{SHOP}/replicasets", listed(sets))
    row = table(collect(cluster, tmp_path), "changes").filter(id=NEW_SET).row(0, named=True)
    assert row["time"] == ROLLED_OUT
    assert row["title"].startswith("Rollback of checkout: image checkout:1.5.0 -> checkout:1.4.0")


def test_older_servers_are_asked_for_core_events(cluster: LocalServer, tmp_path: Path) -> None:
    for space, events in (("shop", stand_in.events()), ("default", stand_in.node_events())):
        cluster.on(f"/apis/events.k8s.io/v1/namespaces/{space}/events", refused(404, "not found"))
        cluster.on(f"/api/v1/namespaces/{space}/events", listed([as_core(e) for e in events]))
    found = collect(cluster, tmp_path)
    assert found.missing == ()
    assert table(found, "logs").filter(pl.col("attributes").str.contains('"BackOff"')).height == 33


def test_lists_are_read_page_by_page_and_what_is_cut_is_said(
    cluster: LocalServer, tmp_path: Path
) -> None:
    many = [pod(f"cart-{n}", "cart", "node-2", []) for n in range(40)]
    cluster.on("/api/v1/namespaces/shop/pods", listed(many))
    found = collect(cluster, tmp_path)
    cuts = [i.cut for i in found.items if "pods" in i.query and "cart" in i.query]
    assert set(cuts) == {f"{40 - 3 * MOST_PAGES} more left out"}


def test_a_list_that_changes_while_it_is_read_is_kept_as_far_as_it_came(
    cluster: LocalServer, tmp_path: Path
) -> None:
    first = Reply({"items": [pod("cart-0", "cart", "node-2", [])], "metadata": {"continue": "x"}})
    cluster.on(
        "/api/v1/namespaces/shop/pods",
        lambda a: refused(410, "too old") if "continue" in a.query else first,
    )
    found = collect(cluster, tmp_path)
    assert {i.cut for i in found.items if "/pods" in i.query} == {
        "the list changed while it was read"
    }


def test_the_alerts_own_pod_is_looked_at_without_a_catalogue(
    cluster: LocalServer, tmp_path: Path
) -> None:
    labels = {"namespace": "shop", "pod": f"{NEW_SET}-x2x4b", "container": "app"}
    alert = Alert(
        source="alertmanager",
        title="KubePodCrashLooping",
        started_at=ALERT_AT,
        service="shop-web",
        labels=labels,
    )
    found = collect(cluster, tmp_path, alert, services={})
    assert set(table(found, "logs")["service"]) == {"shop-web"}
    assert table(found, "logs").filter(pl.col("message").str.contains("OOMKilled")).height == 1


def test_services_without_an_entry_are_looked_for_by_name(
    cluster: LocalServer, tmp_path: Path
) -> None:
    found = collect(cluster, tmp_path, services={}, kubernetes={"namespaces": ["shop"]})
    assert NEW_SET in table(found, "changes")["id"].to_list()
    assert set(table(found, "monitors")["service"]) == {"checkout", "cart"}


def test_a_training_jobs_pods_are_found_by_pattern_and_by_label(
    cluster: LocalServer, tmp_path: Path
) -> None:
    pods = [
        pod(
            f"llm-worker-{n}",
            "llm",
            "gpu-1",
            [],
            ready=False,
            phase="Failed",
            reason="Evicted",
            message="low on memory",
        )
        for n in (0, 1)
    ]
    pods.append(pod("other-0", "other", "gpu-1", []))
    pods.append(pod("named-otherwise", "x", "gpu-2", []))
    pods[-1]["metadata"]["labels"]["training.kubeflow.org/job-name"] = "llm-1"
    cluster.on("/api/v1/namespaces/shop/pods", listed(pods))
    built = connector(
        cluster,
        services={},
        kubernetes={"namespaces": ["shop"]},
        jobs={"llm-1": {"pods": ["llm-worker-*"]}},
    )
    request = request_for(tmp_path, job="llm-1")
    training = request.scope.model_copy(update={"training": JobIdentity(name="llm-1")})
    found = asyncio.run(collect_from(built, type(request)(request.alert, training, tmp_path)))
    item = next(i for i in found.items if "/pods" in i.query)
    assert item.details == {"pods Failed": "2", "pods Running": "1"}
    logs = table(found, "logs")
    assert {json.loads(a)["reason"] for a in logs["attributes"]} == {"Evicted"}
    assert (logs.height, set(logs["service"]), set(logs["time"])) == (2, {"llm-1"}, {ONSET})
    assert [a for a in cluster.asked if a.query.get("fieldSelector") == ["metadata.name=gpu-2"]]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (refused(403, "pods is forbidden"), "not permitted with these credentials (HTTP 403)"),
        (refused(404, "nothing"), "not found (HTTP 404)"),
        (refused(500, "oops"), "refused (HTTP 500)"),
        (Reply(b'{"items": [{"metadata"'), "unexpected response"),
        (Reply({"items": [{"metadata": 5}]}), "unexpected response"),
        (Reply({"kind": "PodList"}), "unexpected response"),
        (refused(429, "slow down"), "the rate limit is used up (HTTP 429)"),
    ],
)
def test_a_list_that_fails_is_a_gap_and_the_rest_stands(
    cluster: LocalServer, tmp_path: Path, broken: Reply, said: str
) -> None:
    cluster.on("/api/v1/namespaces/shop/pods", broken)
    found = collect(cluster, tmp_path)
    assert said in reasons(found)
    assert "internal error" not in reasons(found)
    assert NEW_SET in table(found, "changes")["id"].to_list()


def test_a_refused_token_says_so_for_everything_and_is_not_quoted(
    cluster: LocalServer, tmp_path: Path
) -> None:
    cluster.refusal = refused(401, f"Unauthorized {TOKEN}")
    found = collect(cluster, tmp_path)
    assert {m.kind for m in found.missing} == set(KubernetesConnector.kinds)
    assert "authentication failed" in reasons(found)
    assert TOKEN not in repr(found)


def test_a_workload_that_is_not_there_is_named(cluster: LocalServer, tmp_path: Path) -> None:
    cluster.on(f"{SHOP}/deployments", listed([]))
    assert "there is no shop/deployment/checkout" in reasons(collect(cluster, tmp_path))


def test_without_a_workload_in_scope_the_gap_names_the_setting(
    cluster: LocalServer, tmp_path: Path
) -> None:
    found = collect(cluster, tmp_path, services={})
    assert "services.NAME.kubernetes" in reasons(found)
    assert cluster.asked == []


def test_the_pods_own_token_is_read_anew_each_time(cluster: LocalServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    own = {"token": None, "token_file": token}
    built = connector(cluster, kubernetes=own)
    request = request_for(tmp_path, services=("cart",))
    for said in ("first", "second"):
        token.write_text(said + "\n")
        asyncio.run(collect_from(built, request))
        assert cluster.asked[-1].headers["Authorization"] == f"Bearer {said}"
    token.unlink()
    assert "kubernetes.token_file" in reasons(asyncio.run(collect_from(built, request)))


def test_a_ca_file_that_is_none_stops_with_its_key(cluster: LocalServer, tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("nonsense")
    found = collect(cluster, tmp_path, kubernetes={"ca_file": tmp_path / "ca"})
    assert "kubernetes.ca_file" in reasons(found)


def test_the_clusters_own_authority_is_trusted_and_no_other(tmp_path: Path) -> None:
    key, certificate = authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    secured = LocalServer()
    secured._http.socket = context.wrap_socket(secured._http.socket, server_side=True)
    stand_in.serve(secured)
    with secured:
        url = secured.url.replace("http://", "https://")
        trusted = collect(secured, tmp_path, kubernetes={"url": url, "ca_file": certificate})
        assert trusted.missing == ()
        asked = len(secured.asked)
        strange = collect(secured, tmp_path, kubernetes={"url": url})
        assert strange.items == ()
        assert "no answer" in reasons(strange) or "circuit open" in reasons(strange)
        assert len(secured.asked) == asked


def authority(folder: Path) -> tuple[Path, Path]:
    """Files of a key and of the certificate for 127.0.0.1 that it signed itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.now(UTC)
    names = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "key.pem").write_bytes(key.private_bytes(pem, *plain))
    (folder / "ca.pem").write_bytes(made.public_bytes(pem))
    return folder / "key.pem", folder / "ca.pem"


def test_settings_of_a_workload_are_checked() -> None:
    assert (
        parsed("a", "shop/app.kubernetes.io/name=a,tier in (web)").selector
        == "app.kubernetes.io/name=a,tier in (web)"
    )
    assert (parsed("a", "shop/sts/db").kind, parsed("a", "shop/deployments/web").kind) == (
        "StatefulSet",
        "Deployment",
    )
    for wrong in (
        "shop",
        "shop/secret/x",
        "shop/deployment/",
        "Shop/deployment/a",
        "shop/deployment/a/../b",
    ):
        with pytest.raises(SettingsError, match=r"services\.a\.kubernetes"):
            parsed("a", wrong)


def test_what_made_a_pod_is_told_by_its_name_and_no_more() -> None:
    assert makers_of(f"{NEW_SET}-x2x4b") == [NEW_SET, "checkout"]
    assert makers_of("cart-0") == ["cart"]
    assert makers_of("checkout-redis-0") == ["checkout-redis"]


def test_hostile_templates_are_read_without_failing() -> None:
    assert facts(
        {"spec": {"containers": [{"env": "x", "resources": {"limits": [1]}}, 5], "volumes": None}}
    )
    assert facts({"spec": [], "metadata": {"annotations": ["x"]}}) == {}
    long = {"spec": {"containers": [{"name": "n" * 9_000, "image": "\u202e" * 9_000}]}}
    assert all(
        len(key) < 200 and len(shown) <= 160 and shown.isprintable()
        for key, (shown, _) in facts(long).items()
    )


def test_a_template_nested_without_end_is_read_as_far_as_it_goes() -> None:
    deep: Any = "x"
    for _ in range(200_000):
        deep = [deep]
    assert facts({"spec": {"containers": [{"name": "a", "args": deep}], "nodeSelector": deep}})[
        "nodeSelector"
    ]
    while isinstance(deep, list):
        deep = deep.pop()


def test_the_page_names_the_real_limits() -> None:
    text = (MANIFEST.parents[2] / "docs" / "connectors" / "kubernetes.md").read_text()
    assert f"{LIMITS.requests_per_s:g} requests a second and {LIMITS.concurrency} at once" in text
    assert f"{LIMITS.max_bytes // 1024**2} MiB and {LIMITS.deadline_s:g} seconds" in text
    said = (
        f"{MOST_WORKLOADS} workloads in {MOST_NAMESPACES} namespaces, "
        f"{MOST_PODS} pods of each, {MOST_NODES} nodes"
    )
    assert said in text


HOSTILE = st.recursive(
    st.none() | st.integers() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), inner)
    ),
)


@given(HOSTILE)
@examples(max_examples=80, deadline=None)
def test_any_template_is_read_without_failing(given_template: Any) -> None:
    facts({"spec": given_template, "metadata": given_template})
    config_maps_of({"spec": given_template})


def granted() -> set[tuple[str, str, str]]:
    """Group, resource and verb of the manifest's rules."""
    lists = r"apiGroups: \[([^\]]*)\]\n\s+resources: \[([^\]]*)\]\n\s+verbs: \[([^\]]*)\]"
    text = MANIFEST.read_text()
    rules = re.findall(lists, text)
    assert len(rules) == text.count("verbs:") == text.count("resources:")
    parts = [[[w.strip(' "') for w in part.split(",")] for part in rule] for rule in rules]
    return {
        (g, r, v)
        for groups, resources, verbs in parts
        for g in groups
        for r in resources
        for v in verbs
    }


def used(server: LocalServer) -> set[tuple[str, str, str]]:
    """Group, resource and verb that each request needs (kubernetes.io, "Determine the request
    verb")."""
    out = set()
    for asked in server.asked:
        assert asked.method == "GET"
        assert "watch" not in asked.query
        if re.fullmatch(r"/api/v1/namespaces/[a-z-]+/pods/[a-z0-9-]+/log", asked.path):
            out.add(("", "pods/log", "get"))
            continue
        if asked.path == "/apis":
            # Discovery: every authenticated user may.
            continue
        match = re.fullmatch(
            r"/(?:api/v1|apis/([a-z0-9.-]+)/v\d\w*)(?:/namespaces/[a-z-]+)?/([a-z]+)", asked.path
        )
        assert match is not None, asked.path
        out.add((match[1] or "", match[2], "list"))
    return out


def test_every_call_is_covered_by_the_manifest_and_no_more_is_granted(
    cluster: LocalServer, tmp_path: Path
) -> None:
    collect(cluster, tmp_path)
    asyncio.run(connector(cluster).check())
    cluster.on("/apis/events.k8s.io/v1/namespaces/shop/events", refused(404, "older"))
    collect(cluster, tmp_path)
    groups = []
    for kind in JOB_KINDS:
        versions = [{"version": version} for one in JOB_KINDS for version in one.versions]
        groups.append({"name": kind.group, "versions": versions})
    cluster.on("/apis", Reply({"groups": groups}))
    made = workload("Deployment", "checkout", stand_in.checkout("1.5.0", "256Mi", "a"))
    for of_flux in ("helm.toolkit.fluxcd.io", "kustomize.toolkit.fluxcd.io"):
        for what in ("name", "namespace"):
            made["metadata"].setdefault("labels", {})[f"{of_flux}/{what}"] = "shop"
    cluster.on("/apis/apps/v1/namespaces/shop/deployments", listed([made]))
    collect(cluster, tmp_path)
    of_job = connector(cluster, kubernetes={"namespaces": ["shop"]})
    asyncio.run(collect_from(of_job, request_for(tmp_path, job="llm-1")))
    assert used(cluster) == granted()


def test_check_says_part_by_part_what_cannot_be_read_and_what_to_change(
    cluster: LocalServer,
) -> None:
    fine = asyncio.run(connector(cluster).check())
    assert fine.ok
    assert "pods in shop, container logs in shop" in fine.line
    assert "cannot be listed" not in fine.line
    assert "cannot be read" not in fine.line
    cluster.on("/api/v1/nodes", refused(403, "nodes is forbidden"))
    cluster.on(f"{SHOP}/replicasets", refused(403, "replicasets is forbidden"))
    cluster.on("/apis/policy/v1/namespaces/shop/poddisruptionbudgets", refused(404, "not found"))
    cluster.on(stand_in.LOG.format(f"{NEW_SET}-x2x4b"), refused(403, "pods/log is forbidden"))
    some = asyncio.run(connector(cluster).check())
    assert not some.ok
    for said in (
        "nodes cannot be listed (not permitted with these credentials): add `list` on `nodes` "
        "to a ClusterRole of its, or name it in kubernetes.without",
        "replicasets in shop cannot be listed (not permitted with these credentials): add `list` "
        "on `replicasets` of apps to its role in shop",
        "container logs in shop cannot be read (not permitted with these credentials): add `get` "
        "on `pods/log` to its role in shop, or set kubernetes.logs = false",
        "disruption budgets in shop cannot be listed (not found): this server does not know "
        "apis/policy/v1",
        "infra/kubernetes/read-only-rbac.yaml has all of these rights",
    ):
        assert said in some.line
    given = {"logs": False, "without": ["nodes", "replicasets", "poddisruptionbudgets"]}
    assert asyncio.run(connector(cluster, kubernetes=given).check()).ok
    cluster.refusal = refused(401, "Unauthorized")
    assert not asyncio.run(connector(cluster).check()).ok


def test_no_line_of_a_log_is_read_to_check_that_it_may_be(cluster: LocalServer) -> None:
    asyncio.run(connector(cluster).check())
    (asked,) = [one for one in cluster.asked if one.path.endswith("/log")]
    assert asked.query == {"tailLines": ["0"]}


def test_what_the_role_leaves_out_on_purpose_is_neither_asked_for_nor_missed(
    cluster: LocalServer, tmp_path: Path
) -> None:
    cluster.on("/api/v1/namespaces/shop/configmaps", refused(403, "configmaps is forbidden"))
    assert "configmaps" in reasons(collect(cluster, tmp_path))
    asked = len([path for path in cluster.paths() if path.endswith(("configmaps", "/events"))])
    left_out = {"without": ["configmaps", "events"]}
    assert collect(cluster, tmp_path, kubernetes=left_out).missing == ()
    again = [path for path in cluster.paths() if path.endswith(("configmaps", "/events"))]
    assert len(again) == asked


def test_the_rollout_that_halved_the_memory_is_named(cluster: LocalServer, tmp_path: Path) -> None:
    alert = Alert(source="x", title="Checkout fails", started_at=ALERT_AT, service="checkout")
    found = diagnosed(cluster, tmp_path, alert)
    assert found.causes[0].subject == "checkout"
    assert found.causes[0].change == NEW_SET
    assert "exceeding its memory limit" in " ".join(f.sentence for f in found.findings)


def diagnosed(server: LocalServer, folder: Path, alert: Alert) -> Diagnosis:
    """What is collected for the alert, as a case, and what is made of it."""
    request = request_for(folder, services=("checkout", "cart"), alert=alert)
    found = asyncio.run(collect_from(connector(server), request))
    case = folder / "case"
    case.mkdir()
    write_json(case / "alert.json", alert)
    write_json(case / "scope.json", request.scope)
    for name in SCHEMAS:
        if name in found.tables and found.tables[name].height:
            write_table(case, name, found.tables[name])
    items = [
        Evidence(
            id=f"e{n}",
            kind=i.kind,
            source="kubernetes",
            query=i.query,
            window=i.window,
            rows=i.rows,
        )
        for n, i in enumerate(found.items, start=1)
    ]
    gaps = [
        Gap(id=f"g{n}", kind=m.kind, source="kubernetes", query=m.query, reason=m.reason)
        for n, m in enumerate(found.missing, start=1)
    ]
    write_evidence(case, items, gaps)
    return diagnose(read_case(case))


def followed(server: LocalServer, folder: Path, lead: Lead) -> Collected:
    """What the cluster says of a lead in the second round."""
    alert = Alert(source="test", title=f"Lead: {lead.subject}", started_at=ALERT_AT)
    request = replace(request_for(folder, alert=alert, services=()), round=2, leads=(lead,))
    return asyncio.run(collect_from(connector(server), request))


def test_a_node_is_followed_to_the_pods_that_run_there(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    there = pod("report-1-x2x4b", "report", "node-9", [])
    there["metadata"]["namespace"] = "batch"
    server.on("/api/v1/pods", listed([there]))
    server.on("/api/v1/nodes", listed([node("node-9", DiskPressure="True")]))
    lead = Lead(kind="node", subject="node-9", because="the alert is about it")
    states = followed(server, tmp_path, lead).tables["monitors"]
    asked = next(one for one in server.asked if one.path == "/api/v1/pods")
    assert asked.query["fieldSelector"] == ["spec.nodeName=node-9"]
    bad = states.filter(pl.col("monitor") == "node node-9 DiskPressure")
    assert bad["state"][0].startswith("DiskPressure=True")
    assert bad["service"].to_list() == ["report-1"]


def test_a_volume_is_followed_to_the_pods_that_mount_it(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    mounting, other = pod("orders-0", "orders", "node-1", []), pod("cart-0", "cart", "node-1", [])
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-orders-0"}}
    mounting["spec"]["volumes"] = [claim]
    server.on("/api/v1/namespaces/shop/pods", listed([mounting, other]))
    lead = Lead(kind="volume", subject="shop/data-orders-0", because="the alert is about it")
    found = followed(server, tmp_path, lead)
    assert "orders" in set(found.tables["monitors"]["service"])
    assert "cart" not in set(found.tables["monitors"]["service"])
    # Its own facts say that the claim is not there.
    assert set(found.tables["states"]["service"]) <= {"orders"}
