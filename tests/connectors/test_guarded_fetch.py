"""Addresses that others wrote: what the guard fetches, and everything that it does not.

The servers are real ones on loopback, which `private_networks` opens; names are resolved by the
tests.
"""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.errors import BudgetExceeded, ConnectorError, FaultlineError, SettingsError
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.shared.transport.guarded_fetch import (
    AllowedHost,
    FetchGuard,
    read_target,
    why_not,
)
from tests.connectors.local_http import LocalServer, Reply

LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"),)


@pytest.fixture
def server() -> Iterator[LocalServer]:
    with LocalServer() as server:
        yield server


class Names:
    """A resolver: each question takes the next answer, the last one is repeated."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.answers = {name.replace("_", "."): list(given) for name, given in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        given = self.answers.get(host)
        if given is None:
            raise OSError("no such name")
        return given.pop(0) if len(given) > 1 else given[0]


def guard(
    server: LocalServer,
    *hosts: str,
    names: Names | None = None,
    networks: Sequence[str] = ("127.0.0.0/8",),
) -> FetchGuard:
    port = server.url.rsplit(":", 1)[1]
    allowed = tuple(
        AllowedHost.read(f"http://{host}:{port}", "traces.hosts")
        for host in hosts or ("traces.example",)
    )
    opened = tuple(ipaddress.ip_network(network) for network in networks)
    return FetchGuard("traces", allowed, opened, names or Names(traces_example=[["127.0.0.1"]]))


def address(server: LocalServer, path: str = "/t.json", host: str = "traces.example") -> str:
    return f"http://{host}:{server.url.rsplit(':', 1)[1]}{path}"


def fetched(guard: FetchGuard, url: str, within_s: float = 20) -> bytes:
    async def run() -> bytes:
        deadline = Deadline.after(within_s)
        async with guard.open(url, deadline) as opened:
            return b"".join([block async for block in opened.blocks(deadline)])

    return asyncio.run(run())


def refusal(guard: FetchGuard, url: str) -> str:
    with pytest.raises(ConnectorError) as raised:
        fetched(guard, url)
    return str(raised.value)


def test_an_allowed_host_is_asked_at_the_checked_address_under_its_own_name(
    server: LocalServer,
) -> None:
    server.on("/t.json", Reply(b"trace"))
    assert fetched(guard(server), address(server, "/t.json?X-Amz-Signature=abc")) == b"trace"
    (asked,) = server.asked
    assert asked.headers["Host"] == f"traces.example:{server.url.rsplit(':', 1)[1]}"
    assert asked.query == {"X-Amz-Signature": ["abc"]}
    assert not {"Cookie", "Authorization"} & set(asked.headers)


def test_nothing_is_asked_of_a_host_that_is_not_allowed_and_its_name_is_not_even_resolved(
    server: LocalServer,
) -> None:
    names = Names(evil_example=[["127.0.0.1"]])
    assert "not among the allowed hosts" in refusal(
        guard(server, names=names), address(server, host="evil.example")
    )
    assert (server.asked, names.asked) == ([], [])


@pytest.mark.parametrize(
    "answers",
    [
        [["10.0.0.1"]],
        [["192.168.1.1"]],
        [["172.16.0.1"]],
        [["169.254.169.254"]],
        [["::1"]],
        [["::ffff:127.0.0.1"]],
        [["::ffff:169.254.169.254"]],
        [["64:ff9b::7f00:1"]],
        [["64:ff9b::a9fe:a9fe"]],
        [["2002:7f00:1::"]],
        [["fd00:ec2::254"]],
        [["fe80::1%eth0"]],
        [["0.0.0.0"]],
        [["100.64.0.1"]],
        [["100.100.100.200"]],
        [["168.63.129.16"]],
        [["198.18.0.1"]],
        [["224.0.0.1"]],
        [["::"]],
        [["::7f00:1"]],
        [["93.184.216.34", "10.0.0.1"]],
        [[]],
        [["not an address"]],
    ],
)
def test_a_name_with_an_address_inside_is_refused(
    server: LocalServer, answers: list[list[str]]
) -> None:
    names = Names(traces_example=answers)
    said = refusal(guard(server, names=names, networks=()), address(server))
    assert "traces.example" in said
    assert server.asked == []


@pytest.mark.parametrize(
    "inside", ["169.254.169.254", "fd00:ec2::254", "168.63.129.16", "100.100.100.200", "fe80::1"]
)
def test_no_setting_opens_the_metadata_services(inside: str) -> None:
    everything = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))
    assert why_not(ipaddress.ip_address(inside), everything) is not None


@pytest.mark.parametrize(
    "outside",
    ["93.184.216.34", "8.8.8.8", "2606:2800:220:1::1", "::ffff:8.8.8.8", "64:ff9b::808:808"],
)
def test_public_addresses_are_open(outside: str) -> None:
    assert why_not(ipaddress.ip_address(outside), ()) is None


@given(st.ip_addresses())
def test_an_open_address_is_a_public_one_whatever_it_is_wrapped_in(
    given_address: ipaddress.IPv4Address,
) -> None:
    if given_address.version == 4 and why_not(given_address, ()) is not None:
        for wrapped in (
            f"::ffff:{given_address}",
            str(ipaddress.ip_address((0x64FF9B << 96) | int(given_address))),
        ):
            assert why_not(ipaddress.ip_address(wrapped), ()) is not None
    if why_not(given_address, ()) is None:
        assert given_address.is_global


def test_a_name_that_changes_between_check_and_connection_gains_nothing(
    server: LocalServer,
) -> None:
    """The name is resolved once; what was checked is what is connected to."""
    server.on("/t.json", Reply(b"inside"))
    names = Names(traces_example=[["192.0.2.1"], ["127.0.0.1"]])
    assert "private" in refusal(guard(server, names=names, networks=()), address(server))
    names = Names(traces_example=[["127.0.0.1"], ["169.254.169.254"]])
    assert fetched(guard(server, names=names), address(server)) == b"inside"
    assert names.asked == ["traces.example"]


def test_redirects_are_followed_under_the_same_checks(server: LocalServer) -> None:
    server.on("/t.json", Reply(status=302, headers={"Location": "/other.json"}))
    server.on("/other.json", Reply(b"there"))
    assert fetched(guard(server), address(server)) == b"there"


@pytest.mark.parametrize(
    ("location", "said"),
    [
        ("http://169.254.169.254/latest/meta-data/", "not among the allowed hosts"),
        ("https://evil.example/", "not among the allowed hosts"),
        ("//evil.example/t.json", "not a plain https address"),
        ("file:///etc/passwd", "not a plain https address"),
        ("gopher://traces.example/", "not a plain https address"),
        ("http://traces.example@evil.example/", "not a plain https address"),
        ("", "not a plain https address"),
    ],
)
def test_a_redirect_leads_nowhere_else(server: LocalServer, location: str, said: str) -> None:
    server.on("/t.json", Reply(status=302, headers={"Location": location}))
    assert said in refusal(guard(server), address(server))
    assert server.paths() == ["/t.json"]


def test_a_redirect_to_a_name_that_now_lies_inside_is_refused(server: LocalServer) -> None:
    names = Names(traces_example=[["127.0.0.1"], ["10.0.0.1"]])
    server.on("/t.json", Reply(status=302, headers={"Location": "/secret"}))
    assert "10.0.0.1" in refusal(guard(server, names=names), address(server))
    assert server.paths() == ["/t.json"]


def test_redirects_come_to_an_end(server: LocalServer) -> None:
    server.on("/t.json", Reply(status=302, headers={"Location": "/t.json"}))
    assert "redirects" in refusal(guard(server), address(server))
    assert len(server.asked) == 4


@pytest.mark.parametrize(
    "url",
    [
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://0x7f.1/",
        "http://127.1/",
        "http://[::ffff:127.0.0.1]/",
        "http://127.0.0.1/",
        "http://localhost/",
        "http://traces.example.evil.example/",
        "http://traces.example./",
        "http://traces.example:70000/",
        "http://traces.example:0/",
        "http://user:pass@traces.example/",
        "http://traces.example\\@evil.example/",
        "http://traces.example%2f@evil.example/",
        "http://tr\u0430ces.example/",
        "http://traces.example /",
        "http://traces.example\n/",
        "http:///t.json",
        "//traces.example/",
        "ftp://traces.example/",
        "http://" + "a" * 5_000,
        "",
    ],
)
def test_tricks_with_addresses_lead_nowhere(server: LocalServer, url: str) -> None:
    names = Names(traces_example=[["127.0.0.1"]])
    assert refusal(guard(server, names=names), url)
    assert (server.asked, names.asked) == ([], [])


@given(st.text(max_size=80))
def test_no_text_makes_the_reader_fail_or_gives_what_it_does_not_check(text: str) -> None:
    for url in (text, "https://" + text, "https://traces.example" + text):
        try:
            target = read_target(url)
        except ValueError:
            continue
        assert read_target(target.url) == target
        assert target.scheme in ("http", "https")


def test_an_entry_with_a_star_opens_what_is_below_and_not_the_name_itself() -> None:
    entry = AllowedHost.read("*.traces.example", "traces.hosts")
    opened = [
        entry.allows(read_target(f"https://{h}/"))
        for h in ("a.traces.example", "a.b.traces.example")
    ]
    closed = [
        entry.allows(read_target(f"https://{h}/"))
        for h in ("traces.example", "xtraces.example", "a.traces.example:444")
    ]
    assert (opened, closed) == ([True, True], [False, False, False])
    assert not entry.allows(read_target("http://a.traces.example:443/"))


@pytest.mark.parametrize(
    "entry",
    ["", "*", "https://", "traces.example/path", "a b", "*.", "user@host", "host:0", "ftp://h"],
)
def test_an_entry_that_is_no_host_stops_the_start(entry: str) -> None:
    with pytest.raises(SettingsError):
        AllowedHost.read(entry, "traces.hosts")


def test_an_answer_that_was_packed_unasked_is_refused(server: LocalServer) -> None:
    server.on("/t.json", Reply(b"\x1f\x8b", headers={"Content-Encoding": "gzip"}))
    assert "encoding" in refusal(guard(server), address(server))


def test_an_answer_that_breaks_off_is_said_to(server: LocalServer) -> None:
    server.on("/t.json", Reply(b"half", claims=1000))
    assert "broke off" in refusal(guard(server), address(server))


def test_an_endless_answer_ends_with_the_deadline(server: LocalServer) -> None:
    server.on("/t.json", Reply(b"x" * 100_000, drip_s=0.2))
    with pytest.raises(BudgetExceeded):
        fetched(guard(server), address(server), within_s=0.6)


def test_the_signature_in_an_address_is_not_repeated(server: LocalServer) -> None:
    server.on("/t.json", Reply(status=403))
    said = refusal(guard(server), address(server, "/t.json?X-Amz-Signature=hush"))
    assert "hush" not in said
    assert "HTTP 403" in said


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for traces.example, signed by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "traces.example")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("traces.example")]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    pem = serialization.Encoding.PEM
    plain = serialization.NoEncryption()
    file.write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain) + made.public_bytes(pem)
    )
    return file


@pytest.fixture
def tls_port(authority: Path) -> Iterator[int]:
    """A server with that certificate."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"trace")

        def log_message(self, *args: object) -> None:
            """Quiet."""

    http = HTTPServer(("127.0.0.1", 0), Answering)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority)
    http.socket = context.wrap_socket(http.socket, server_side=True)
    thread = threading.Thread(
        target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    yield http.server_address[1]
    http.shutdown()
    http.server_close()


def test_the_certificate_must_be_the_hosts_though_an_address_is_connected_to(
    authority: Path, tls_port: int
) -> None:
    names = Names(traces_example=[["127.0.0.1"]], other_example=[["127.0.0.1"]])
    hosts = tuple(
        AllowedHost.read(f"{h}:{tls_port}", "traces.hosts")
        for h in ("traces.example", "other.example")
    )
    trusted = ssl.create_default_context(cafile=str(authority))
    guard = FetchGuard("traces", hosts, LOOPBACK, names, trusted)
    assert fetched(guard, f"https://traces.example:{tls_port}/t.json") == b"trace"
    assert "no answer" in refusal(guard, f"https://other.example:{tls_port}/t.json")


def test_every_failure_is_one_of_ours(server: LocalServer) -> None:
    nowhere = FetchGuard(
        "traces",
        (AllowedHost.read("http://traces.example:1", "k"),),
        LOOPBACK,
        Names(traces_example=[["127.0.0.1"]]),
    )
    with pytest.raises(FaultlineError):
        fetched(nowhere, "http://traces.example:1/")
