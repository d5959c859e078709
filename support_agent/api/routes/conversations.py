"""Routes of `/v1/conversations`."""

from support_agent.api.guarded import guarded_router

router = guarded_router("conversations")
