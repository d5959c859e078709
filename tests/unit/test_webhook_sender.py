"""The sender of webhooks against names that change, addresses inside, and TLS; real sockets."""

import asyncio
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from support_agent.adapters.webhooks.sender import HttpWebhookSender
from support_agent.domain.errors import InvalidInput
from support_agent.ports.webhooks import Answer, ToEndpoint
from tests.webhook_kit import TAKEN, Receiver, receiving, status

NAME = "hooks.shop.test"
PUBLIC, INSIDE = "93.184.216.34", "127.0.0.1"
SECRET = b"s" * 32


@dataclass
class Names:
    """A name server of an attacker's: each question gets the next answer, the last one for ever."""

    answers: list[Sequence[str] | OSError]
    asked: list[str] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer


def message(url: str, **more: object) -> ToEndpoint:
    told = {
        "url": url,
        "id": "evt_1",
        "at": datetime.now(UTC),
        "body": '{"type":"run.completed"}',
        "secrets": (SECRET,),
    }
    return ToEndpoint(**(told | more))


@asynccontextmanager
async def sending(names: Names | None = None, **more: object) -> AsyncIterator[HttpWebhookSender]:
    given = {"timeout_s": 2.0, "resolve": names.resolve if names else None}
    sender = HttpWebhookSender(**(given | more))
    try:
        yield sender
    finally:
        await sender.aclose()


def at_name(receiver: Receiver, name: str = NAME) -> str:
    return receiver.url.replace(INSIDE, name).replace("http:", "https:")


@contextmanager
def full_port(address: str, port: int) -> Iterator[None]:
    """A port that answers no greeting: all that may wait there are waiting."""
    with ExitStack() as opened:
        listener = opened.enter_context(socket.socket(socket.AF_INET6))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(0)
        for _ in range(4):
            waiting = opened.enter_context(socket.socket(socket.AF_INET6))
            waiting.setblocking(False)
            waiting.connect_ex((address, port))
        yield


