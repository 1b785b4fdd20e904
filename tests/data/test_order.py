"""stable_order against np.lexsort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veilrec.data.order import stable_order

_SMALL = st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5)), max_size=30)
_WIDE = st.lists(st.tuples(st.integers(0, 3), st.integers(-(2**63), 2**63 - 1)), max_size=30)


@given(st.one_of(_SMALL, _WIDE))
def test_equals_lexsort(rows: list[tuple[int, int]]) -> None:
    user = np.array([row[0] for row in rows], dtype=np.int32)
    time = np.array([row[1] for row in rows], dtype=np.int64)
    assert stable_order(user, time).tolist() == np.lexsort((time, user)).tolist()
    assert stable_order(user).tolist() == np.argsort(user, kind="stable").tolist()


def test_no_keys_is_an_error() -> None:
    with pytest.raises(ValueError, match="keys must be one array or more"):
        stable_order()
