"""Which alerts belong together, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.admission import Policy
from faultline.bot.policy.relation import Relation, keys_of, relate, sought_keys
from faultline.bot.settings import Settings
from faultline.connectors.shared.settings.shared_settings import ServiceSettings

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
CATALOGUE = Settings(
    services={
        "frontend": ServiceSettings(depends_on=("checkout",)),
        "checkout": ServiceSettings(
            aliases=("checkout-api",), depends_on=("payments", "cart", "postgres")
        ),
        "payments": ServiceSettings(depends_on=("postgres",)),
        "cart": ServiceSettings(depends_on=("redis",)),
        "search": ServiceSettings(),
        "trainer": ServiceSettings(training_job="llm-7b"),
    }
)
POLICY = Policy.of(CATALOGUE)
WINDOW = timedelta(minutes=5)


def alert(
    service: str | None = None,
    title: str = "p99 above 800 ms",
    *,
    minutes: float = 0,
    labels: Mapping[str, str] | None = None,
    source: str = "alertmanager",
) -> Alert:
    started = NOW + timedelta(minutes=minutes)
    return Alert(
        source=source, title=title, service=service, started_at=started, labels=labels or {}
    )


def related(one: Alert, other: Alert) -> Relation | None:
    a, b = POLICY.traits(one), POLICY.traits(other)
    there, back = (relate(x, y, POLICY.topology, WINDOW) for x, y in ((a, b), (b, a)))
    assert there == back, "the relation is symmetric"
    if there is not None:
        found = set(sought_keys(a, POLICY.topology)) & set(keys_of(b, POLICY.topology))
        assert found, "the index finds what is related"
    return there


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (
            alert("checkout"),
            alert("checkout-api", "errors", minutes=2),
            "both are about checkout, 2 min apart",
        ),
        (
            alert("checkout"),
            alert("payments", "errors", minutes=-2),
            "checkout calls payments, 2 min apart",
        ),
        (alert("payments"), alert("CHECKOUT", "x"), "checkout calls payments, at the same time"),
        (
            alert(title="loss is NaN", labels={"job_name": "llm-7b"}),
            alert(title="GPU fell off", labels={"training_job": "llm-7b"}, minutes=0.5),
            "both are about the training job llm-7b, 30 s apart",
        ),
        (
            alert(title="node not ready", labels={"node": "node-a"}),
            alert("search", "search is slow", labels={"host": "node-a:9100"}, minutes=1),
            "both are on node-a, 60 s apart",
        ),
        (
            alert("payments", "payments: error rate is high"),
            alert("checkout", "checkout: error rate is high", minutes=4),
            "checkout calls payments, 4 min apart",
        ),
        (
            alert("billing", "Pod is crash looping (billing-7f9c8-x2)", labels={"cluster": "eu-1"}),
            alert(
                "search",
                "Pod is crash looping (search-55d4d-qq)",
                labels={"cluster": "eu-1"},
                minutes=1,
            ),
            None,
        ),
        (
            alert("billing", "KubePodCrashLooping", labels={"cluster": "eu-1"}),
            alert("search", "KubePodCrashLooping", labels={"cluster": "eu-1"}, minutes=1),
            None,
        ),
        (
            alert("billing", "Error budget burns too fast", labels={"cluster": "eu-1"}),
            alert("search", "Error budget burns too fast", labels={"cluster": "eu-1"}, minutes=1),
            "the same words in eu-1, 60 s apart",
        ),
        (
            alert("billing", "Error budget burns too fast", labels={"namespace": "shop"}),
            alert("search", "Error budget burns too fast", labels={"namespace": "shop"}, minutes=1),
            "the same words in shop, 60 s apart",
        ),
        (
            alert("billing", "Error budget burns too fast", labels={"job": "shop/billing"}),
            alert(
                "search",
                "Error budget burns too fast",
                labels={"destination_workload_namespace": "shop"},
            ),
            "the same words in shop, at the same time",
        ),
    ],
)
def test_alerts_with_a_fact_in_common_belong_together(
    one: Alert, other: Alert, why: str | None
) -> None:
    found = related(one, other)
    assert (found.why if found else None) == why


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (alert("checkout"), alert("search")),
        (alert("frontend"), alert("payments")),
        (alert("cart"), alert("payments")),
        (alert("checkout"), alert("checkout", minutes=5.1)),
        (
            alert("checkout", labels={"env": "prod"}),
            alert("checkout", labels={"environment": "staging"}),
        ),
        (
            alert("checkout", labels={"cluster": "eu-1"}),
            alert("payments", labels={"cluster": "us-1"}),
        ),
        (
            alert("search", labels={"instance": "ksm:8080"}),
            alert("cart", "x", labels={"instance": "ksm:8080"}),
        ),
        (
            alert("search", "slow", labels={"node": "n1"}),
            alert("cart", "errors", labels={"node": "n1"}),
        ),
        (
            alert("billing", "Error budget burns too fast", labels={"namespace": "shop"}),
            alert("search", "p95 latency is above 2 s", labels={"namespace": "shop"}),
        ),
        (
            alert("x", "Budget burns", labels={"env": "prod"}),
            alert("y", "Budget burns", labels={"env": "prod"}),
        ),
        (alert(title="disk full"), alert(title="disk full")),
        (alert(""), alert("  ")),
    ],
)
def test_alerts_without_one_do_not(one: Alert, other: Alert) -> None:
    assert related(one, other) is None


def in_namespace(service: str, namespace: str) -> Alert:
    return alert(service, labels={"namespace": namespace})


@pytest.mark.parametrize(
    ("one", "other", "belong_together"),
    [
        (in_namespace("payments", "shop"), in_namespace("payments", "shop"), True),
        (in_namespace("payments", "shop"), in_namespace("payments", "shop-2"), False),
        (in_namespace("payments", "shop"), alert("payments"), True),
        (in_namespace("checkout", "shop"), in_namespace("payments", "billing"), True),
        (in_namespace("checkout", "shop-prod"), in_namespace("payments", "shop-staging"), False),
        (in_namespace("checkout", "shop"), in_namespace("payments", "staging"), False),
        (in_namespace("checkout", "prod"), in_namespace("payments", "billing"), True),
    ],
)
def test_namesakes_in_two_namespaces_and_environments_of_one_cluster_stay_apart(
    one: Alert, other: Alert, belong_together: bool
) -> None:
    assert (related(one, other) is not None) == belong_together


def test_a_place_that_only_the_rule_names_counts() -> None:
    def ruled(env: str) -> Alert:
        query = AlertQuery(language="promql", text=f'sum by (job) (errors{{env="{env}"}}) > 1')
        return alert("payments").model_copy(update={"query": query})

    assert related(ruled("prod"), ruled("prod")) is not None
    assert related(ruled("prod"), ruled("staging")) is None


def test_what_an_answer_blames_ties_alerts_whose_calls_are_not_known() -> None:
    def reason(blamed: str | None, other: str, other_blames: str | None = None) -> str | None:
        answered = replace(POLICY.traits(alert("search")), blamed=blamed)
        later = replace(POLICY.traits(alert(other)), blamed=other_blames)
        found = relate(answered, later, POLICY.topology, WINDOW)
        assert found == relate(later, answered, POLICY.topology, WINDOW)
        if found is not None:
            assert set(keys_of(answered, POLICY.topology)) & set(
                sought_keys(later, POLICY.topology)
            )
        return found.why.partition(",")[0] if found else None

    assert reason("cart", "cart") == "an answer names cart as the cause of both"
    assert reason("cart", "billing", "cart") == "an answer names cart as the cause of both"
    assert reason("payments", "checkout") == "checkout calls payments"
    assert reason(None, "cart") is None
    assert reason("payments", "cart") is None


def test_an_answer_without_a_reason_belongs_to_the_one_that_blames_what_fails_more() -> None:
    errors = alert("search", "errors", labels={"namespace": "shop"})
    answered = replace(POLICY.traits(errors), blamed="search")
    latency = POLICY.traits(in_namespace("billing", "shop"))
    reasonless = replace(latency, blamed="billing", suspects=frozenset({"search"}))
    tie = relate(answered, reasonless, POLICY.topology, WINDOW)
    assert tie is not None
    why = "search fails more requests in shop, and nothing else explains billing, at the same time"
    assert tie.why == why
    assert tie == relate(reasonless, answered, POLICY.topology, WINDOW)
    keys = keys_of(answered, POLICY.topology)
    assert set(keys) & set(sought_keys(reasonless, POLICY.topology))
    elsewhere = replace(reasonless, namespace="shop-2")
    assert relate(answered, elsewhere, POLICY.topology, WINDOW) is None
    assert (
        relate(answered, replace(reasonless, suspects=frozenset({"cart"})), POLICY.topology, WINDOW)
        is None
    )


def test_callers_of_one_service_that_read_alike_belong_together_within_half_the_window() -> None:
    catalogue = Settings(
        services={n: ServiceSettings(depends_on=("postgres",)) for n in ("orders", "billing")}
    )
    policy = Policy.of(catalogue)

    def why(title: str, minutes: float) -> str | None:
        pair = (alert("orders", "orders cannot connect"), alert("billing", title, minutes=minutes))
        one, other = (policy.traits(a) for a in pair)
        found = relate(one, other, policy.topology, WINDOW)
        return found.why if found else None

    assert why("billing cannot connect", 2) == "both call postgres and read alike, 2 min apart"
    assert why("billing cannot connect", 3) is None
    assert why("billing invoices are late", 0) is None


names = st.sampled_from(
    ["frontend", "checkout-api", "payments", "cart", "search", "", "\x00", "a" * 5000]
)
hostile = st.builds(
    alert,
    names,
    st.one_of(st.text(max_size=60), st.sampled_from(["errors above 5 %", "loss is NaN now"])),
    minutes=st.floats(min_value=-1e6, max_value=1e6),
    labels=st.dictionaries(
        st.sampled_from(["cluster", "env", "node", "job_name", "region"]), st.text(max_size=20)
    ),
)


@given(hostile, hostile)
def test_whatever_they_say_the_relation_is_symmetric_and_found_by_its_keys(
    one: Alert, other: Alert
) -> None:
    found = related(one, other)
    assert found is None or (found.why.isprintable() and len(found.why) < 200)
