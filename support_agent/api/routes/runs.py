"""Routes of `/v1/runs`."""

from support_agent.api.guarded import guarded_router

router = guarded_router("runs")
