"""The snippet an integrator copies first works as it stands, and stays short."""

import runpy
from pathlib import Path

from tests.kit import KEYS

EXAMPLE = Path(__file__).parents[2] / "examples" / "first_integration.py"


def test_the_example_answers_about_a100(shop_url, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUPPORT_AGENT_DATABASE__URL", shop_url)
    monkeypatch.setenv("SUPPORT_AGENT_SECURITY__KEYS", KEYS)
    monkeypatch.setenv("SUPPORT_AGENT_CLOCK__NOW", "2026-10-13")

    runpy.run_path(str(EXAMPLE), run_name="__main__")

    told = capsys.readouterr().out
    assert "A100" in told
    assert "250.000\u00a0₫" in told


def test_the_example_fits_on_a_page_and_needs_only_public_names():
    source = EXAMPLE.read_text(encoding="utf-8")

    assert len(source.splitlines()) <= 40
    assert "from support_agent." not in source
