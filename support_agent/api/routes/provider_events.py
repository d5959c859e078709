"""Routes of `/v1/provider-events`: payment providers prove themselves by their signature."""

from fastapi import APIRouter

router = APIRouter(tags=["provider-events"])
