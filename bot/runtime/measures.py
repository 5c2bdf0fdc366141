"""Every metric that a process counts itself; `store_figures` has those that come from the database.

Names follow https://prometheus.io/docs/practices/naming/. A label holds only words of our own code
or of the settings: no id, title, channel, host or anything else that a sender may choose; `word`
bounds even those.
"""

from __future__ import annotations

import threading

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

MOST_WORDS = 100
"""Different values of one label, whatever happens: more become `other`."""
OTHER = "other"
MOMENTS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
"""Senders wait 3 to 10 s for their answer."""
STEPS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 150.0, 600.0)
"""A collection ends by its deadline of some tens of seconds, a model's turn after 150 s."""
ANSWERS_S = (1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 7200.0)

REGISTRY = CollectorRegistry()
"""Our own and not the library's: nothing is in it but what is written here."""

WEBHOOKS = Counter(
    "faultline_webhooks",
    "Requests to the addresses that take alerts and clicks, by outcome.",
    ["source", "outcome"],
    registry=REGISTRY,
)
ACKNOWLEDGED = Histogram(
    "faultline_acknowledgement_seconds",
    "From a request's head to its answer.",
    ["source"],
    buckets=MOMENTS_S,
    registry=REGISTRY,
)
CONNECTIONS_CLOSED = Counter(
    "faultline_connections_closed",
    "Connections closed before they held a complete request, by reason.",
    ["reason"],
    registry=REGISTRY,
)
ALERTS = Counter(
    "faultline_alerts",
    "Alerts received, by outcome.",
    ["source", "outcome"],
    registry=REGISTRY,
)
STEPS = Histogram(
    "faultline_step_seconds",
    "Time of an investigation's steps; target is the connector or place.",
    ["step", "target"],
    buckets=STEPS_S,
    registry=REGISTRY,
)
STEP_FAILURES = Counter(
    "faultline_step_failures",
    "Steps that ended with an error, by its family.",
    ["step", "target", "error"],
    registry=REGISTRY,
)
STEPS_RUNNING = Gauge(
    "faultline_steps_running", "Steps that run just now.", ["step"], registry=REGISTRY
)
ENDED = Counter(
    "faultline_investigations_ended",
    "Investigations that this process ended, by verdict; `failed` are those without an answer.",
    ["verdict"],
    registry=REGISTRY,
)
POSTS = Counter(
    "faultline_posts",
    "Posts outside, by place, kind (first, preview, answer) and outcome (posted, again, refused).",
    ["place", "kind", "outcome"],
    registry=REGISTRY,
)
FIRST_MESSAGE = Histogram(
    "faultline_first_message_seconds",
    "From the accepted alert to its first message.",
    ["place"],
    buckets=ANSWERS_S,
    registry=REGISTRY,
)
ANSWERED = Histogram(
    "faultline_answer_seconds",
    "From the accepted alert to its answer in a place.",
    ["place"],
    buckets=ANSWERS_S,
    registry=REGISTRY,
)
VENDOR_REQUESTS = Counter(
    "faultline_vendor_requests",
    "Requests to vendors, by class of status; `none`: no answer came.",
    ["vendor", "status"],
    registry=REGISTRY,
)
VENDOR_TIME = Histogram(
    "faultline_vendor_request_seconds",
    "Time of requests to vendors, without the wait for a turn.",
    ["vendor"],
    buckets=STEPS_S,
    registry=REGISTRY,
)
VENDOR_WAITED = Counter(
    "faultline_vendor_wait_seconds",
    "Seconds that requests waited for our own rate limit.",
    ["vendor"],
    registry=REGISTRY,
)
VENDOR_SKIPPED = Counter(
    "faultline_vendor_not_asked",
    "Requests that were not made: the server is left alone for now (circuit open), or the time "
    "was up (deadline).",
    ["vendor", "reason"],
    registry=REGISTRY,
)
MODEL_ROUNDS = Counter(
    "faultline_model_rounds",
    "Answers of the model, by how they ended.",
    ["ending"],
    registry=REGISTRY,
)
MODEL_TIME = Histogram(
    "faultline_model_round_seconds",
    "Time of one answer of the model.",
    buckets=STEPS_S,
    registry=REGISTRY,
)
MODEL_TOKENS = Counter(
    "faultline_model_tokens",
    "Tokens sent (cached: of these, kept by the server) and answered; estimated where the server "
    "does not count.",
    ["kind"],
    registry=REGISTRY,
)
MODEL_COST = Counter(
    "faultline_model_cost_usd", "US dollars, where prices are in the settings.", registry=REGISTRY
)
TAKEOVERS = Counter(
    "faultline_takeovers",
    "Workflows of dead workers that were put back on the queue.",
    registry=REGISTRY,
)
# The class only: an error's message may quote what a sender wrote.
DATABASE_ERRORS = Counter(
    "faultline_database_errors",
    "Errors of the database, by the driver's class.",
    ["error"],
    registry=REGISTRY,
)
STORE_CALLS = Histogram(
    "faultline_store_call_seconds",
    "Calls of the database from an event loop, with the wait for a thread and a connection, by how "
    "they ended (ok, failed, late, cancelled).",
    ["outcome"],
    buckets=MOMENTS_S,
    registry=REGISTRY,
)
HEARTBEAT = Gauge(
    "faultline_part_silent_seconds",
    "How long ago a part of this worker last gave a sign of life.",
    ["part"],
    registry=REGISTRY,
)
BUILD = Gauge("faultline_build_info", "1; what runs.", ["version", "process"], registry=REGISTRY)

_words: dict[str, set[str]] = {}
_words_lock = threading.Lock()


def word(label: str, value: str) -> str:
    """The value, if it is plain and the label has not too many of them already; else `other`."""
    # No word of ours is long or unprintable, so a sender may have chosen it.
    if len(value) > 60 or not value.isascii() or not value.isprintable():
        return OTHER
    with _words_lock:
        values = _words.setdefault(label, set())
        if value not in values and len(values) >= MOST_WORDS:
            return OTHER
        values.add(value)
    return value
