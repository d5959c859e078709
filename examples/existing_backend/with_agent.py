"""The shop with the agent mounted: the one file that knows both."""

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import httpx2
import jwt
from fastapi import FastAPI, Path, Request, Response

from existing_backend.refund_endpoint import endpoint
from existing_backend.shop import Customer, shop
from support_agent.api import open_api


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The agent is open, and works, as long as the shop does; settings are the environment's."""
    async with open_api(work=True) as support:
        app.mount("/support", support)
        inside = httpx2.ASGITransport(app=support)  # what we ask ourselves takes no socket
        async with httpx2.AsyncClient(transport=inside, base_url="http://support") as client:
            app.state.support = client
            yield


app = FastAPI(title="Vườn Nhà", lifespan=lifespan)
app.include_router(shop)
app.include_router(endpoint)


def speaks_for(customer: str) -> dict[str, str]:
    """Our key, and for a minute the word of the shop that this customer is logged in."""
    key_id, secret = os.environ["SUPPORT_TOKEN_SECRET"].split(":", 1)
    now = int(time.time())
    claims = {"sub": customer, "aud": "support-agent", "iat": now, "exp": now + 60}
    token = jwt.encode(claims, secret, "HS256", headers={"kid": key_id})
    key = os.environ["SUPPORT_KEY"]
    return {"Authorization": f"Bearer {key}", "Support-Agent-Customer-Token": token}


# Names and ids only: no `..` that leads out of /v1, no `?` or `#` that was encoded.
Inside = Annotated[str, Path(pattern=r"^\w+(/\w+)*$")]


@app.api_route("/tro-giup/{path:path}", methods=["GET", "POST"])
async def help_customer(path: Inside, request: Request, customer: Customer) -> Response:
    """What the shop's chat window asks, for whoever is logged in and for nobody else."""
    kind = request.headers.get("content-type", "")  # another site's form cannot say JSON: 415
    answer = await request.app.state.support.request(
        request.method,
        f"/v1/{path}",
        params=request.query_params,
        content=request.stream(),  # the agent's limit ends it
        headers={**speaks_for(customer), "Prefer": "wait=20", "Content-Type": kind},
    )
    return Response(answer.content, answer.status_code, media_type=answer.headers["content-type"])
