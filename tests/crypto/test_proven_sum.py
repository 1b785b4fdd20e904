"""Dishonest clients in sums whose vectors nobody reads: each is refused by name, and the rest is added up."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from veilrec.core import stream
from veilrec.crypto import (
    AGGREGATOR,
    Ciphertexts,
    Encryptor,
    FixedPoint,
    MaskedSum,
    PaillierSum,
    SecretKey,
    SharedSum,
    ShareKey,
    SumAggregator,
    decrypt,
)
from veilrec.crypto.masks import derive
from veilrec.crypto.messages import Envelope, join_entries, split_entries
from veilrec.crypto.paillier_link import WEIGHT_BITS, ask_link, links
from veilrec.crypto.parties import READER
from veilrec.crypto.proven_sum import ProvenSum
from veilrec.crypto.residues import add, from_ints, from_signed, negative, to_bytes

CODE = FixedPoint(bound=4.0, step=2**-10, clients=6)
NAMES = ("ann", "bob", "cat", "dan", "eve")
LENGTH, ROUND = 40, 3
WHOLE = {name: CODE.encode(stream(5, name).uniform(-0.5, 0.5, LENGTH)) for name in NAMES}
LONG = np.full(LENGTH, 3 * 1024)  # each coordinate within the bound, all of them 19 long

Parts = dict[str, bytes]
Lie = Callable[[ProvenSum, Parts, Mapping[str, Parts]], Parts]


@pytest.fixture(params=["paillier", "shared"])
def sums(request: pytest.FixtureRequest, toy: SecretKey) -> ProvenSum:
    if request.param == "paillier":
        return PaillierSum(CODE, LENGTH, norm=4.0, key=toy.public, secret=toy)
    key = ShareKey()
    return SharedSum(CODE, LENGTH, norm=4.0, key=key.public, secret=key)


def run(sums: ProvenSum, lies: Mapping[str, Lie]) -> tuple[SumAggregator, list[Parts], np.ndarray]:
    """A round in which some clients change what honest code would send; also, what the reader was asked."""
    envelope, aggregator = Envelope(sums.fingerprint, ROUND), sums.aggregator(ROUND, NAMES)
    inbox = aggregator.begin()
    sent = {}
    for name in NAMES:
        reply = sums.client(name, WHOLE[name]).reply(inbox[name])
        sent[name] = split_entries(envelope.open(reply, "share", name))
    said = {name: lies[name](sums, parts, sent) if name in lies else parts for name, parts in sent.items()}
    aggregator.gather(
        [(name, envelope.seal("share", name, join_entries(parts))) for name, parts in said.items()]
    )
    questions = []
    while (question := aggregator.question()) is not None:
        questions.append(split_entries(envelope.open(question, "question", AGGREGATOR)))
        aggregator.heed(sums.judge(question, ROUND))
    return aggregator, questions, sums.open(aggregator.aggregate(), ROUND)


def expected(names: Iterable[str]) -> bytes:
    return CODE.decode(sum(WHOLE[name] for name in names)).tobytes()


def halves(sums: ProvenSum, name: str, x: np.ndarray, **kept: bytes) -> Parts:
    """A half of rows that nobody checked, under a fresh secret."""
    secret, hidden = sums.hide()
    return {
        **kept,
        "hidden": hidden,
        "half": to_bytes(sums.proof.half_of(x, derive(secret, "half", ROUND, name, ""))),
    }


def laid(numbers: np.ndarray) -> np.ndarray:
    return np.concatenate([numbers, np.zeros(64 - len(numbers), np.int64)]).reshape(1, 64)


def encrypted(sums: PaillierSum, numbers: np.ndarray) -> bytes:
    return Encryptor(sums.key).encrypt(sums.packing.pack(numbers)).to_bytes()


# ---- one liar ----------------------------------------------------------------------------------------------


def _longer(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
    """The proof of a vector that is too long, as good as it can be, and its ciphertexts, if there are any."""
    share = {"share": encrypted(sums, LONG)} if isinstance(sums, PaillierSum) else {}
    return halves(sums, "cat", laid(LONG), **share)


def _longer_by_one(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
    x = np.zeros(LENGTH, int)
    x[:2] = 4096, 1
    share = {"share": encrypted(sums, x)} if isinstance(sums, PaillierSum) else {}
    return halves(sums, "cat", laid(x), **share)


def _changed(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
    """A step more in one number of the half, and in the ciphertext that goes with it."""
    half = np.frombuffer(parts["half"], "<u8").reshape(-1, 2).copy()
    half[0] = add(half[0], from_ints([1])[0])
    out = {**parts, "half": to_bytes(half)}
    if isinstance(sums, PaillierSum):
        one = np.zeros(LENGTH, int)
        one[0] = 1
        whole = Ciphertexts.from_bytes(parts["share"], sums.key) + Encryptor(sums.key).encrypt(
            sums.packing.pack(one)
        )
        out["share"] = Ciphertexts(sums.key, whole.values).to_bytes()
    return out


def _copied(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
    return sent["ann"]


def _noise(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
    half = np.frombuffer(secrets.token_bytes(len(parts["half"])), "<u8").reshape(-1, 2) >> 1
    return {**parts, "half": half.tobytes()}


def _other_secret(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
    return {**parts, "hidden": sums.hide()[1]}


@pytest.mark.parametrize("lie", [_longer, _longer_by_one, _changed, _copied, _noise, _other_secret])
def test_a_liar_is_refused_and_the_round_goes_on(sums: ProvenSum, lie: Lie) -> None:
    aggregator, questions, total = run(sums, {"cat": lie})
    assert aggregator.included == ("ann", "bob", "dan", "eve")
    assert total.tobytes() == expected(aggregator.included)
    reason = "proof of a length of at most 4 must hold, got one that does not."
    assert aggregator.refused == [("cat", "share", reason)]
    assert len(questions) == (2 if sums.word == "paillier" else 1)


def test_honest_clients_are_all_in_the_sum(sums: ProvenSum) -> None:
    """The control of the test above: without a lie nobody is refused, and the sum is another one."""
    aggregator, questions, total = run(sums, {})
    assert (aggregator.included, aggregator.refused) == (NAMES, [])
    assert total.tobytes() == expected(NAMES) != expected(("ann", "bob", "dan", "eve"))
    assert len(questions) == (2 if sums.word == "paillier" else 1)


def test_with_too_many_liars_there_is_no_sum(sums: ProvenSum) -> None:
    with pytest.raises(ValueError, match=r"clients in the sum must be at least 2, got \('eve',\)"):
        run(sums, dict.fromkeys(NAMES[:4], _noise))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"half": b""}, "half of a vector must be"),
        ({"half": bytes(16)}, "half of a vector must be"),
        ({"half": bytes([255])}, "must be of 127 bits"),  # filled up below
        ({"hidden": b""}, "must be"),
        ({"hidden": bytes(32)}, "must be"),  # a point of small order; no ciphertext either
        ({"more": b""}, "share must be"),
        ({"hidden": None}, "share must be"),
        ({"half": None}, "share must be"),
    ],
)
def test_malformed_parts_are_refused_at_once(sums: ProvenSum, change: dict[str, Any], reason: str) -> None:
    def lie(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
        out = {**parts, **change}
        if out["half"] == bytes([255]):
            out["half"] *= len(parts["half"])
        return {name: one for name, one in out.items() if one is not None}

    aggregator, _, total = run(sums, {"cat": lie})
    assert total.tobytes() == expected(aggregator.included)
    assert [one.client for one in aggregator.refused] == ["cat"]
    assert reason in aggregator.refused[0].reason


# ---- ciphertexts that hold something else ------------------------------------------------------------------


def _holds(name: str, numbers: np.ndarray) -> Lie:
    return lambda sums, parts, sent: {**parts, "share": encrypted(sums, numbers)}


@pytest.fixture
def paillier(toy: SecretKey) -> PaillierSum:
    return PaillierSum(CODE, LENGTH, norm=4.0, key=toy.public, secret=toy)


def by(place: int, steps: int) -> np.ndarray:
    out = np.zeros(LENGTH, int)
    out[place] = steps
    return out


@pytest.mark.parametrize("numbers", [LONG, WHOLE["cat"] + by(39, 1), WHOLE["cat"] - by(0, 1), WHOLE["ann"]])
def test_ciphertexts_of_another_vector_are_found_client_by_client(paillier, numbers: np.ndarray) -> None:
    aggregator, questions, total = run(paillier, {"cat": _holds("cat", numbers)})
    reason = "ciphertexts must hold the vector that was proven, got another."
    assert aggregator.refused == [("cat", "share", reason)]
    assert total.tobytes() == expected(("ann", "bob", "dan", "eve"))
    assert [one["about"] for one in questions] == [b"lengths", b"links", b"links"]
    assert [len(split_entries(one["groups"])) for one in questions[1:]] == [1, 5]


@pytest.mark.parametrize("slots", [1, -1])
def test_plaintexts_beyond_the_slots_are_found(paillier: PaillierSum, slots: int) -> None:
    """What no packing makes: a bit above all slots, and one below zero of the last."""

    def lie(sums: PaillierSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
        plain = sums.packing.pack(WHOLE["cat"])
        plain[-1] += slots << sums.packing.slots * sums.packing.slot_bits
        return {**parts, "share": Encryptor(sums.key).encrypt(plain).to_bytes()}

    aggregator, _, total = run(paillier, {"cat": lie})
    assert [one.client for one in aggregator.refused] == ["cat"]
    assert total.tobytes() == expected(("ann", "bob", "dan", "eve"))


def test_two_liars_whose_lies_cancel_leave_the_sum_that_was_proven(paillier: PaillierSum) -> None:
    lies = {"cat": _holds("cat", WHOLE["cat"] + by(3, 500)), "dan": _holds("dan", WHOLE["dan"] - by(3, 500))}
    aggregator, questions, total = run(paillier, lies)
    assert total.tobytes() == expected(NAMES)
    assert (aggregator.included, len(questions)) == (NAMES, 2)
    lies["dan"] = _holds("dan", WHOLE["dan"] - by(3, 499))
    aggregator, questions, total = run(paillier, lies)
    assert {one.client for one in aggregator.refused} == {"cat", "dan"}
    assert total.tobytes() == expected(("ann", "bob", "eve"))


def test_a_liar_with_both_lies_and_an_honest_rest(paillier: PaillierSum) -> None:
    aggregator, _, total = run(paillier, {"ann": _longer, "cat": _noise, "eve": _holds("eve", LONG)})
    assert aggregator.included == ("bob", "dan")
    assert total.tobytes() == expected(("bob", "dan"))
    assert [one.client for one in aggregator.refused] == ["ann", "cat", "eve"]


def test_what_the_key_holder_decrypts_is_what_it_knew(paillier: PaillierSum, toy: SecretKey) -> None:
    """The plaintext of a question about links is the same for two vectors and one other half."""
    coins, other = secrets.token_bytes(32), from_ints([secrets.randbits(126) for _ in range(LENGTH)])
    seen = set()
    for numbers in (WHOLE["ann"], WHOLE["bob"], np.zeros(LENGTH, int)):
        share = Encryptor(toy.public).encrypt(paillier.packing.pack(numbers))
        half = add(from_signed(numbers), negative(other))
        asked = ask_link(share, half, paillier.packing, coins)
        seen.add(decrypt(toy, asked)[0] % toy.public.n)
        again = ask_link(share, half, paillier.packing, coins)
        assert again.values != asked.values  # hidden anew each time
        assert links(toy, asked, [other], paillier.packing, coins) == [True]
    assert len(seen) == 1


def test_the_weights_are_of_forty_bits_and_every_ciphertext_counts(
    paillier: PaillierSum, toy: SecretKey
) -> None:
    other = from_ints([secrets.randbits(126) for _ in range(LENGTH)])
    numbers = WHOLE["ann"]
    half = add(from_signed(numbers), negative(other))
    for place in range(0, LENGTH, paillier.packing.slots):
        for steps in (1, -1, 1 << WEIGHT_BITS):
            coins = secrets.token_bytes(32)
            wrong = numbers + by(place, steps if abs(steps) == 1 else 0)
            plain = paillier.packing.pack(wrong)
            if abs(steps) != 1:
                plain[place // paillier.packing.slots] += steps
            asked = ask_link(Encryptor(toy.public).encrypt(plain), half, paillier.packing, coins)
            assert links(toy, asked, [other], paillier.packing, coins) == [False]


# ---- settings and messages in the wrong order --------------------------------------------------------------


def test_a_norm_must_fit_the_grid(toy: SecretKey) -> None:
    key = ShareKey()
    for norm, words in (
        (None, "norm must be given, got None. Shared sums need"),
        (4.5, "norm must be at most the bound 4.0, got 4.5. Take a larger bound"),
        (0.0, "norm must be a finite number above 0, got 0.0"),
        (float("nan"), "norm must be a finite number above 0, got nan"),
        (2**-11, "norm must be a multiple of the step"),
    ):
        with pytest.raises(ValueError, match=words.replace(".", r"\.")):
            SharedSum(CODE, LENGTH, norm=norm, key=key.public)
    with pytest.raises(ValueError, match=r"norm / step must be at most \d+, got \d+\. Take a larger step"):
        SharedSum(FixedPoint(1.0, 2.0**-40, 2), LENGTH, norm=1.0, key=key.public)
    with pytest.raises(ValueError, match=r"norm / step must be at most"):
        PaillierSum(FixedPoint(1.0, 2.0**-40, 2), LENGTH, norm=1.0, key=toy.public)
    with pytest.raises(ValueError, match=r"norm must be None in a masked sum, got 1\.0\. Nobody can look"):
        MaskedSum(CODE, LENGTH, norm=1.0)
    with pytest.raises(ValueError, match="key must be 32 bytes long, got 3"):
        SharedSum(CODE, LENGTH, norm=1.0, key=b"abc")
    with pytest.raises(ValueError, match="secret must be the secret key of key, got another key"):
        SharedSum(CODE, LENGTH, norm=1.0, key=key.public, secret=ShareKey())
    with pytest.raises(TypeError, match="ShareKey cannot be copied"):
        copy.copy(key)


def test_honest_code_refuses_a_longer_vector(sums: ProvenSum) -> None:
    with pytest.raises(
        ValueError, match=r"length of a share must be at most 4, got 18\.97\. Clip it first\."
    ):
        sums.client("cat", LONG)


def test_only_the_holder_of_the_key_judges(sums: ProvenSum) -> None:
    public = replace(sums, secret=None)
    aggregator = public.aggregator(ROUND, NAMES)
    inbox = aggregator.begin()
    aggregator.gather([(name, public.client(name, WHOLE[name]).reply(inbox[name])) for name in NAMES])
    question = aggregator.question()
    with pytest.raises(ValueError, match=r"secret must be given, got None\. Only the holder"):
        public.judge(question, ROUND)
    with pytest.raises(ValueError, match="verdicts must be heard"):
        aggregator.question()
    with pytest.raises(ValueError, match="round must be 4, got 3"):
        sums.judge(question, 4)
    envelope = Envelope(sums.fingerprint, ROUND)
    few = envelope.seal("verdicts", READER, join_entries({"ann": b""}))
    with pytest.raises(ValueError, match=r"verdicts must be on all that was asked, once each, got \['ann'\]"):
        aggregator.heed(few)
    wrong = envelope.seal("question", AGGREGATOR, join_entries({"about": b"weather"}))
    with pytest.raises(ValueError, match="question must be about lengths, got b'weather'"):
        sums.judge(wrong, ROUND)


def test_a_sum_without_proofs_is_asked_nothing(toy: SecretKey) -> None:
    plain = PaillierSum(CODE, LENGTH, key=toy.public, secret=toy)
    aggregator = plain.aggregator(ROUND, NAMES)
    assert aggregator.question() is None
    with pytest.raises(ValueError, match="verdicts must be asked for"):
        aggregator.heed(b"")
    with pytest.raises(ValueError, match="question must be one about proofs"):
        MaskedSum(CODE, LENGTH).judge(b"", ROUND)


def test_the_reader_finds_the_secret_that_a_client_hid(sums: ProvenSum) -> None:
    pairs = [sums.hide() for _ in range(3)]
    assert sums.find([hidden for _, hidden in pairs]) == [secret for secret, _ in pairs]
    assert len({secret for secret, _ in pairs}) == 3
    with pytest.raises(ValueError, match="must be"):
        sums.check_hidden(X25519PrivateKey.generate().public_key().public_bytes_raw()[:31])
