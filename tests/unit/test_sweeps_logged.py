"""What a sweep says of a request that has to wait for its next round."""

from structlog.testing import capture_logs

from support_agent.domain.errors import PaymentOutcomeUnknown
from support_agent.domain.refunds import RefundRequest
from support_agent.services.sweeps import _attempted


async def failing(error: Exception) -> dict[str, object]:
    async def work(_request_id: str) -> RefundRequest:
        raise error

    with capture_logs() as logged:
        assert await _attempted(work, "req_1") is None
    (entry,) = logged
    return dict(entry)


async def test_an_endpoint_that_answers_500_is_a_line_and_no_traceback():
    entry = await failing(PaymentOutcomeUnknown("the refund endpoint answered 500"))

    assert entry == {
        "event": "sweep.put_off",
        "log_level": "warning",
        "refund_id": "req_1",
        "problem": "the refund endpoint answered 500",
    }


async def test_what_nobody_foresaw_is_told_whole():
    entry = await failing(RuntimeError("broken"))

    assert (entry["log_level"], "exc_info" in entry) == ("error", True)
