from __future__ import annotations

import dataclasses
import json
import math

import pytest

from veilrec.privacy import Guarantee


def test_no_mechanism_no_epsilon() -> None:
    statement = Guarantee.none("x", reads=("interactions", "attributes"))
    assert math.isinf(statement.epsilon)
    assert "no finite epsilon holds for anyone" in str(statement)
    assert "interactions, attributes" in str(statement)
    assert Guarantee.from_dict(json.loads(json.dumps(statement.to_dict()))) == statement


def test_nobody_can_type_an_epsilon() -> None:
    statement = Guarantee.none("x", reads=())
    with pytest.raises(TypeError):
        Guarantee("x", (), (), epsilon=1.0)  # type: ignore[call-arg]
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
        statement.epsilon = 1.0  # type: ignore[misc]
