"""Real proxies before one backend that fails: nginx through its exporter, Envoy and Traefik by
their own metrics."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import polars as pl
import pytest

from faultline.connectors.shared.contract.base import Collected
from faultline.loopback.bot_process import free_port
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.real_servers import (
    Programs,
    Scraped,
    collected_lately,
    debian_program,
    facts_in,
    known_to,
    metrics_of,
    programs,
    refused_in,
    wheel_program,
)
from tests.own_certificates import OwnAuthority

WELL, BROKEN, HANGING = "/well", "/broken", "/hanging"
HANGS_S = 60.0
ROUND_S = 0.2
HELD = 2
"""Requests that hang: the second waits for the only connection."""


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that scrapes three proxies under load, of which every second
    request fails."""
    folder = tmp_path_factory.mktemp("proxies")
    with LocalServer() as backend, programs(folder) as running:
        backend.on(WELL, Reply({}))
        backend.on(BROKEN, Reply({}, status=503))
        backend.on(HANGING, Reply({}, delay_s=HANGS_S))
        nginx, nginx_metrics = _start_nginx(running, backend.url)
        envoy, envoy_metrics = _start_envoy(running, backend.url)
        traefik, traefik_metrics = _start_traefik(running, backend.url)
        with _load(nginx, envoy, traefik), _held(envoy):
            yield running.scraping(
                Scraped("edge-exporter", nginx_metrics),
                Scraped("envoy", envoy_metrics, "/stats/prometheus"),
                Scraped("traefik", traefik_metrics),
                # Whatever is behind them has its own metrics.
                Scraped("carts", nginx_metrics),
                Scraped("orders", nginx_metrics),
            )


def _start_nginx(running: Programs, backend: str) -> tuple[int, int]:
    """Its port, and its exporter's."""
    port, metrics = free_port(), free_port()
    ways = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = "".join(f"{way}_temp_path {way};" for way in ways)
    (running.folder / "nginx.conf").write_text(
        "daemon off; master_process off; pid nginx.pid; events {} "
        f"http {{ access_log off; {folders} server {{ listen 127.0.0.1:{port}; "
        f"location /status {{ stub_status; }} location / {{ proxy_pass {backend}; }} }} }}"
    )
    nginx = debian_program("nginx", "usr/sbin/nginx")
    running.start(nginx, "-p", running.folder, "-e", "stderr", "-c", "nginx.conf")
    running.until_answers(f"http://127.0.0.1:{port}/status")
    running.start(
        debian_program("prometheus-nginx-exporter"),
        f"-web.listen-address=127.0.0.1:{metrics}",
        f"-nginx.scrape-uri=http://127.0.0.1:{port}/status",
    )
    return port, metrics


def _start_envoy(running: Programs, backend: str) -> tuple[int, int]:
    """Its port, and that of its metrics."""
    port, admin = free_port(), free_port()
    where = urlsplit(backend).port or 0
    alone = {"thresholds": [{"max_connections": 1}]}
    check = {
        "timeout": "1s",
        "interval": "1s",
        "unhealthy_threshold": 1,
        "healthy_threshold": 1,
        "http_health_check": {"path": WELL},
    }
    settings = {
        "admin": {"address": _envoy_address(admin)},
        "stats_flush_interval": "1s",
        "static_resources": {
            "listeners": [_envoy_listener(port)],
            "clusters": [
                _envoy_cluster("carts", where),
                {**_envoy_cluster("search", where), "circuit_breakers": alone},
                {**_envoy_cluster("mailer", free_port()), "health_checks": [check]},
            ],
        },
    }
    (running.folder / "envoy.json").write_text(json.dumps(settings))
    running.start(
        wheel_program("envoy"),
        "--config-path",
        "envoy.json",
        "--concurrency",
        "1",
        "--disable-hot-restart",
        "--log-level",
        "warn",
    )
    running.until_answers(f"http://127.0.0.1:{port}{WELL}")
    return port, admin


def _envoy_address(port: int) -> Mapping[str, object]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def _envoy_listener(port: int) -> Mapping[str, object]:
    routes = [
        {"match": {"prefix": HANGING}, "route": {"cluster": "search", "timeout": "0s"}},
        {"match": {"prefix": "/"}, "route": {"cluster": "carts"}},
    ]
    router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"
    manager = (
        "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3."
        "HttpConnectionManager"
    )
    config = {
        "@type": manager,
        "stat_prefix": "in",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [
            {"name": "envoy.filters.http.router", "typed_config": {"@type": router}},
        ],
    }
    name = "envoy.filters.network.http_connection_manager"
    filters = [{"name": name, "typed_config": config}]
    return {
        "name": "in",
        "address": _envoy_address(port),
        "filter_chains": [{"filters": filters}],
    }


