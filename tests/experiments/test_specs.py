from __future__ import annotations

import pytest

from veilrec.experiments import Entry, EvaluateSpec, Experiment, Plan


def test_specs_are_frozen_and_plain():
    spec = Experiment("popularity")
    with pytest.raises(AttributeError):
        spec.seed = 2  # type: ignore[misc]
    assert spec.to_dict()["evaluate"] == {"k": [5, 10, 20], "protocol": "full"}
    assert "out" not in spec.to_dict()
    with pytest.raises(ValueError, match=r"evaluate\.k must be one length or more"):
        EvaluateSpec(())


def test_plans_are_checked():
    entry = Entry("popularity", "popularity")
    for given, words in [
        ({"models": ()}, "models must be one or more"),
        ({"models": (entry,), "seeds": ()}, "seeds must be one or more"),
        ({"models": (entry,), "seeds": (1, 1)}, "seeds must be different from each other"),
        ({"models": (entry,), "seeds": (-1,)}, "seeds must be a whole number of at least 0"),
        ({"models": (entry,), "reference": "frist"}, "Did you mean 'first'"),
    ]:
        with pytest.raises(ValueError, match=words):
            Plan(**given)
