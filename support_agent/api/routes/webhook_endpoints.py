"""Routes of `/v1/webhook-endpoints`."""

from support_agent.api.guarded import guarded_router

router = guarded_router("webhook-endpoints")
