"""OpenTelemetry traces of the bot itself: one per investigation, over OTLP/HTTP. Nothing is loaded
unless switched on.

The ids of a trace and of its root span are derived from the investigation's id, so that web
process, workers, retries and takeovers write into one trace without telling each other. Attributes
are names and counts: no text of an alert, of a vendor or of a model.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import time
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import datetime
from typing import TYPE_CHECKING, Any

from faultline.analysis.errors import SettingsError
from faultline.bot.runtime.logs import program_version
from faultline.bot.settings.processes import TelemetrySettings
from faultline.connectors.shared.transport.watching import VendorRequest, watch

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span

log = logging.getLogger("faultline.telemetry")

FLUSH_MS = 3_000
"""For what is left when the process ends."""
TRACES = "/v1/traces"
"""https://opentelemetry.io/docs/specs/otlp/#otlphttp-request"""
NS = 1_000_000_000

_current: ContextVar[Span | None] = ContextVar("span", default=None)
_tracing: Tracing | None = None


def trace_id_of(investigation_id: str) -> int:
    """128 bits, the same wherever they are worked out; never 0."""
    # An id of 0 means no id in OpenTelemetry.
    return int.from_bytes(_digest(investigation_id)[:16], "big") or 1


def root_id_of(investigation_id: str) -> int:
    """64 bits for the span that stands for the whole investigation."""
    return int.from_bytes(_digest(investigation_id)[16:24], "big") or 1


class Tracing:
    """A tracer, and what sends its spans."""

    def __init__(self, provider: TracerProvider, ids: Any) -> None:
        self.provider = provider
        self.ids = ids
        self.tracer = provider.get_tracer("faultline")

    def root_context(self, investigation_id: str) -> Any:
        """The context of an investigation's root span."""
        from opentelemetry.trace import (
            NonRecordingSpan,
            SpanContext,
            TraceFlags,
            set_span_in_context,
        )

        context = SpanContext(
            trace_id_of(investigation_id),
            root_id_of(investigation_id),
            True,
            TraceFlags(TraceFlags.SAMPLED),
        )
        return set_span_in_context(NonRecordingSpan(context))

    def below(self, span: Span) -> Any:
        """The context of a span."""
        from opentelemetry.trace import set_span_in_context

        return set_span_in_context(span)


def start_tracing(settings: TelemetrySettings, process: str, instance: str) -> None:
    """Record and send traces from now on, if the settings name an endpoint. Raises
    SettingsError."""
    global _tracing  # noqa: PLW0603  one per process, as OpenTelemetry's own provider
    if settings.otlp_endpoint is None:
        return
    from faultline.bot.runtime.otlp import traces_to

    # `name=value,name=value`, as in OTEL_EXPORTER_OTLP_HEADERS. Raises SettingsError.
    secret_value = settings.otlp_headers.get_secret_value() if settings.otlp_headers else ""
    headers = {}
    for part in filter(None, (part.strip() for part in secret_value.split(","))):
        name, mark, value = part.partition("=")
        if (
            not mark
            or not name.strip()
            or not (name + value).isascii()
            or not (name + value).isprintable()
        ):
            raise SettingsError(
                "telemetry.otlp_headers", "must be name=value, several separated by commas"
            )
        headers[name.strip()] = value.strip()
    _tracing = Tracing(
        *traces_to(settings.otlp_endpoint + TRACES, headers, process, instance, program_version())
    )
    watch(_vendor_span)


def stop_tracing() -> None:
    """Send what is left, within a few seconds."""
    global _tracing
    stopping, _tracing = _tracing, None
    if stopping is not None:
        stopping.provider.force_flush(FLUSH_MS)
        stopping.provider.shutdown()


@contextlib.contextmanager
def step_span(investigation_id: str, name: str, target: str) -> Iterator[Span | None]:
    """A span below the investigation's root; what happens inside is below it."""
    # A local name: `stop_tracing` may clear the global while this runs.
    tracing = _tracing
    if tracing is None:
        yield None
        return
    attributes = {"faultline.investigation": investigation_id, "faultline.target": target}
    context = tracing.root_context(investigation_id)
    span = tracing.tracer.start_span(
        name, context=context, attributes={k: v for k, v in attributes.items() if v}
    )
    with _inside(span):
        yield span


