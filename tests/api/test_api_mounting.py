"""The API inside of a backend's own application, with the worker in the same process."""

import httpx2
import pytest
from fastapi import FastAPI

from support_agent.agent.turns import Incoming
from support_agent.api import open_api
from support_agent.testing.clock import FixedClock
from tests.kit import TODAY, binding_of, open_shop, settings_for
from tests.queue_kit import Gate, eventually, post


@pytest.fixture
async def mounted(shop_url):
    overrides = {"clock": FixedClock(TODAY), "model": Gate()}
    settings = settings_for(shop_url, queue={"poll_seconds": 0.05, "shutdown_seconds": 5})
    async with open_api(settings, overrides=overrides, work=True) as api:
        backend = FastAPI()
        backend.mount("/support", api)
        yield backend


@pytest.fixture
async def client(mounted):
    transport = httpx2.ASGITransport(app=mounted)
    async with httpx2.AsyncClient(transport=transport, base_url="http://shop") as opened:
        yield opened


async def test_its_worker_answers_what_another_process_posted(mounted, shop_url):
    async with open_shop(shop_url) as shop:
        posted = await post(shop)
        answer = await eventually(lambda: shop.container.agent().answer_to(posted))

    assert answer.status == "done"


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/support/healthz", 200, None),
        ("GET", "/support/readyz", 200, None),
        ("GET", "/support/v1/tasks", 401, "NOT_AUTHENTICATED"),
        ("GET", "/support/v1/nothing", 404, "NOT_FOUND"),
        ("PUT", "/support/v1/webhook-endpoints", 405, "METHOD_NOT_ALLOWED"),
    ],
)
async def test_it_answers_beneath_its_place(client, method, path, status, code):
    response = await client.request(method, path)

    assert response.status_code == status
    assert response.json().get("code") == code


async def test_a_refused_method_is_told_with_all_that_are_taken(client):
    response = await client.put("/support/v1/webhook-endpoints")

    assert response.headers["allow"] == "GET, POST"


async def test_its_description_does_not_know_where_it_stands(client):
    assert "servers" not in (await client.get("/support/openapi.json")).json()


async def test_the_backends_own_errors_are_the_backends(client):
    response = await client.get("/elsewhere")

    assert (response.status_code, response.json()) == (404, {"detail": "Not Found"})


class Broken:
    """A model adapter with a fault."""

    async def decide(self, request):
        raise RuntimeError("a fault")

    async def aclose(self) -> None:
        """Nothing is open."""


async def test_customers_words_are_not_in_the_log_of_a_backend_that_sets_none_up(shop_url, capsys):
    words = "lời riêng của khách"
    overrides = {"clock": FixedClock(TODAY), "model": Broken()}
    async with open_api(settings_for(shop_url), overrides=overrides) as api:
        incoming = Incoming(text=words, binding=binding_of("C001"))
        with pytest.raises(RuntimeError, match="a fault"):
            await api.state.container.agent().take(incoming)
    told = "".join(capsys.readouterr())

    assert "run.failed" in told
    assert "a fault" in told
    assert words not in told
