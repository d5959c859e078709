"""A route of the tests' own behind the guard that every route stands behind."""

import asyncio
from collections.abc import Callable
from typing import Any

from fastapi import Response
from starlette.responses import JSONResponse

from support_agent.api.access import CallerOf
from support_agent.api.guarded import guarded_router, needs, never_kept
from support_agent.api.schemas import Body
from support_agent.domain.access import Scope
from tests.api_kit import Api


class Thing(Body):
    """What is sent to it."""

    text: str
    number: int | float | None = None
    more: Any = None


class Probe:
    """`POST /v1/probe` and the like; `came` is what reached it, `act` what it does."""

    def __init__(self) -> None:
        self.came: list[Any] = []
        self.act: Callable[[], Any] | None = None
        self.started = asyncio.Event()

    async def answered(self, what: Any) -> Any:
        self.came.append(what)
        self.started.set()
        done = self.act() if self.act else {"n": len(self.came), "text": getattr(what, "text", "")}
        return await done if asyncio.iscoroutine(done) else done


def probed(api: Api) -> Probe:
    """The probe, on routes that are added to the application."""
    probe = Probe()
    router = guarded_router("probe")
    opens = [needs(Scope.TASKS_WRITE, Scope.CUSTOMERS_ACT)]

    @router.post("/v1/probe", dependencies=opens, response_model=None)
    @router.patch("/v1/probe", dependencies=opens, response_model=None)
    async def change(body: Thing) -> Any:
        return await probe.answered(body)

    @router.post("/v1/probe/{id_}", dependencies=opens, response_model=None)
    async def change_one(id_: str, response: Response) -> Any:
        response.headers["Location"] = f"/v1/probe/{id_}"
        response.headers["ETag"] = '"7"'
        response.headers["X-Else"] = "not kept"
        response.status_code = 201
        return await probe.answered(id_)

    @router.post(
        "/v1/secrets", dependencies=[*opens, never_kept("secret", "other")], response_model=None
    )
    async def make_secret() -> Any:
        await probe.answered("secret")
        return JSONResponse({"id": "s_1", "secret": "tuyệt mật"}, 201)

    @router.get("/v1/probe", dependencies=opens, response_model=None)
    async def look(caller: CallerOf) -> Any:
        return await probe.answered(caller)

    api.app.include_router(router)
    return probe
