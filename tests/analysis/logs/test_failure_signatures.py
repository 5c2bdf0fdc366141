"""The table of known failures: its entries, their lines, lines that are nothing, and hostile
lines."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultline.analysis.errors import EvidenceError
from faultline.analysis.logs.failure_signatures import (
    FILE,
    LINE_LIMIT,
    SIGNATURES,
    Signature,
    read_signatures,
)
from faultline.analysis.logs.failure_signatures_page import GROUPS, page
from faultline.analysis.logs.signature_findings import TABLE, SignatureTable, match, match_all
from faultline.analysis.logs.xid_codes import FILE as XID_FILE
from faultline.analysis.logs.xid_codes import XIDS, read_xids, specific_signature
from tests.analysis.pattern_cost import ENDLESS, ways

ROOT = Path(__file__).resolve().parents[3]
LINES: dict[str, list[str]] = tomllib.loads(
    Path(__file__).with_name("failure_lines.toml").read_text()
)
SHOWN = [(name, line) for name, lines in LINES.items() for line in lines]
MAX_WAYS = 500
"""Ways a pattern can match from one place: with the limit of a line this bounds its work."""

HARMLESS = [
    "reset password ok",
    "password reset for user anna",
    "timeout=30 configured",
    "connect timeout set to 30s",
    "connection timeout configured: 5s",
    "0 errors",
    "0 errors, 0 warnings",
    "connected to db at 10.0.0.5:5432",
    "connection pool size 10, 3 in use",
    "pool created with 20 connections",
    "circuit breaker 'db' is closed",
    "circuit breaker changed state from HALF_OPEN to CLOSED",
    "certificate valid until 2027-01-01",
    "certificate renewed, expires in 90 days",
    "token refreshed, expires in 3600 s",
    "lookup table loaded",
    "lookup api.example on 10.0.0.10:53: 10.0.0.7",
    "deadlock detector started",
    "lock timeout is 5s",
    "replication lag 0.2 s",
    "replication slot created",
    "read-only mode off",
    "memory limit 512Mi, used 120Mi",
    "oom_score_adj set to -999",
    "Node gke-1 status is now: NodeHasNoDiskPressure",
    "Node gke-1 status is now: NodeReady",
    "3/3 nodes are available",
    'Successfully pulled image "web:v2" in 2.1s',
    "Liveness probe succeeded",
    "Started container web",
    "Scheduled: assigned default/web-1 to node-3",
    'GET /v1/items HTTP/1.1" 200 429',
    'GET /items/404 HTTP/1.1" 200 17',
    "status=200 duration=503ms",
    "order 429 stored",
    "took 137 ms",
    "exit code: 0",
    "process exited with code 0",
    "rate limit: 100 requests per second",
    "quota: 80 % used",
    "loss: 2.31 grad_norm: 1.2",
    "info: nano server started",
    "inference finished, loss information saved",
    "step 5 done",
    "saved checkpoint at step 100",
    "loading checkpoint shards: 100 %",
    "NVLink is up on all GPUs",
    "HW Thermal Slowdown : Not Active",
    "Remapping Failure Occurred : No",
    "ECC mode enabled",
    "Xid table loaded",
    "loading mlx5_0 driver",
    "mlx5_core 0000:17:00.0 ib0: Link up",
    "eth0: NIC Link is Up 10 Gbps",
    "NCCL INFO Channel 00 : 0 1 2 3",
    "NCCL version 2.21.5",
    "rendezvous at node0:29500 complete",
    "DataLoader worker started",
    "no panic, all is well",
    "goroutines: 12",
    "segment 7 written",
    "kafka consumer joined group, partitions assigned",
    "elected leader for term 7",
    "clock synchronised, offset 0.1 ms",
    "permission granted to anna",
    "EXT4-fs (sda1): mounted filesystem with ordered data mode",
    "disk usage 41 %",
    "max open files: 65536",
    "listening on :8080",
    "TLS handshake completed",
    "migrated table orders",
    "column total added to relation orders",
    "retry 1 of 3 succeeded",
    "spot price updated",
    "spotted 3 new users",
    "Evicted 120 entries from cache users in 3 ms",
    "INFO BlockManager: Evicted block rdd_3_1 from memory",
    "cache.evict reason=SIZE Evicted key=session:123",
    "Error rate exceeded threshold 5% for route /checkout",
    "WARN Connection pool is full, discarding connection: api.internal. Connection pool size: 10",
    '"State": {"Status": "running", "OOMKilled": false, "ExitCode": 0}',
    "dockerd --oom-kill-disable=false started",
    "Event Bus error handler registered",
    "Installed signal handlers for SIGTERM SIGINT SIGSEGV",
    "http: TLS handshake error from 10.0.0.5:5123: EOF",
    "loaded class software.amazon.awssdk.ThrottlingExceptionMapper",
    "grad_norm: inf loss scale reduced to 32768",
    "best loss: inf -> 2.31",
    "best_loss=inf",
    "min_loss: inf",
    "disk full check: ok",
    "[Hardware Error]: Corrected error, no action required.",
    "mce: [Hardware Error]: Machine check events logged",
    "Node is not ready for traffic yet, warming caches",
    "",
]


@pytest.mark.parametrize(("name", "line"), SHOWN)
def test_a_line_in_the_form_its_source_writes_it_shows_the_failure(name: str, line: str) -> None:
    found = match(line)
    assert found is not None
    assert found.name == name


def test_every_signature_has_a_line() -> None:
    assert set(LINES) == {s.name for s in SIGNATURES}
    assert all(LINES.values())


@pytest.mark.parametrize("line", HARMLESS)
def test_ordinary_lines_show_nothing(line: str) -> None:
    assert match(line) is None


def test_of_overlapping_failures_the_special_one_is_told() -> None:
    special = {
        "dial tcp: lookup db.internal on 10.0.0.10:53: read udp 1.1.1.1:4->10.0.0.10:53: i/o "
        "timeout": "dns_timeout",
        "x509: certificate has expired or is not yet valid: current time 2026-01-01 is before 2027": (  # noqa: E501
            "certificate_not_yet_valid"
        ),
        "FATAL: sorry, too many clients already: connection refused": "postgres_too_many_connections",  # noqa: E501
        "torch.OutOfMemoryError: CUDA out of memory": "cuda_out_of_memory",
        "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.": "xid",
        "RuntimeError: [tcp/pair.cc:553] Connection reset by peer": "peer_connection_lost",
        "Traceback (most recent call last): OSError: [Errno 28] No space left on device": "disk_full",  # noqa: E501
        "redis: connection pool timeout": "redis_limits",
        "The node was low on resource: inodes. pod Evicted": "inodes_exhausted",
        "rpc error: code = Unavailable desc = dial tcp 10.0.0.5:443: connect: connection refused": "connection_refused",  # noqa: E501
    }
    assert {line: found.name for line in special if (found := match(line))} == special


def test_every_pattern_takes_work_in_proportion_to_the_lines_length() -> None:
    assert {s.name: n for s in SIGNATURES if (n := ways(s.regex)) > MAX_WAYS} == {}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a{1,3}b", 1),
        ("[^b]{1,9}b", 1),
        (".{0,9}x", 10),
        ("a*", ENDLESS),
        ("(?:a{1,9}){1,9}", ENDLESS),
        ("a|bc", 2),
    ],
)
def test_the_bound_of_a_pattern_is_read_off_its_parse_tree(pattern: str, expected: int) -> None:
    assert ways(pattern) == expected


class CountedPattern:
    """Stands in for a compiled pattern and counts the characters it is given."""

    def __init__(self) -> None:
        self.seen = 0

    def search(self, line: str) -> None:
        self.seen += len(line)


def test_of_a_hostile_line_each_pattern_sees_only_the_beginning_once() -> None:
    patterns = [CountedPattern() for _ in SIGNATURES]
    counted = []
    for signature, pattern in zip(SIGNATURES, patterns, strict=True):
        fresh = replace(signature)
        fresh.__dict__["pattern"] = pattern
        counted.append(fresh)
    table = SignatureTable(counted)
    hostile = " ".join(table.words) * 20
    assert len(hostile) > 100_000
    assert table.match(hostile) is None
    assert table.match_all([hostile] * 3) == [None] * 3
    assert all(p.seen <= 4 * LINE_LIMIT for p in patterns)


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda s: s.name)
def test_a_hostile_line_of_100_kb_is_answered(signature: Signature) -> None:
    line = LINES[signature.name][0]
    for hostile in (
        signature.words[0] * (100_000 // len(signature.words[0])),
        line[:-3] * (100_000 // len(line)) + "x",
    ):
        assert match(hostile) is match_all([hostile])[0]
    assert match("x" * LINE_LIMIT + line) is None


PIECES = st.sampled_from(
    [
        *TABLE.words,
        *(line for _, line in SHOWN),
        " ",
        "\n",
        "\x00",
        "\ud800",
        "é",
        "\u0130",
        "\u212a",
        "\u202e",
    ]
)


@settings(deadline=None)
@given(st.lists(st.lists(PIECES | st.text(max_size=8), max_size=6).map("".join), max_size=8))
def test_one_line_and_many_lines_are_answered_alike(lines: list[str]) -> None:
    assert [s and s.name for s in match_all(lines)] == [s and s.name for s in map(match, lines)]


def test_every_alternative_of_a_pattern_that_is_a_plain_text_is_found_through_a_word() -> None:
    for signature in SIGNATURES:
        outside = re.sub(r"\(\?[^()]*(?:\([^()]*\)[^()]*)*\)", "(", signature.regex)
        plain = [p for p in outside.split("|") if re.fullmatch(r"[\w :,-]{4,}", p)]
        missed = [p for p in plain if not any(word in p.lower() for word in signature.words)]
        assert missed == [], signature.name


def test_texts_are_clauses_and_steps() -> None:
    assert all(not s.meaning[:1].isspace() and not s.meaning.endswith(".") for s in SIGNATURES)
    assert all(s.action.endswith(".") and s.action[:1].isupper() for s in SIGNATURES)
    assert all(x.meaning and x.action and not x.action.endswith(".") for x in XIDS.values())
    assert all((s.meaning + s.action + s.source).isprintable() for s in SIGNATURES)


GOOD = {
    "name": "'a_b'",
    "kind": "'code'",
    "accuses": "'rank'",
    "weight": "1",
    "words": "['a']",
    "pattern": "'a'",
    "meaning": "'m'",
    "action": "'a'",
    "source": "'s'",
}


def entry(**changed: str) -> str:
    """One entry as TOML."""
    return "[[signature]]\n" + "".join(
        f"{key} = {value}\n" for key, value in (GOOD | changed).items()
    )


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"words": "['Upper']"}, "words must"),
        ({"words": "[]"}, "words must"),
        ({"words": "['\u00e9']"}, "words must"),
        ({"weight": "2"}, "weight must"),
        ({"weight": "true"}, "weight must"),
        ({"kind": "'other'"}, "kind must"),
        ({"accuses": "'moon'"}, "accuses must"),
        ({"name": "'A b'"}, "name must"),
        ({"more": "1"}, "unknown key more"),
        ({"pattern": "1"}, "pattern must be a text"),
        ({"pattern": "'('"}, "pattern is no regular expression"),
        ({"meaning": "' '"}, "meaning must be a text"),
    ],
)
def test_a_broken_entry_is_named(tmp_path: Path, changed: dict[str, str], problem: str) -> None:
    (tmp_path / "bad.toml").write_text(entry() + entry(**{"name": "'c_d'"} | changed))
    with pytest.raises(EvidenceError, match=rf"bad\.toml, signature 2 .*{problem}"):
        read_signatures(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "must hold"),
        ("[[signature", "not readable TOML"),
        ("signature = 7", "must hold"),
        ("signature = [7]", "not a table"),
        (2 * entry(), "twice"),
    ],
)
def test_a_broken_file_is_one_error(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(EvidenceError, match=problem):
        read_signatures(tmp_path / "bad.toml")


def test_every_xid_of_the_catalogue_is_there() -> None:
    assert list(XIDS) == list(range(1, 173))
    assert {c for c in (13, 31, 43, 45, 154) if XIDS[c].is_hardware} == set()
    assert {c for c in (48, 62, 64, 74, 79, 95, 119, 140, 149) if not XIDS[c].is_hardware} == set()


def test_an_xid_line_is_told_by_its_number() -> None:
    line = "NVRM: Xid (PCI:0000:3b:00): 48, pid=7, name=python, DBE (double bit error) ECC Error"
    found = match(line)
    assert found is not None
    told = specific_signature(found, line)
    assert (told.name, told.accuses, told.symptom) == ("xid_48", "gpu", False)
    assert "double-bit ECC" in told.meaning
    assert "reset the GPU" in told.action
    unknown = specific_signature(found, line.replace("48,", "999,"))
    assert "999, which is not in the table" in unknown.meaning
    app = specific_signature(found, line.replace("48,", "31,"))
    assert (app.accuses, app.symptom) == ("rank", True)


@pytest.mark.parametrize(
    "text",
    ["", "[codes]\n1 = 2\n[actions]\n", "[actions]\n[codes]\nx = { name = 'a', meaning = 'b', now "
        "= 'c' }",
     "[actions]\n[codes]\n1 = { name = 'a', meaning = 'b', now = 'c', accuses = 'gpu' }",
     "[actions]\n[codes]\n1 = { name = 'a', meaning = 'b', accuses = 'moon' }"],
)  # fmt: skip
def test_a_broken_table_of_codes_is_one_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "codes.toml").write_text(text)
    with pytest.raises(EvidenceError, match=r"codes\.toml"):
        read_xids(tmp_path / "codes.toml")


def test_the_page_is_what_the_data_files_say() -> None:
    assert (ROOT / "docs" / "failure-signatures.md").read_text() == page()
    assert {s.kind for s in SIGNATURES} == set(GROUPS)


def test_the_data_files_are_part_of_the_package_that_is_installed() -> None:
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"][
        "targets"
    ]["wheel"]
    assert "faultline" in packages["packages"]
    assert not {"only-include", "include", "exclude"} & set(packages)
    assert all(file.is_relative_to(ROOT / "faultline") for file in (FILE, XID_FILE))
