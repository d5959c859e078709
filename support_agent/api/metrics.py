"""What Prometheus reads: requests of this process, and what waits in the database."""

import time
from collections.abc import Iterator

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from support_agent.adapters.db.gauges import Gauges, gauges
from support_agent.api.background import Background
from support_agent.api.guarded import guarded_router, needs
from support_agent.api.probing import Probe
from support_agent.container import Container
from support_agent.domain.access import Scope as KeyScope
from support_agent.domain.errors import SupportAgentError

PREFIX = "support_agent"
NOWHERE = "none"  # the route of a request that met none: no client makes labels
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
WORDS = {
    "approvals_pending": "Refund requests that wait for a person",
    "approvals_overdue": "Refund requests that have waited longer than they should",
    "approvals_oldest_s": "How long the oldest of them has waited",
    "conversations_unread": "Conversations with messages that nobody has answered",
    "unread_oldest_s": "How long the oldest of these messages has waited",
    "runs_running": "Turns under way, whichever process has them",
    "runs_orphaned": "Turns whose process is gone",
    "outbox_undelivered": "Messages and events that are not delivered yet",
    "outbox_oldest_s": "How long the oldest of them has waited",
    "webhooks_pending": "Webhook deliveries that are not done yet",
    "webhooks_oldest_s": "How long the oldest of them has waited",
    "tasks_open": "Tasks of persons at the shop",
}

log = structlog.get_logger(__name__)
router = guarded_router("metrics")
public_router = APIRouter(tags=["metrics"])


class Metrics:
    """The numbers of one application; two of them in one process share none."""

    def __init__(self, container: Container, background: Background) -> None:
        self._registry = CollectorRegistry(auto_describe=True)
        self._stored = _Stored()
        self._registry.register(self._stored)
        ProcessCollector(registry=self._registry)
        self.requests = Counter(
            f"{PREFIX}_http_requests",
            "Requests by route and status",
            ("method", "route", "status"),
            registry=self._registry,
        )
        self.seconds = Histogram(
            f"{PREFIX}_http_request_seconds",
            "Until the answer began",
            ("method", "route"),
            buckets=BUCKETS_S,
            registry=self._registry,
        )
        self.under_way = self._gauge("http_requests_under_way", "Requests that are being answered")
        self.streams = self._gauge("http_streams_open", "Streams of events that are open")
        self._gauge("turns_carried", "Turns that go on behind requests here").set_function(
            lambda: background.running
        )
        database, clock = container.database(), container.clock()
        self._probe = Probe(
            lambda: database.run_read(lambda connection: gauges(connection, clock.now()))
        )

    async def told(self) -> bytes:
        """All of them as Prometheus reads them; without a database those of the process."""
        try:
            found = await self._probe()
        except (TimeoutError, SupportAgentError) as error:
            log.warning("metrics.without_database", problem=str(error))
            found = None
        self._stored.found = found  # nothing is awaited between here and the text
        return generate_latest(self._registry)

    def _gauge(self, name: str, words: str) -> Gauge:
        return Gauge(f"{PREFIX}_{name}", words, registry=self._registry)


class _Stored(Collector):
    """What was read of the database last."""

    found: Gauges | None = None

    def describe(self) -> Iterator[GaugeMetricFamily]:
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        found = self.found
        up = 0 if found is None else 1
        yield GaugeMetricFamily(f"{PREFIX}_database_up", "Whether the database answers", value=up)
        if found is None:
            return
        for name, words in WORDS.items():
            shown = name.replace("_oldest_s", "_oldest_seconds")
            yield GaugeMetricFamily(f"{PREFIX}_{shown}", words, value=getattr(found, name))
        payouts = GaugeMetricFamily(
            f"{PREFIX}_payouts", "Payouts that are neither paid nor failed", labels=("status",)
        )
        for status, count in found.payouts.items():
            payouts.add_metric((status,), count)
        yield payouts


class Measured:
    """Counts every request; by the template of its route, so that no id becomes a label."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Measure(self._metrics, scope)

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                request.answered(message)
            await send(message)

        with request:
            await self._app(scope, receive, noted)


class _Measure:
    """One request, from its head to its end."""

    def __init__(self, metrics: Metrics, scope: Scope) -> None:
        self._metrics = metrics
        self._scope = scope
        self._began = time.perf_counter()
        self._is_stream = False

    def __enter__(self) -> None:
        self._metrics.under_way.inc()

    def __exit__(self, *_: object) -> None:
        (self._metrics.streams if self._is_stream else self._metrics.under_way).dec()

    def answered(self, message: Message) -> None:
        method, route = self._scope["method"], self._scope.get("route")
        labels = (method if method in METHODS else "OTHER", getattr(route, "path", NOWHERE))
        self._metrics.requests.labels(*labels, str(message["status"])).inc()
        self._metrics.seconds.labels(*labels).observe(time.perf_counter() - self._began)
        kind = dict(message.get("headers", ())).get(b"content-type", b"")
        if kind.startswith(b"text/event-stream"):
            self._is_stream = True
            self._metrics.under_way.dec()
            self._metrics.streams.inc()


@router.get(
    "/metrics",
    dependencies=[needs(KeyScope.METRICS_READ)],
    response_class=PlainTextResponse,
)
@public_router.get("/metrics", response_class=PlainTextResponse)
async def get_metrics(request: Request) -> PlainTextResponse:
    """Numbers for Prometheus: requests of this process, and what waits in the database."""
    metrics: Metrics = request.app.state.metrics
    return PlainTextResponse(await metrics.told(), media_type=CONTENT_TYPE_LATEST)
