"""What an answer says of the objects that findings name, and what to do about them."""

from __future__ import annotations

from typing import Any

import pytest

from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.phrasing.state_forms import is_down
from faultline.analysis.phrasing.statement import Tense
from faultline.analysis.phrasing.steps import step_about
from faultline.analysis.phrasing.training_forms import cost
from faultline.analysis.vocabulary import Finding

MISSING = 'configmap "web-settings" not found'
QUOTA = "requested: pods=1, used: pods=40, limited: pods=40"
POD = "Pod shop/web-7d9c"
IN_SENTENCE = f"{POD} cannot start: {MISSING}, for 2 days."
MORE_MEMORY = {"class": "memory", "direction": "up", "bad": True}
IMAGE = 'Back-off pulling image "registry/web:v2"'
CLASS = 'Pending: storageclass.storage.k8s.io "fast" not found'


NO_KEY = "couldn't find key PRICE_URL in ConfigMap shop/web-config"
NO_PATH = "Readiness probe failed: HTTP probe failed with statuscode: 404"
NOT_UP = 'Liveness probe failed: Get "http://10.0.0.1:80/live": connect: connection refused'
OTHER_ZONE = "0/2 nodes are available: 2 node(s) had volume node affinity conflict. preemption: 0/2"


def state(fact: str, kind: str, name: str, sentence: str, **details: Any) -> Finding:
    given = {"fact": fact, "objects": [name], "bad": True, **details}
    return Finding(
        id="F1", kind=kind, subject="web", strength=1.0, sentence=sentence, details=given
    )


def of_kind(kind: str, subject: str = "web", **given: Any) -> Finding:
    return Finding(id="F1", kind=kind, subject=subject, strength=0.9, sentence="?", **given)