def _envoy_cluster(name: str, port: int) -> Mapping[str, object]:
    endpoint = {"endpoint": {"address": _envoy_address(port)}}
    return {
        "name": name,
        "type": "STATIC",
        "connect_timeout": "1s",
        "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [endpoint]}]},
    }


def _start_traefik(running: Programs, backend: str) -> tuple[int, int]:
    """Its port, and that of its metrics."""
    port, metrics = free_port(), free_port()
    own = OwnAuthority(running.folder).issue("shop.example.com", days=3)
    gone = {
        "healthCheck": {"path": WELL, "interval": "1s", "timeout": "1s"},
        "servers": [{"url": f"http://127.0.0.1:{free_port()}"}],
    }
    settings = {
        "http": {
            "routers": {
                "all": {"rule": "PathPrefix(`/`)", "service": "orders", "entryPoints": ["web"]},
                "gone": {"rule": "Host(`gone`)", "service": "stock", "entryPoints": ["web"]},
            },
            "services": {
                "orders": {"loadBalancer": {"servers": [{"url": backend}]}},
                "stock": {"loadBalancer": gone},
            },
        },
        "tls": {"certificates": [{"certFile": str(own.cert), "keyFile": str(own.key)}]},
    }
    (running.folder / "routes.yml").write_text(json.dumps(settings))
    running.start(
        wheel_program("traefik"),
        "--global.checkNewVersion=false",
        "--global.sendAnonymousUsage=false",
        f"--entryPoints.web.address=127.0.0.1:{port}",
        f"--entryPoints.metrics.address=127.0.0.1:{metrics}",
        "--metrics.prometheus.entryPoint=metrics",
        "--providers.file.filename=routes.yml",
        "--providers.file.watch=false",
    )
    running.until_answers(f"http://127.0.0.1:{port}{WELL}")
    return port, metrics


@contextmanager
def _load(*ports: int) -> Iterator[None]:
    """A request that goes well and one that fails through each proxy, again and again."""
    ended = threading.Event()

    def send() -> None:
        with httpx.Client() as client:
            while not ended.wait(ROUND_S):
                for port in ports:
                    for path in (WELL, BROKEN):
                        client.get(f"http://127.0.0.1:{port}{path}")

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        yield
    finally:
        ended.set()
        sender.join(timeout=10)


@contextmanager
def _held(port: int) -> Iterator[None]:
    """Requests that hang in Envoy."""
    sent = []
    for _ in range(HELD):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(f"GET {HANGING} HTTP/1.1\r\nHost: shop\r\n\r\n".encode())
        sent.append(connection)
    try:
        yield
    finally:
        for connection in sent:
            connection.close()


@pytest.fixture(scope="module")
def collected(scraped: str, tmp_path_factory: pytest.TempPathFactory) -> Collected:
    """What the connector brings of them."""
    return collected_lately(scraped, tmp_path_factory.mktemp("files"))


def latest(collected: Collected, service: str, signal: str) -> float:
    """The last value of a signal."""
    rows = collected.tables["metrics"].filter(
        pl.col("service") == service, pl.col("signal") == signal
    )
    assert rows.height, f"no {signal} of {service}"
    return float(rows.sort("time")["value"].drop_nulls()[-1])


@pytest.mark.parametrize("exporter", ["nginx-prometheus-exporter", "Envoy", "Traefik"])
def test_every_metric_that_the_data_file_knows_is_there(exporter: str, scraped: str) -> None:
    assert metrics_of(exporter) - known_to(scraped) == set()


def test_no_query_was_refused(collected: Collected) -> None:
    assert refused_in(collected) == []


@pytest.mark.parametrize("service", ["carts", "orders"])
def test_requests_of_what_is_behind_a_proxy_are_named_after_it(
    service: str, collected: Collected
) -> None:
    assert latest(collected, service, "request_rate") > 0
    assert latest(collected, service, "error_ratio") == pytest.approx(0.5, abs=0.2)
    assert latest(collected, service, "latency_p99") > 0


def test_members_that_do_not_answer_and_requests_that_wait_are_seen(collected: Collected) -> None:
    assert latest(collected, "mailer", "healthy_members_ratio") == 0
    assert latest(collected, "carts", "healthy_members_ratio") == 1
    assert latest(collected, "search", "pending_requests") == HELD - 1
    assert latest(collected, "stock", "availability") == 0
    assert latest(collected, "edge", "active_connections") >= 1


def test_each_proxy_calls_whom_it_leads_to(collected: Collected) -> None:
    calls = collected.tables["topology"].select("caller", "callee")
    assert set(calls.iter_rows()) == {("envoy", "carts"), ("traefik", "orders")}


def test_a_certificate_that_expires_soon_is_named(collected: Collected) -> None:
    [fact] = [one for one in facts_in(collected) if one[0] == "Certificate"]
    assert fact[1:3] == ("shop.example.com", "certificate_expires_soon")
