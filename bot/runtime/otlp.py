"""The only file that loads OpenTelemetry's SDK: spans are sent in batches, to the one address the
settings name."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

import requests
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON

from faultline.connectors.shared.transport.environment_trust import ca_file_of_environment

TIMEOUT_S = 5.0
QUEUE, BATCH, EVERY_MS = 4_096, 512, 2_000
"""Spans waiting at most (more are dropped), in one request, and between two requests."""


class Ids(RandomIdGenerator):
    """Random ids, but for a root span whose ids are given; those of one thread are no other's."""

    def __init__(self) -> None:
        self._thread_ids = threading.local()

    @property
    def next_root(self) -> tuple[int, int] | None:
        """Trace id and span id of the next root span of this thread."""
        return getattr(self._thread_ids, "ids", None)

    @next_root.setter
    def next_root(self, ids: tuple[int, int] | None) -> None:
        self._thread_ids.ids = ids

    def generate_trace_id(self) -> int:
        """The given one, or a random one."""
        return self.next_root[0] if self.next_root else super().generate_trace_id()

    def generate_span_id(self) -> int:
        """The given one, or a random one."""
        return self.next_root[1] if self.next_root else super().generate_span_id()


def traces_to(
    url: str, headers: Mapping[str, str], process: str, instance: str, version: str
) -> tuple[TracerProvider, Ids]:
    """What makes spans and sends them to `url`."""
    session = requests.Session()
    session.max_redirects = 0  # no other host than the one of the settings
    session.trust_env = False  # nor a proxy, or a password of ~/.netrc
    exporter = OTLPSpanExporter(
        endpoint=url,
        headers=dict(headers),
        timeout=TIMEOUT_S,
        compression=Compression.Gzip,
        certificate_file=ca_file_of_environment("OTEL_EXPORTER_OTLP_CERTIFICATE"),
        session=session,
    )
    resource = Resource(
        {
            "service.name": "faultline",
            "service.version": version,
            "service.instance.id": instance,
            "faultline.process": process,
        }
    )
    ids = Ids()
    limits = SpanLimits(max_span_attributes=20, max_span_attribute_length=200)
    provider = TracerProvider(
        sampler=ALWAYS_ON,
        resource=resource,
        id_generator=ids,
        span_limits=limits,
        # `stop_tracing` shuts it down, within a bound.
        shutdown_on_exit=False,
    )
    provider.add_span_processor(
        BatchSpanProcessor(
            exporter,
            max_queue_size=QUEUE,
            max_export_batch_size=BATCH,
            schedule_delay_millis=EVERY_MS,
        )
    )
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)
    return provider, ids