@contextlib.contextmanager
def child_span(name: str, **attributes: str | int | float | bool) -> Iterator[Span | None]:
    """A span below the current one; none where there is none."""
    tracing, above = _tracing, _current.get()
    if tracing is None or above is None:
        yield None
        return
    span = tracing.tracer.start_span(name, context=tracing.below(above), attributes=attributes)
    with _inside(span):
        yield span


def accept_span(investigation_id: str, source: str, outcome: str, took_s: float) -> None:
    """The web process stored an alert of that investigation."""
    tracing = _tracing
    if tracing is not None:
        ended = time.time()
        attributes = {"faultline.investigation": investigation_id, "faultline.source": source}
        attributes["faultline.outcome"] = outcome
        _past(
            tracing,
            "accept",
            tracing.root_context(investigation_id),
            ended - took_s,
            ended,
            attributes,
        )


def root_span(
    investigation_id: str, accepted_at: datetime, ended_at: datetime, verdict: str
) -> None:
    """The whole investigation, once it has ended; written again it is the same span."""
    tracing = _tracing
    if tracing is not None:
        attributes = {"faultline.investigation": investigation_id, "faultline.verdict": verdict}
        tracing.ids.next_root = (trace_id_of(investigation_id), root_id_of(investigation_id))
        try:
            from opentelemetry.context import Context

            # An empty context, so that the span has no parent.
            context = Context()
            _past(
                tracing,
                "investigation",
                context,
                accepted_at.timestamp(),
                ended_at.timestamp(),
                attributes,
            )
        finally:
            tracing.ids.next_root = None


def note_outcome(span: Span | None, outcome: str | None) -> None:
    """Record the outcome of a post."""
    if span is not None and outcome is not None:
        span.set_attribute("faultline.outcome", outcome)


def _vendor_span(vendor_request: VendorRequest) -> None:
    """One request to a vendor, below the step that made it."""
    tracing, above = _tracing, _current.get()
    if tracing is None or above is None or vendor_request.skip_reason is not None:
        return
    attributes: dict[str, str | int | float | bool] = {"faultline.vendor": vendor_request.vendor}
    attributes["faultline.waited_s"] = round(vendor_request.waited_s, 3)
    if vendor_request.status is not None:
        attributes["http.response.status_code"] = vendor_request.status
    ended = vendor_request.began + vendor_request.took_s
    _past(
        tracing,
        f"ask {vendor_request.vendor}",
        tracing.below(above),
        vendor_request.began,
        ended,
        attributes,
        # The classes `5xx` and `none`: the server failed, or gave no answer.
        vendor_request.status_class[0] in "5n",
    )


def _past(
    tracing: Tracing,
    name: str,
    context: Any,
    began: float,
    ended: float,
    attributes: Any,
    failed: bool = False,
) -> None:
    """A span whose beginning and end are known; times as `time.time()`."""
    span = tracing.tracer.start_span(
        name, context=context, attributes=attributes, start_time=int(began * NS)
    )
    if failed:
        _fail(span, "")
    # The clock may have been set back, and a span must not end before it begins.
    span.end(int(max(began, ended) * NS))


@contextlib.contextmanager
def _inside(span: Span) -> Iterator[None]:
    token = _current.set(span)
    try:
        yield
    except BaseException as error:
        _fail(span, type(error).__name__)
        raise
    finally:
        _current.reset(token)
        span.end()


def _fail(span: Span, error: str) -> None:
    from opentelemetry.trace import Status, StatusCode

    if error:
        span.set_attribute("error.type", error)
    span.set_status(Status(StatusCode.ERROR))


def _digest(investigation_id: str) -> bytes:
    return hashlib.sha256(f"faultline trace {investigation_id}".encode("utf-8", "replace")).digest()