@pytest.mark.parametrize(
    ("found", "short", "step"),
    [
        (
            state("reference_missing", "start_state", POD, "?", value=MISSING),
            "web's ConfigMap web-settings does not exist",
            "Restore ConfigMap web-settings in namespace shop, or correct its name in the pod "
            "template of web.",
        ),
        (
            # An earlier version kept what is missing in the sentence alone.
            state("reference_missing", "start_state", POD, IN_SENTENCE),
            "web's ConfigMap web-settings does not exist",
            "Restore ConfigMap web-settings in namespace shop, or correct its name in the pod "
            "template of web.",
        ),
        (
            state("image_unavailable", "start_state", POD, "?", value=IMAGE),
            "web cannot pull its image registry/web:v2",
            "Check that image registry/web:v2 exists, and that web may pull it.",
        ),
        (
            state("image_unavailable", "start_state", POD, "?", value="ErrImagePull"),
            "web cannot pull its image",
            None,
        ),
        (
            state("volume_unavailable", "volume_state", "PersistentVolumeClaim shop/data", "?",
                  value=CLASS),
            "web waits for a volume of storage class fast, which does not exist",
            "Create storage class fast, or name one that exists in PersistentVolumeClaim "
            "shop/data.",
        ),
        (
            state("quota_exceeded", "limit_state", "ResourceQuota shop/compute", "?", value=QUOTA),
            "web has used up its quota (pods, 40 of 40)",
            "Raise ResourceQuota shop/compute, or scale down what uses it up.",
        ),
        (
            state("port_not_served", "route_state", "Service shop/web", "?", value="8099",
                  expected="8080"),
            "web gets its traffic on port 8099, where nothing listens",
            "Set the targetPort of Service shop/web to a port that its containers serve (8080).",
        ),
        (
            state("traffic_blocked", "route_state", "NetworkPolicy shop/db-callers", "?",
                  value="web", expected="db"),
            "network policy db-callers blocks calls from web to db",
            "Allow calls from web to db in NetworkPolicy shop/db-callers again.",
        ),
        (
            state("crash_loop", "end_state", POD, "?", value="Error, exit code 1, 9 restarts"),
            "web keeps crashing (exit code 1)",
            "Read its last lines before the crash: kubectl logs --previous -n shop web-7d9c.",
        ),
        (
            state("reference_missing", "start_state", POD, "?", value=NO_KEY),
            "key PRICE_URL is missing in ConfigMap web-config",
            "Add key PRICE_URL to ConfigMap web-config in namespace shop, or take it out of the "
            "pod template of web.",
        ),
        (
            state("image_unavailable", "start_state", POD, "?", value=f"{IMAGE}: 401 Unauthorized"),
            "web cannot pull its image registry/web:v2: the registry refuses its credentials",
            "Renew the pull secret of web, or the rights of its nodes: the registry refuses them "
            "image registry/web:v2.",
        ),
        (
            state("image_unavailable", "start_state", POD, "?", value=f"{IMAGE}: not found"),
            "web cannot pull its image registry/web:v2: there is no such image",
            "Push image registry/web:v2, or set web to a tag that exists.",
        ),
        (
            state("readiness_failing", "probe_state", POD, "?", value=NO_PATH),
            "web fails its readiness probe (HTTP 404)",
            "Correct the path of the readiness probe of web, or serve it again: it gets HTTP 404 "
            "(kubectl describe pod -n shop web-7d9c).",
        ),
        (
            state("liveness_failing", "probe_state", POD, "?", value=NOT_UP),
            "web is restarted because its liveness probe fails (connection refused)",
            "Give web more time to start (a startup probe, failureThreshold) or to answer "
            "(timeoutSeconds): kubectl describe pod -n shop web-7d9c shows what its probe allows.",
        ),
        (
            state("placement_impossible", "placing_state", POD, "?", value=OTHER_ZONE),
            "no node may take instances of web (2 node(s) had volume node affinity conflict)",
            "Add a node in the zone of the volume of web-7d9c: a volume cannot be mounted in "
            "another zone (kubectl describe pod -n shop web-7d9c).",
        ),
        (
            state("unschedulable", "placing_state", POD, "?",
                  value="0/3 nodes are available: 3 Insufficient cpu. preemption: none."),
            "web has instances that fit on no node (3 Insufficient cpu)",
            "Add nodes for web, or lower what its pods request: no node has room (3 Insufficient "
            "cpu).",
        ),
        (
            state("volume_full", "volume_state", "PersistentVolumeClaim shop/data-web-0", "?",
                  value="100 % of its space in use"),
            "volume data-web-0 of web is full",
            "Free space on PersistentVolumeClaim shop/data-web-0, or make it larger.",
        ),
        (
            state("autoscaler_at_maximum", "scaling_state", "HorizontalPodAutoscaler shop/web", "?",
                  value="6"),
            "web has reached its maximum of 6 instances",
            "Raise maxReplicas of HorizontalPodAutoscaler shop/web (6), or shed requests to web.",
        ),
        (
            state("autoscaler_blind", "scaling_state", "HorizontalPodAutoscaler shop/web", "?",
                  value="FailedGetResourceMetric: the HPA was unable to compute it"),
            "web's autoscaler cannot read its metrics",
            "Scale web by hand, and mend what serves the metrics of its autoscaler: kubectl "
            "describe hpa -n shop web.",
        ),
        (
            state("limit_range_refused", "limit_state", "LimitRange shop/shop", "?",
                  value="maximum memory usage per Container is 2Gi, but limit is 4Gi"),
            "web refuses pods: maximum memory usage per Container is 2Gi, but limit is 4Gi",
            "Change what the refused pods ask for, or the limit range of namespace shop: maximum "
            "memory usage per Container is 2Gi, but limit is 4Gi.",
        ),
        (
            state("webhook_unanswered", "limit_state", "Webhook shop/pods.policy.example", "?",
                  value="policy.policy-system.svc: context deadline exceeded"),
            "admission webhook pods.policy.example does not answer (policy.policy-system.svc: "
            "context deadline exceeded)",
            "Bring back what serves webhook pods.policy.example (policy.policy-system.svc: context "
            "deadline exceeded), or set its failurePolicy to Ignore meanwhile.",
        ),
        (
            state("certificate_expired", "route_state", "Certificate shop/tls", "?",
                  value="it ended at 2026-11-21 03:00 UTC"),
            "Certificate tls is not valid: it ended at 2026-11-21 03:00 UTC",
            "Renew Certificate shop/tls, and read why its renewal failed: kubectl describe "
            "certificate,order,challenge -n shop.",
        ),
        (
            state("route_to_nothing", "route_state", "Ingress shop/public", "?", value="web:8080"),
            "Ingress public leads to web:8080, which does not exist",
            "Correct the backend of Ingress shop/public: web:8080 does not exist.",
        ),
        (
            state("job_failed", "end_state", "Job shop/migrate", "?", value="BackoffLimitExceeded"),
            "Job migrate failed",
            "Read why it failed: kubectl logs -n shop job/migrate.",
        ),
        (
            state("crash_loop", "end_state", POD, "?",
                  value='Error, exit code 1, 9 restarts; its last line says "no SMTP_URL"'),
            "web keeps crashing (“no SMTP_URL”)",
            "Read its last lines before the crash: kubectl logs --previous -n shop web-7d9c.",
        ),
        (
            state("start_blocked", "start_state", POD, "?",
                  value='its init container wait has not ended; its last line says "no db"'),
            "web's init container wait has not ended (“no db”)",
            "Give web what it waits for: kubectl describe pod -n shop web-7d9c shows the container "
            "that waits.",
        ),
        (
            # Braces come from users' objects and are no slots.
            state("port_not_served", "route_state", "Service {a}/{b}", "?", value="{x}",
                  expected="{y}"),
            "web gets its traffic on port {x}, where nothing listens",
            "Set the targetPort of Service {a}/{b} to a port that its containers serve ({y}).",
        ),
    ],
)  # fmt: skip
def test_what_a_state_names_is_said_in_cause_and_step(
    found: Finding, short: str, step: str | None
) -> None:
    assert str(statement(found).short()) == short
    assert step_about(found) == step


