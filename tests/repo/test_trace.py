"""`python -m tests.trace` shows the way of a record as it is."""

from __future__ import annotations

from tests.repo.source import ROOT
from tests.trace import Call, first_calls, traced


async def test_the_trace_leads_from_send_to_the_answer() -> None:
    """Each layer is on the way, each place is a line of a file, and the embedded Kafka is not."""
    steps = first_calls(await traced())
    calls = [call for step in steps for call in step.calls]
    assert calls[0].name == "send"
    assert calls[0].place.startswith("aioproducer/_core/accept.pyx:")
    for layer in ("_state/batching", "_net/producing", "_wire", "_net/connecting", "_state/delivery"):
        assert any(call.place.startswith(f"aioproducer/{layer}") for call in calls), layer
    assert not any("testing" in call.place for call in calls)
    for call in calls[1:]:
        assert defines(call), call


def defines(call: Call) -> bool:
    """Whether the named line belongs to the named function: its definition, its decorator, or an expression in it."""
    file, _, line = call.place.partition(":")
    text = (ROOT / file).read_text().splitlines()[int(line) - 1]
    return f"def {call.name.rpartition('.')[2]}(" in text or text.lstrip().startswith("@") or "<" in call.name
