"""Words, coins and whole numbers: exact where a list of words can prove it, unbiased elsewhere."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from veilrec.core import stream
from veilrec.privacy.words import below, coins, secure_words, seeded_words, uniforms


def listed(*words: int):
    """A source that hands out exactly these words."""
    left = list(words)

    def source(count: int) -> np.ndarray:
        return np.array([left.pop(0) for _ in range(count)], np.uint64)

    return source


def test_secure_words_differ_after_a_fork():
    code = """
import os
from veilrec.privacy.words import secure_words
secure_words(2)
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.write(write, secure_words(2).tobytes())
    os._exit(0)
os.waitpid(child, 0)
print(os.read(read, 16) != secure_words(2).tobytes())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


def test_secure_words_never_repeat_and_are_even():
    words = secure_words((1 << 20) + 70)  # more than one block
    assert len(np.unique(words)) == len(words)
    assert not np.array_equal(words[:70], words[1 << 20 :])
    counts = np.bincount(words.view(np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-8
    assert secure_words(0).shape == (0,)


def test_seeded_words_repeat():
    first, second = (seeded_words(stream(1, "w")) for _ in range(2))
    assert np.array_equal(np.concatenate([first(3), first(5)]), second(8))


def test_below_is_unbiased():
    words = seeded_words(stream(2, "below"))

    def p(drawn):
        return stats.chisquare(np.bincount(drawn, minlength=3)).pvalue

    assert p(below(words, 3, (60_000,))) > 1e-4
    assert p(below(secure_words, 3, (60_000,))) > 1e-8
    assert p((words(60_000) & np.uint64(3)) % np.uint64(3)) < 1e-9  # negative control: the modulo shortcut


def test_below_rejects_rather_than_folds():
    assert below(listed(3, 7, 2, 0, 1), 3, (3,)).tolist() == [0, 1, 2]
    assert below(listed(12345), 1, (1,)).tolist() == [0]
    assert below(listed(2**64 - 1, 5), 2**40 + 1, (1,)).tolist() == [5]
    for bad in (0, -1, 2.0):
        with pytest.raises(ValueError, match="limit must be a whole number of at least 1"):
            below(secure_words, bad, (1,))


@pytest.mark.parametrize("probability", [0.3, 0.001, 0.9])
def test_rates_of_coins(probability):
    def p(chance, source, n):
        heads = int(coins(source, chance, (n,)).sum())
        return stats.binomtest(heads, n, probability).pvalue

    words = seeded_words(stream(3, "coins"))
    assert p(probability, words, 200_000) > 1e-4
    assert p(probability, secure_words, 50_000) > 1e-8
    assert p(0.5 * probability, words, 200_000) < 1e-9  # negative control


def test_coins_compare_exactly():
    half = 1 << 63
    assert coins(listed(half - 1, half, 0), 0.5, (2,)).tolist() == [True, False]
    # 2^-70 is too fine for one word: a tie on the first is settled by the second
    fine = 1 << 58
    assert coins(listed(0, fine - 1), 2.0**-70, (1,)).tolist() == [True]
    assert coins(listed(0, fine), 2.0**-70, (1,)).tolist() == [False]
    assert coins(listed(1), 2.0**-70, (1,)).tolist() == [False]
    # a probability per coin, the tie in the second
    assert coins(listed(5, 0, 9, fine - 1), np.array([0.0, 2.0**-70, 1.0]), (3,)).tolist() == [
        False,
        True,
        True,
    ]
    for sure, answer in ((0.0, False), (1.0, True)):
        assert coins(listed(0, 0), sure, (1,)).tolist() == [answer]
        assert coins(listed(2**64 - 1), sure, (1,)).tolist() == [answer]


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan")])
def test_impossible_probabilities_are_refused(bad):
    with pytest.raises(ValueError, match="probability must be from 0 to 1"):
        coins(secure_words, [0.5, bad], (2,))


def test_uniforms():
    drawn = uniforms(seeded_words(stream(4, "uniforms")), (100, 300))
    assert drawn.shape == (100, 300)
    assert stats.kstest(drawn.ravel(), "uniform").pvalue > 1e-4
    assert stats.kstest(drawn.ravel() ** 1.05, "uniform").pvalue < 1e-6  # negative control
    assert uniforms(listed(2**64 - 1, 0), (2,)).tolist() == [1 - 2.0**-53, 0.0]
