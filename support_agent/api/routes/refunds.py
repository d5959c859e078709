"""Routes of `/v1/refunds`."""

from support_agent.api.guarded import guarded_router

router = guarded_router("refunds")