class TestWhereItGoes:
    async def test_a_name_that_leads_inside_by_now_is_not_connected_to(self):
        names = Names(answers=[[PUBLIC], [INSIDE]])
        async with receiving() as receiver, sending(names) as sender:
            await sender.check(at_name(receiver))  # as it was when the endpoint was made
            answer = await sender.send(message(at_name(receiver)))

        assert answer == Answer(error="address_refused")
        assert receiver.came == []

    async def test_what_was_checked_is_what_is_connected_to(self):
        """The name is asked once a connection, so there is no second answer to fall for."""
        names = Names(answers=[[INSIDE], [PUBLIC]])
        async with (
            receiving() as receiver,
            sending(names, private_hosts=frozenset({NAME})) as sender,
        ):
            answer = await sender.send(message(receiver.url.replace(INSIDE, NAME)))

        assert answer == Answer(status=204)
        assert names.asked == [NAME]
        port = receiver.url.split(":")[2].split("/")[0]
        assert receiver.came[0].headers["host"] == f"{NAME}:{port}"

    @pytest.mark.parametrize(
        "addresses",
        [
            [PUBLIC, INSIDE],
            [INSIDE, PUBLIC],
            ["10.1.2.3"],
            ["169.254.169.254"],
            ["100.64.3.4"],
            ["::1"],
            ["::ffff:127.0.0.1"],
            ["64:ff9b::7f00:1"],
            ["2002:7f00:1::1"],
            ["fe80::1%eth0"],
            ["0.0.0.0"],  # noqa: S104 - refused
            ["224.0.0.1"],
            ["no address"],
        ],
    )
    async def test_one_address_inside_is_enough_to_refuse(self, addresses: list[str]):
        async with sending(Names(answers=[addresses])) as sender:
            with pytest.raises(InvalidInput, match="PRIVATE_TARGETS"):
                await sender.check(f"https://{NAME}/")
            answer = await sender.send(message(f"https://{NAME}/"))

        assert answer == Answer(error="address_refused")

    async def test_an_address_that_swallows_everything_keeps_nothing_from_the_next(self):
        """As a name with an IPv6 address, seen from where IPv6 packets are dropped."""
        async with receiving() as receiver:
            port = int(receiver.url.split(":")[2].split("/")[0])
            names = Names(answers=[["::1", INSIDE]])
            with full_port("::1", port):
                async with sending(names, private_hosts=frozenset({NAME})) as sender:
                    answer = await sender.send(message(receiver.url.replace(INSIDE, NAME)))

        assert answer == Answer(status=204)

    async def test_names_whose_servers_hang_keep_no_other_waiting(self, monkeypatch):
        """A question holds a thread for longer than a try; there are 4 tries an endpoint."""
        answered, asked = threading.Event(), []

        def getaddrinfo(host: str, port: int, *_: object, **__: object) -> list[object]:
            asked.append(host)
            if host.startswith("hangs"):
                answered.wait(10)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (INSIDE, port))]

        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        hanging = [f"hangs{number}.shop.test" for number in range(10)]
        try:
            async with (
                receiving() as receiver,
                sending(private_hosts=frozenset({NAME, *hanging})) as sender,
            ):
                tries = [
                    asyncio.create_task(sender.send(message(receiver.url.replace(INSIDE, host))))
                    for host in hanging
                    for _ in range(4)
                ]
                await asyncio.sleep(0.1)
                answer = await sender.send(message(receiver.url.replace(INSIDE, NAME)))
                assert not any(one.done() for one in tries)
                answered.set()
                others = await asyncio.gather(*tries)
        finally:
            answered.set()

        assert answer == Answer(status=204)
        assert others == [Answer(status=204)] * 40
        assert sorted(asked) == sorted([*hanging, NAME])

    @pytest.mark.parametrize("answer", [OSError("no such name"), []])
    async def test_a_name_that_leads_nowhere(self, answer):
        async with sending(Names(answers=[answer])) as sender:
            with pytest.raises(InvalidInput, match="cannot be found"):
                await sender.check(f"https://{NAME}/")
            assert await sender.send(message(f"https://{NAME}/")) == Answer(error="host_not_found")

    async def test_the_next_address_is_tried_when_one_does_not_answer(self):
        names = Names(answers=[["::1", INSIDE]])
        async with (
            receiving() as receiver,
            sending(names, private_hosts=frozenset({NAME})) as sender,
        ):
            answer = await sender.send(message(receiver.url.replace(INSIDE, NAME)))

        assert answer == Answer(status=204)

    async def test_the_real_resolver_finds_this_machine_inside(self):
        async with sending() as sender:
            with pytest.raises(InvalidInput, match="PRIVATE_TARGETS"):
                await sender.check("https://localhost/")

    async def test_no_proxy_of_the_environment_is_used(self, monkeypatch):
        async with receiving() as proxy, receiving() as receiver:
            for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
                monkeypatch.setenv(name, proxy.url.split("/events")[0])
            async with sending(private_hosts=frozenset({INSIDE})) as sender:
                assert await sender.send(message(receiver.url)) == Answer(status=204)

        assert proxy.came == []

    async def test_a_redirect_is_an_answer_and_not_followed(self):
        async with receiving() as inside:
            moved = status(307, f"Location: {inside.url}")
            async with (
                receiving(lambda _: moved) as receiver,
                sending(private_hosts=frozenset({INSIDE})) as sender,
            ):
                assert await sender.send(message(receiver.url)) == Answer(status=307)

        assert inside.came == []


