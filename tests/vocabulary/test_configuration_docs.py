"""The configuration reference says what the table says."""

from __future__ import annotations

from aioproducer.config import SETTINGS
from aioproducer.config.refused import REFUSED
from tools.generate_configuration_docs import TARGET, document, main


def test_reference_is_what_the_table_says() -> None:
    """docs/configuration.md is what the generator makes now."""
    assert TARGET.read_text("utf-8") == document(), "run python tools/generate_configuration_docs.py"
    assert main(["--check"]) == 0


def test_reference_names_every_setting_and_every_refusal() -> None:
    """Every setting has one row, and every refused property of Kafka's is listed."""
    page = document()
    for name in SETTINGS:
        assert page.count(f"\n| `{name}` |") == 1
    for name in REFUSED:
        assert f"\n| `{name.replace('_', '.')}` |" in page


def test_rows_have_as_many_cells_as_their_head() -> None:
    """No text of a row breaks the table."""
    page = document().replace("\\|", "")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert {line.count(" | ") for line in rows} == {4, 1}
