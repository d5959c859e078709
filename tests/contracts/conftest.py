"""For tests of adapters that use a vendor's package."""

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> None:
    """Stripe's package keeps a number of its own in the user's folder of settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
