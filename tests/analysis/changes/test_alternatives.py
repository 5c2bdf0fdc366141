"""What explains an incident that no change did, at the borders of what counts."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from faultline.analysis.changes.alternatives import no_change_reasons
from faultline.analysis.changes.symptoms import failing_lines, failing_operations
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import START, logs, series, spans, write_case

EXPIRED = "tls: x509: certificate has expired"


@pytest.mark.parametrize(
    ("telling", "others", "is_told"),
    [(2, 0, False), (3, 0, True), (7, 13, False), (9, 11, True)],
)
def test_an_expiry_is_told_from_three_lines_and_two_fifths_of_those_that_fail(
    tmp_path: Path, telling: int, others: int, *, is_told: bool
) -> None:
    rows = logs("api", EXPIRED, range(1, telling + 1), level="error")
    rows += logs("api", "order was not saved", range(1, others + 1), level="error")
    found = no_change_reasons(write_case(tmp_path, logs=rows))
    assert bool(found) is is_told


UNKNOWN_HOST = "getaddrinfo ENOTFOUND db.example.net"
CHARGE = "POST https://api.stripe.com/v1/charges failed: 503"
ONE_ORDER = "cannot parse order_id=4711 : invalid JSON"
OTHER_ORDER = "cannot parse order_id=4712 : invalid JSON"


@pytest.mark.parametrize(
    ("lines", "strength", "sentence"),
    [
        (
            [("cart", UNKNOWN_HOST, 3), ("web", UNKNOWN_HOST, 3)],
            0.95,
            "6 lines of cart, web say that host names do not resolve",
        ),
        (
            [("cart", UNKNOWN_HOST, 3), ("cart", "getaddrinfo ENOTFOUND mq.example.net", 3)],
            0.7,
            "6 lines of cart say that host names do not resolve",
        ),
        ([("cart", UNKNOWN_HOST, 3)], None, ""),
        (
            [("kubelet", "Node node-7 status is now: NodeNotReady", 1), ("cart", "odd", 1)],
            0.65,
            "1 line report trouble with node-7",
        ),
        (
            [
                ("kubelet", "Node node-7 status is now: NodeNotReady", 2),
                ("kubelet", "Node node-8 has DiskPressure", 2),
            ],
            0.8,
            "4 lines report trouble with node-7, node-8",
        ),
        (
            [("cart", CHARGE, 3)],
            0.75,
            "3 lines of cart get no good answer from api.stripe.com, which is none of the known "
            "services",
        ),
        (
            [("cart", CHARGE, 3), ("web", CHARGE, 3)],
            0.9,
            "6 lines of cart, web get no good answer from api.stripe.com",
        ),
        (
            [("cart", f"{CHARGE}, quota exceeded", 4)],
            0.6,
            "4 lines of cart are refused for their number by api.stripe.com",
        ),
        ([("cart", CHARGE, 2)], None, ""),
        ([("cart", CHARGE, 4), ("cart", "order was not saved", 7)], None, ""),
        ([("stripe", CHARGE, 4)], None, ""),
        ([("web", "failed: server is unavailable (get pods.metrics.k8s.io)", 4)], None, ""),
        (
            [("web", "pull from registry.k8s.io failed: 503", 4)],
            0.75,
            "4 lines of web get no good answer from registry.k8s.io",
        ),
        ([("api", CHARGE, 3)], 0.75, "3 lines of api get no good answer from api.stripe.com"),
        ([("api", "GET http://api.shop.internal.io/ failed: 503", 4)], None, ""),
        ([("cart", "GET http://api.stripe.com/v1 done", 4)], None, ""),
        ([("cart", "GET http://stock.internal.io/ failed: 503", 4)], None, ""),
        (
            [("cart", "Stripe API returned 503", 4)],
            0.75,
            "4 lines of cart get no good answer from the API of Stripe",
        ),
        ([("stripe", "Stripe API returned 503", 4)], None, ""),
        (
            [("cart", "payment processor returned 503", 4)],
            0.75,
            "4 lines of cart get no good answer from a provider outside",
        ),
        (
            [("cart", ONE_ORDER, 8), ("cart", OTHER_ORDER, 2)],
            0.9,
            "10 lines of cart reject input, always order_id 4711",
        ),
        ([("cart", ONE_ORDER, 7), ("cart", OTHER_ORDER, 3)], None, ""),
        (
            [("cart", "malformed row, tenant=acme", 4)],
            0.7,
            "4 lines of cart reject input, always tenant acme",
        ),
        ([("cart", "malformed row", 4)], None, ""),
    ],
)
def test_lines_tell_of_what_no_change_did(
    tmp_path: Path, lines: list[tuple[str, str, int]], strength: float | None, sentence: str
) -> None:
    rows = []
    for service, message, count in lines:
        rows += logs(service, message, range(1, count + 1), level="error")
    reasons = no_change_reasons(write_case(tmp_path, logs=rows))
    assert [reason.strength for reason in reasons] == ([] if strength is None else [strength])
    assert all(reason.sentence.startswith(sentence) for reason in reasons)


@pytest.mark.parametrize(("before", "is_told"), [(7, True), (9, False)])
def test_a_line_that_came_a_third_as_often_before_is_no_symptom(
    tmp_path: Path, before: int, *, is_told: bool
) -> None:
    rows = logs("api", EXPIRED, range(1, 13), level="error")
    rows += logs("api", EXPIRED, [-5 * n - 1 for n in range(before)], level="error")
    assert bool(failing_lines(write_case(tmp_path, logs=rows))) is is_told


def test_an_operation_that_fails_now_and_did_not_before_is_a_symptom(tmp_path: Path) -> None:
    rows = spans(-20, 4, 10, 5, tag="before") + spans(2, 3, 10, 5, tag="now", status="ERROR")
    symptoms = failing_operations(write_case(tmp_path, spans=rows))
    assert [(line.service, line.text, line.n) for line in symptoms] == [
        ("api", "list {id} failed", 3),
        ("web", "GET / failed", 3),
    ]
    assert {line.first - START for line in symptoms} == {timedelta(minutes=2)}
    before = spans(-20, 4, 10, 5, tag="before", status="ERROR")
    assert failing_operations(write_case(tmp_path / "usual", spans=rows + before)) == []


def demand(folder: Path, times: float, onset: float = 0) -> list[Finding]:
    rows = series("web", "requests_per_second", 50, 50 * times, noise=0.002, onset=onset)
    rows += series("web", "latency_ms", 60, 260)
    found = no_change_reasons(write_case(folder, metrics=rows))
    return [finding for finding in found if finding.kind == "demand"]


@pytest.mark.parametrize(("times", "is_surge"), [(1.7, False), (1.9, True)])
def test_nearly_twice_the_requests_are_a_surge(
    tmp_path: Path, times: float, *, is_surge: bool
) -> None:
    assert bool(demand(tmp_path, times)) is is_surge


def test_from_three_times_the_requests_on_a_surge_explains_all(tmp_path: Path) -> None:
    strengths = []
    for times in (2.6, 3.2, 5):
        (found,) = demand(tmp_path / str(times), times)
        strengths.append(found.strength)
    assert strengths[0] < strengths[1] == strengths[2]


@pytest.mark.parametrize(("onset", "is_surge"), [(1, True), (2, False)])
def test_requests_that_rise_after_the_strain_did_not_bring_it(
    tmp_path: Path, onset: float, *, is_surge: bool
) -> None:
    assert bool(demand(tmp_path, 3, onset)) is is_surge