class TestWhatIsSent:
    async def test_each_secret_signs_and_the_newest_stands_first(self):
        old, new = b"o" * 32, b"n" * 32
        async with (
            receiving() as receiver,
            sending(private_hosts=frozenset({INSIDE})) as sender,
        ):
            await sender.send(message(receiver.url, secrets=(new, old)))

        (came,) = receiver.came
        first, second = came.headers["webhook-signature"].split(" ")
        for secret, signature in ((new, first), (old, second)):
            headers = dict(came.headers) | {"webhook-signature": signature}
            assert Webhook(secret).verify(came.body, headers) == {"type": "run.completed"}

    async def test_a_connection_is_used_again(self):
        async with (
            receiving() as receiver,
            sending(private_hosts=frozenset({INSIDE})) as sender,
        ):
            for _ in range(3):
                assert (await sender.send(message(receiver.url))).is_taken

        assert len(receiver.came) == 3
        assert receiver.connections == 1

    @pytest.mark.parametrize(
        ("given", "wait_s"),
        [
            ("120", 120.0),
            ("0", 0.0),
            ("99999999999999999999", 999_999_999.0),
            ("Tue, 01 Dec 2099 00:00:00 GMT", "years"),
            ("Tue, 01 Dec 1999 00:00:00 GMT", 0.0),
            ("soon", None),
            ("-5", None),
            ("1e9", None),
            ("Inf", None),
            ("", None),
            ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
            ("Mon, 01 Jan 2026 00:00:00 +99999999999999999999", None),
        ],
    )
    async def test_how_long_an_endpoint_wants_to_be_left_alone(self, given: str, wait_s):
        async with (
            receiving(lambda _: status(503, f"Retry-After: {given}")) as receiver,
            sending(private_hosts=frozenset({INSIDE})) as sender,
        ):
            answer = await sender.send(message(receiver.url))

        assert answer.status == 503
        if wait_s == "years":
            assert answer.wait_s is not None
            assert answer.wait_s > 10**9
        else:
            assert answer.wait_s == wait_s

    async def test_what_follows_an_answer_that_came_in_time_takes_nothing_from_it(self):
        begun = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nthe rest never comes"
        async with (
            receiving(lambda _: begun) as receiver,
            sending(private_hosts=frozenset({INSIDE}), timeout_s=0.5) as sender,
        ):
            answer = await sender.send(message(receiver.url))

        assert answer == Answer(status=200)

    async def test_only_who_is_busy_may_ask_for_time(self):
        async with (
            receiving(lambda _: status(500, "Retry-After: 500")) as receiver,
            sending(private_hosts=frozenset({INSIDE})) as sender,
        ):
            assert await sender.send(message(receiver.url)) == Answer(status=500)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of NAME's, and its key, in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(  # noqa: S603 - of the machine
        [
            *(openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", f"/CN={NAME}", "-keyout", str(folder / "key")),
            *("-addext", f"subjectAltName=DNS:{NAME}", "-out", str(folder / "certificate")),
        ],
        check=True,
        capture_output=True,
    )
    both = folder / "both.pem"
    both.write_text((folder / "key").read_text() + (folder / "certificate").read_text())
    return both


class TestTls:
    @pytest.fixture
    def server(self, certificate: Path) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        return context

    async def test_the_name_is_proved_though_the_address_was_chosen(self, certificate, server):
        shown: list[str | None] = []
        server.sni_callback = lambda _socket, name, _context: shown.append(name)
        trusting = ssl.create_default_context(cafile=certificate)
        names, private = Names(answers=[[INSIDE]]), frozenset({NAME})
        async with (
            receiving(tls=server) as receiver,
            sending(names, private_hosts=private, tls=trusting) as sender,
        ):
            assert await sender.send(message(at_name(receiver))) == Answer(status=204)

        assert shown == [NAME]

    async def test_a_certificate_of_another_name_or_of_nobody_known_is_refused(
        self, certificate, server
    ):
        trusting = ssl.create_default_context(cafile=certificate)
        private = frozenset({NAME, "other.shop.test"})
        names = Names(answers=[[INSIDE]])
        async with receiving(tls=server) as receiver:
            async with sending(names, private_hosts=private, tls=trusting) as sender:
                other = at_name(receiver, "other.shop.test")
                assert await sender.send(message(other)) == Answer(error="tls")
            async with sending(names, private_hosts=private) as sender:
                assert await sender.send(message(at_name(receiver))) == Answer(error="tls")

        assert receiver.came == []

    async def test_https_to_who_speaks_http_is_no_answer(self):
        async with (
            receiving(lambda _: TAKEN) as receiver,
            sending(private_hosts=frozenset({INSIDE}), timeout_s=1.0) as sender,
        ):
            answer = await sender.send(message(receiver.url.replace("http:", "https:")))

        assert answer.status is None
        assert answer.error in {"tls", "timeout", "not_connected"}
