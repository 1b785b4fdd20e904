from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilrec.core import stream, stream_seed

GOLDEN = 4142484120378637336
names = st.lists(st.one_of(st.text(), st.integers()), max_size=3)


@settings(deadline=None)
@given(st.integers(0, 2**70), names)
def test_a_stream_is_a_function_of_seed_and_names(seed: int, purpose: list) -> None:
    assert stream(seed, *purpose).integers(2**60) == stream(seed, *purpose).integers(2**60)
    assert 0 <= stream_seed(seed, *purpose) < 2**63


def test_names_do_not_run_together() -> None:
    seeds = {
        stream_seed(1, *n) for n in [("a", "b"), ("ab",), ("a", "b", ""), (1,), ("1",), ("a", 1), ("a", "1")]
    }
    assert len(seeds) == 7


def test_streams_are_uncorrelated() -> None:
    a, b = stream(0, "a").normal(size=20_000), stream(0, "b").normal(size=20_000)
    assert abs(np.corrcoef(a, b)[0, 1]) < 4 / np.sqrt(20_000)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "x"])
def test_bad_seeds(seed) -> None:
    with pytest.raises(ValueError, match="seed must be a whole number"):
        stream(seed, "x")


def test_golden_value() -> None:
    """A change here changes every recorded result."""
    assert stream_seed(0, "split") == stream_seed(np.int64(0), "split") == GOLDEN
