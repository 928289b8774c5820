"""The exploration can fail: it finds each of the planted defects, and says how it is seen again."""

from __future__ import annotations

import pytest

from tests.effort import FEW
from tests.exhaustive.explorer import Broken, Explorer, failure_of
from tests.exhaustive.models import BY_NAME
from tests.exhaustive.planted import DEFECTS, Defect


@pytest.mark.parametrize("defect", DEFECTS[::10] if FEW else DEFECTS, ids=lambda defect: defect.name)
def test_a_defect_is_found(defect: Defect, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the defect the exploration fails, and the script it prints fails again; without it that script passes."""
    model = BY_NAME[defect.model]
    with monkeypatch.context() as patched:
        defect.plant(patched)
        with pytest.raises(Broken) as caught:
            Explorer(model).explore()
        print(caught.value)
        assert defect.says in caught.value.why
        assert failure_of(model, caught.value.script) == (caught.value.script, caught.value.why)
    assert failure_of(model, caught.value.script) is None