@pytest.mark.parametrize(
    ("subject", "short"),
    [
        ("ip-10-0-3", "node ip-10-0-3 is not ready"),
        ("node-04", "node-04 is not ready"),
        ("Node7", "Node7 is not ready"),
        ("nodes", "node nodes is not ready"),
    ],
)
def test_a_node_is_said_to_be_one_unless_its_name_says_so(subject: str, short: str) -> None:
    found = state("node_not_ready", "node_state", f"Node {subject}", "?")
    assert str(statement(found.model_copy(update={"subject": subject})).short()) == short


@pytest.mark.parametrize(
    ("value", "short", "step"),
    [
        ("MemoryPressure: KubeletHasInsufficientMemory: kubelet has insufficient memory",
         "node-2 is short of memory", "See which pods use the memory of node-2"),
        ("the condition DiskPressure", "node-2 is short of disk space",
         "Free disk space on node-2"),
        ("a clock that is 87.5 s off", "node-2 has a clock that is 87.5 s off",
         "Repair the time synchronisation of node-2"),
        ("99.8 % of its connection tracking table in use",
         "node-2 has 99.8 % of its connection tracking table in use",
         "Raise net.netfilter.nf_conntrack_max on node-2"),
    ],
)  # fmt: skip
def test_a_node_is_said_to_be_short_of_what_its_condition_names(
    value: str, short: str, step: str
) -> None:
    found = state("node_under_pressure", "node_state", "Node node-2", "?", value=value)
    found = found.model_copy(update={"subject": "node-2"})
    assert str(statement(found).short()) == short
    assert (step_about(found) or "").startswith(step)


@pytest.mark.parametrize(("running", "down"), [("0", True), ("1", False)])
def test_a_service_is_down_without_any_instance(running: str, *, down: bool) -> None:
    found = state("replicas_missing", "placing_state", "Deployment shop/web", "?", value=running,
                  expected="2")  # fmt: skip
    assert is_down(found) is down
    assert (str(statement(found).short()) == "web is down (0 of 2 instances)") is down


