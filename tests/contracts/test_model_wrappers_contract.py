"""What asks again and what falls back are models like any other: the contract over them."""

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from support_agent.agent.fallback import FallbackModel
from support_agent.agent.retrying import RetryingModel
from support_agent.domain.runs import Usage
from support_agent.testing.model_contract import GENERAL_CHECKS, SCRIPTED_CHECKS, open_scripted
from tests.model_kit import PlayedModel, away


@asynccontextmanager
async def open_retrying(lines):
    async with open_scripted(lines) as opened:
        yield replace(opened, model=RetryingModel(opened.model, attempts=2, backoff_s=0.001))


@asynccontextmanager
async def open_falling_back(lines):
    """The first one is always away, at no cost: the contract counts to the token."""
    first = PlayedModel(*(away(usage=Usage()) for _ in range(50)))
    async with open_scripted(lines) as opened:
        yield replace(opened, model=FallbackModel(first, opened.model, reserve_s=1))


@asynccontextmanager
async def open_with_a_fallback(lines):
    """The second one is always away."""
    second = PlayedModel(*(away() for _ in range(50)))
    async with open_scripted(lines) as opened:
        yield replace(opened, model=FallbackModel(opened.model, second, reserve_s=1))


def name(check):
    return check.__name__


@pytest.mark.parametrize("check", [*GENERAL_CHECKS, *SCRIPTED_CHECKS], ids=name)
@pytest.mark.parametrize(
    "open_model", [open_retrying, open_falling_back, open_with_a_fallback], ids=name
)
async def test_the_wrapper_keeps_the_contract(open_model, check):
    await check(open_model)
