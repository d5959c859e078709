"""Routes of `/v1/approvals`."""

from support_agent.api.guarded import guarded_router

router = guarded_router("approvals")
