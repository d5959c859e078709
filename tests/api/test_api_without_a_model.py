"""Mounted without what is needed to answer, the API does not start."""

import pytest

from support_agent.api.app import open_api
from support_agent.domain.errors import ConfigurationError
from tests.kit import settings_for


@pytest.mark.parametrize("work", [True, False])
async def test_a_missing_key_of_the_model_is_said_at_once(shop_url, work):
    settings = settings_for(shop_url, model={"kind": "openai", "name": "gpt-x"})
    with pytest.raises(ConfigurationError):
        async with open_api(settings, work=work):
            pass
