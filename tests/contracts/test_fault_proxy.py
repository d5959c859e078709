"""The proxy that breaks down on purpose, and leaves nothing behind."""

import asyncio

import httpx2
import pytest

from support_agent.testing.fault_proxy import (
    Fault,
    FaultProxy,
    HttpReply,
    HttpRequest,
    forward_to,
    json_reply,
)


class Backend:
    """Counts what reaches it."""

    def __init__(self) -> None:
        self.reached: list[HttpRequest] = []

    async def __call__(self, request: HttpRequest) -> HttpReply:
        self.reached.append(request)
        return json_reply({"number": len(self.reached)})


@pytest.fixture
def backend() -> Backend:
    return Backend()


async def test_without_a_fault_everything_is_passed_on(backend):
    async with (
        FaultProxy(backend) as inner,
        FaultProxy(forward_to(int(inner.url.rsplit(":", 1)[1]))) as outer,
        httpx2.AsyncClient(base_url=outer.url) as client,
    ):
        answer = await client.post("/v1/x?a=1&b=%20", data={"c": "é"}, headers={"x-own": "kept"})

    (request,) = backend.reached
    assert answer.json() == {"number": 1}
    assert (request.method, request.path, request.query) == ("POST", "/v1/x", {"a": "1", "b": " "})
    assert request.form == {"c": "é"}
    assert request.headers["x-own"] == "kept"


@pytest.mark.parametrize(
    ("fault", "reached", "status"),
    [
        (Fault.DROP_BEFORE, 0, None),
        (Fault.DROP_RESPONSE, 1, None),
        (Fault.CUT, 1, None),
        (Fault.ERROR_BEFORE, 0, 500),
        (Fault.ERROR_AFTER, 1, 500),
        (json_reply({}, 409), 0, 409),
    ],
)
async def test_a_fault_meets_the_next_post_and_no_other(backend, fault, reached, status):
    async with FaultProxy(backend) as proxy, httpx2.AsyncClient(base_url=proxy.url) as client:
        proxy.will(fault)
        assert (await client.get("/")).status_code == 200
        before = len(backend.reached)
        if status is None:
            with pytest.raises(httpx2.TransportError):
                await client.post("/")
        else:
            assert (await client.post("/")).status_code == status
        assert len(backend.reached) - before == reached
        assert (await client.post("/")).status_code == 200
        assert len(proxy.posts) == 2


@pytest.mark.parametrize(("fault", "reached"), [(Fault.HANG_BEFORE, 0), (Fault.HANG_AFTER, 1)])
async def test_what_hangs_ends_when_it_is_left(backend, fault, reached):
    async with httpx2.AsyncClient(timeout=None) as client:
        async with FaultProxy(backend) as proxy:
            proxy.will(fault)
            waiting = asyncio.create_task(client.post(proxy.url))
            await proxy.hangs.wait()
            assert len(backend.reached) == reached
            assert not waiting.done()
        with pytest.raises(httpx2.TransportError):
            await waiting


async def test_what_the_backend_lacks_is_answered_in_its_place(backend):
    answers = {"GET /v1/account": json_reply({"id": "acct_ours"})}
    async with (
        FaultProxy(backend, answers=answers) as proxy,
        httpx2.AsyncClient(base_url=proxy.url) as client,
    ):
        assert (await client.get("/v1/account?x=1")).json() == {"id": "acct_ours"}
        assert (await client.post("/v1/account")).json() == {"number": 1}


async def test_it_listens_on_this_machine_only(backend):
    async with FaultProxy(backend) as proxy:
        assert proxy.url.startswith("http://127.0.0.1:")
    with pytest.raises(RuntimeError, match="not open"):
        _ = FaultProxy(backend).url
