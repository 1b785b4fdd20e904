from __future__ import annotations

import pytest

from veilrec.experiments import NULL_MODEL, SPACES, Choice, Range, make_model
from veilrec.systems import SYSTEMS


def test_every_model_that_has_settings_has_a_space():
    assert set(SPACES) == set(SYSTEMS) - {NULL_MODEL}


@pytest.mark.parametrize("word", sorted(SPACES))
def test_both_ends_of_each_range_are_settings_of_the_model(word):
    for place in (0, -1):
        settings = {
            name: about.values[place] if isinstance(about, Choice) else (about.low, about.high)[place]
            for name, about in SPACES[word].items()
        }
        assert make_model(word, settings).settings().items() >= settings.items()


def test_bad_ranges_are_refused():
    with pytest.raises(ValueError, match="low must be below high, 1, got 2"):
        Range(2, 1)
    with pytest.raises(ValueError, match="low must be above 0 where log is set, got 0"):
        Range(0, 1, log=True)