@pytest.mark.parametrize(
    ("found", "step"),
    [
        (
            of_kind("calls_into", "bank", details={"callers": ["pay"], "lines": 3, "bad": True}),
            "Call bank from a host of pay: does its name resolve, does it accept connections?",
        ),
        (
            of_kind("calls_into", "bank", details={"callers": ["pay"], "is_calm_itself": True}),
            "Check what lies between pay and bank, which sees nothing unusual itself: the "
            "connection pool and time-outs of pay, the network, and the queue in front of bank.",
        ),
        (
            of_kind("call_gap", "db", details={"caller": "web", "callee": "db", "bad": True}),
            "Check the network path from web to db: the node of db, packet loss, network "
            "policies, the service mesh.",
        ),
        (
            of_kind("place_contrast", "node-4", details={"place_kind": "node", "services": ["a"]}),
            "Check node-4 first (kubectl describe node node-4), and drain it if it is unhealthy.",
        ),
        (
            of_kind("place_contrast", "eu-1", details={"place_kind": "zone", "services": ["a"]}),
            "Check eu-1 first: the provider's status, its nodes, its network. Move a out of it "
            "only if it is at fault.",
        ),
        (
            of_kind("metric_shift", signal="memory_used_bytes", details=MORE_MEMORY),
            "Take a heap profile of web, compare its last rollouts, and add memory meanwhile.",
        ),
        (
            of_kind("log_surge", details={"example": "redelivered: poison message at 7",
                                          "is_error": True, "lines": 4, "class": "errors"}),
            "Move the message aside (dead-letter queue) so that web can go on, then find out who "
            "wrote it.",
        ),
        (
            of_kind("log_surge", details={"example": "boom", "is_error": True, "lines": 4}),
            "Look up where web logs “boom”, and what the code does there.",
        ),
        (of_kind("metric_shift", signal="latency_p99", details={"class": "latency"}), None),
    ],
)  # fmt: skip
def test_a_step_names_what_its_finding_names(found: Finding, step: str | None) -> None:
    assert step_about(found) == step


def test_a_caller_s_known_failure_is_said_of_the_service_that_its_line_names() -> None:
    details = {"signature": "certificate_expired", "meaning": "a certificate has expired",
               "lines": 7, "is_error": True, "names": "bank"}  # fmt: skip
    found = of_kind("failure_signature", "pay", details=details, numbers={"lines": 7.0})
    assert str(statement(found).short()) == "bank's certificate has expired"
    assert str(statement(found).clause()) == (
        "bank's certificate has expired (pay's log: 7 lines, none before)"
    )
    assert step_about(found) == (
        "Renew the certificate of bank, and find out why its renewal did not run."
    )


@pytest.mark.parametrize(
    ("accuses", "hosts", "place"),
    [("service", ("node-1",), "pay"), ("host", ("node-1",), "node-1"), ("host", (), "pay")],
)
def test_what_a_service_has_by_itself_is_mended_there_or_on_its_host(
    accuses: str, hosts: tuple[str, ...], place: str
) -> None:
    details = {"signature": "connection_tracking_full", "meaning": "a table is full", "lines": 7,
               "own": True, "fix": "Raise its limit.", "accuses": accuses,
               "hosts": hosts}  # fmt: skip
    found = of_kind("failure_signature", "pay", details=details, numbers={"lines": 7.0})
    assert str(statement(found).short()) == "pay logs that a table is full"
    assert step_about(found) == f"On {place}: raise its limit."


def test_a_run_that_ended_trains_nothing() -> None:
    ended = of_kind("run_ended", "llm", details={"state": "crashed", "run": "r1"})
    assert str(statement(ended).short()) == "llm's run r1 crashed"
    assert str(cost(ended)) == "llm trains nothing until it is started again"


GPU = {"rank": 13.0, "gpu": 5.0}
ONE = {"job": "llm", "ranks": [13], "hosts": ["node-1"], "gpus": ["node-1/5"]}


@pytest.mark.parametrize(
    ("found", "said", "lost"),
    [
        (
            of_kind("gpu_spinning", "llm", details={"job": "llm"},
                    numbers={"minutes": 24.1, "gpus": 32.0, "utilisation_percent": 100.0}),
            "llm hangs: all 32 GPUs have waited in a collective for 24 min (100 % utilisation, but "
            "no computing)",
            "llm makes no progress",
        ),
        (
            of_kind("gpu_idle_alone", "rank 13", details=ONE,
                    numbers={**GPU, "minutes": 24.0, "others": 31.0}),
            "rank 13 (GPU 5 of node-1) has done nothing for 24 min, and the other 31 GPUs of llm "
            "wait for it",
            "llm makes no progress",
        ),
        (
            of_kind("gpu_throttled", "rank 13", details={**ONE, "events": ["power cap"]},
                    numbers={**GPU, "incident": 1000.0, "reference": 2000.0}),
            "rank 13 (GPU 5 of node-1) runs at 1,000 MHz while the other busy GPUs run at 2,000 "
            "MHz (reasons: power cap)",
            "its clock is 50 % lower, and every rank of llm that waits for it is as slow",
        ),
        (
            of_kind("dataloader_stall", "llm", details={"job": "llm"},
                    numbers={"ranks": 4.0, "data_ms": 6.0, "step_ms": 10.0}),
            "all 4 ranks wait 6 ms of each 10 ms step (60 %) for the data loader",
            "without the wait llm could train up to 2.5x faster",
        ),
    ],
)  # fmt: skip
def test_a_training_fault_is_told_with_what_it_costs(found: Finding, said: str, lost: str) -> None:
    assert str(statement(found).short()) == said
    assert str(cost(found)) == lost


WAITS = {"wait_ms_per_step": 40.0, "step_ms": 120.0, "steps": 200.0, "steps_blamed": 150.0}
COPIES = {"phase_ms": 70.0, "others_phase_ms": 30.0}


def straggler(rank: int = 7, **given: Any) -> Finding:
    """A rank for which the others wait."""
    details = {"job": "llm", "rank": rank, **given.pop("details", {})}
    return of_kind("straggler", "rank 7", details=details, **given)


def test_a_straggler_is_said_by_the_part_of_its_step_that_takes_longer() -> None:
    details = {"phase": "copies", "operation": "Memcpy HtoD"}
    spoken = statement(straggler(details=details, numbers={**WAITS, **COPIES, "operation_ms": 50}))
    assert str(spoken.clause()) == (
        "rank 7's copying takes 70 ms per step (other ranks 30 ms), 50 ms of it in “Memcpy HtoD”, "
        "and the others wait 40 ms of each 120 ms step for it"
    )
    in_short = "rank 7's copying takes 70 ms per step (other ranks 30 ms)"
    assert str(spoken.short()) == in_short
    assert str(spoken.clause(Tense.OVER)).startswith("rank 7's copying took 70 ms per step")


def test_an_operation_whose_time_is_unknown_is_not_named() -> None:
    details = {"phase": "forward", "operation": "Memcpy HtoD"}
    spoken = statement(straggler(details=details, numbers={**WAITS, **COPIES}))
    assert str(spoken.clause()) == (
        "rank 7's forward takes 70 ms per step (other ranks 30 ms), and the others wait 40 ms of "
        "each 120 ms step for it"
    )


@pytest.mark.parametrize(
    ("blamed", "steps"),
    [(150.0, "150 of 200 steps"), (199.0, "199 of 200 steps"), (200.0, "every step")],
)
@pytest.mark.parametrize("details", [{}, {"phase": "copies"}])
def test_a_straggler_without_figures_of_a_phase_delays_steps(
    blamed: float, steps: str, details: dict[str, Any]
) -> None:
    finding = straggler(details=details, numbers={**WAITS, "steps_blamed": blamed})
    spoken = statement(finding)
    assert str(spoken.clause()) == (
        f"rank 7 delays {steps}: the others wait 40 ms of each 120 ms step for it"
    )
    assert str(spoken.short()) == f"rank 7 delays {steps}"
    assert str(spoken.clause(Tense.OVER)).startswith(f"rank 7 delayed {steps}: ")


def test_stragglers_that_are_several_or_not_measured_have_their_finding_s_sentence() -> None:
    several = straggler(rank=8, numbers={**WAITS, **COPIES})
    unmeasured = straggler(numbers={"steps": 200.0})
    for finding in (several, unmeasured):
        own = finding.model_copy(update={"sentence": "Ranks 7 and 8 delay every step."})
        assert str(statement(own).clause()) == "ranks 7 and 8 delay every step"


@pytest.mark.parametrize(
    ("second", "ends_with"),
    [("b" * 59, "b"), ("b" * 60, "b"), ("b" * 61, "a")],
)
def test_a_headline_of_a_job_takes_in_what_fits_on_a_phone(second: str, ends_with: str) -> None:
    sentence = f"{'a' * 50}; {second}; c."
    finding = of_kind("all_ranks_stuck", "llm", details={"job": "llm"})
    spoken = statement(finding.model_copy(update={"sentence": sentence}))
    assert str(spoken.clause()) == sentence.rstrip(".")
    assert str(spoken.short()).endswith(ends_with)
