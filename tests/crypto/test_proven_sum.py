"""Dishonest clients in sums whose vectors nobody reads: each is refused by name, and the rest is added up."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

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
)
from veilrec.crypto.four_squares import four_squares
from veilrec.crypto.length_proof import squares
from veilrec.crypto.masks import seal
from veilrec.crypto.messages import Envelope, join_entries, split_entries
from veilrec.crypto.paillier import exponents
from veilrec.crypto.paillier_link import WEIGHT_BITS, expected_link, told_link
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


def halves(sums: ProvenSum, name: str, x: np.ndarray) -> Parts:
    """What honest code sends for rows that nobody checked, under a fresh secret."""
    secret, hidden = sums.hide()
    key = sums.client_key(secret, hidden, "half", ROUND, name)
    out = {"hidden": hidden, "half": to_bytes(sums.proof.half_of(x, key))}
    if isinstance(sums, PaillierSum):
        share, seed = Encryptor(sums.key).encrypt_lot(sums.packing.pack(x.reshape(-1)[:LENGTH]))
        out["share"] = share.to_bytes()
        out["seed"] = seal(sums.client_key(secret, hidden, "seed", ROUND, name), seed)
    return out


def laid(numbers: np.ndarray, *rest: int) -> np.ndarray:
    zeros = np.zeros(64 - len(numbers) - len(rest), np.int64)
    return np.concatenate([numbers, np.array(rest, np.int64), zeros]).reshape(1, 64)


# ---- one liar ----------------------------------------------------------------------------------------------


def _longer(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
    """The proof of a vector that is too long, as good as it can be, and its ciphertexts, if there are any."""
    return halves(sums, "cat", laid(LONG))


def _longer_by_one(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
    x = np.zeros(LENGTH, int)
    x[:2] = 4096, 1
    return halves(sums, "cat", laid(x))


def _changed(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
    """A step more in one number of the half, and in the ciphertext that goes with it."""
    half = np.frombuffer(parts["half"], "<u8").reshape(-1, 3).copy()
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
    return {**parts, "half": secrets.token_bytes(len(parts["half"]))}


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
        ({"hidden": b""}, "public key must be 32 bytes long, got 0"),
        ({"hidden": bytes(32)}, "public key must be a point of large order"),
        ({"more": b""}, "share must be"),
        ({"hidden": None}, "share must be"),
        ({"half": None}, "share must be"),
    ],
)
def test_malformed_parts_are_refused_at_once(sums: ProvenSum, change: dict[str, Any], reason: str) -> None:
    def lie(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
        out = {**parts, **change}
        return {name: one for name, one in out.items() if one is not None}

    aggregator, _, total = run(sums, {"cat": lie})
    assert total.tobytes() == expected(aggregator.included)
    assert [one.client for one in aggregator.refused] == ["cat"]
    assert reason in aggregator.refused[0].reason


# ---- ciphertexts that hold something else ------------------------------------------------------------------


def _holds(name: str, numbers: np.ndarray) -> Lie:
    """The same randomisers around other numbers."""

    def lie(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
        assert isinstance(sums, PaillierSum)
        share, n = Ciphertexts.from_bytes(parts["share"], sums.key), sums.key.n
        pairs = zip(sums.packing.pack(numbers), sums.packing.pack(WHOLE[name]))
        values = [c * (1 + (new - old) * n) % n**2 for c, (new, old) in zip(share.values, pairs)]
        return {**parts, "share": Ciphertexts(sums.key, tuple(values)).to_bytes()}

    return lie


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
    assert [len(split_entries(one["clients"])) for one in questions[1:]] == [1, 5]


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


@pytest.mark.parametrize("seed", [b"", bytes(47), bytes(48), secrets.token_bytes(48)])
def test_a_seed_that_cannot_be_read_is_refused(paillier: PaillierSum, seed: bytes) -> None:
    aggregator, _, total = run(paillier, {"cat": lambda sums, parts, sent: {**parts, "seed": seed}})
    assert [one.client for one in aggregator.refused] == ["cat"]
    assert total.tobytes() == expected(("ann", "bob", "dan", "eve"))


def test_the_reader_knows_beforehand_what_it_is_told_about_links(
    paillier: PaillierSum, toy: SecretKey
) -> None:
    """Its half and the seed are all that the hash depends on: two vectors give the same one."""
    coins, other = secrets.token_bytes(32), from_ints([secrets.randbits(190) for _ in range(LENGTH)])
    seen, encryptor = set(), Encryptor(toy.public)
    seed, lot = encryptor._lot(paillier.ciphertexts)
    for numbers in (WHOLE["ann"], WHOLE["bob"], np.zeros(LENGTH, int)):
        encryptor._lots.append((seed, list(lot)))
        share, same = encryptor.encrypt_lot(paillier.packing.pack(numbers))
        assert same == seed
        half = add(from_signed(numbers), negative(other))
        seen.add(told_link(share, half, paillier.packing, coins))
    known = exponents(toy.public, seed, paillier.ciphertexts)
    assert seen == {expected_link(toy.public, other, known, paillier.packing, coins)}


def test_every_ciphertext_counts_and_every_weight_is_new(paillier: PaillierSum, toy: SecretKey) -> None:
    other, numbers = from_ints([secrets.randbits(190) for _ in range(LENGTH)]), WHOLE["ann"]
    half, packing, n = add(from_signed(numbers), negative(other)), paillier.packing, toy.public.n
    share, seed = Encryptor(toy.public).encrypt_lot(packing.pack(numbers))
    known = exponents(toy.public, seed, len(share))
    told = set()
    for place in range(len(share)):
        for error in (1, -1, 1 << WEIGHT_BITS, n // 2):
            coins = secrets.token_bytes(32)
            values = list(share.values)
            good = expected_link(toy.public, other, known, packing, coins)
            assert told_link(share, half, packing, coins) == good
            values[place] = values[place] * (1 + error * n) % (n * n)
            assert told_link(Ciphertexts(toy.public, tuple(values)), half, packing, coins) != good
            told.add(good)
    assert len(told) == 4 * len(share)


# ---- a friend of the aggregator ----------------------------------------------------------------------------


def _guessing(numbers: np.ndarray, own_seed: bool) -> Lie:
    """Cat has ann's message from the aggregator: it sends ann's ciphertexts as its own and proves a guess."""

    def lie(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
        assert isinstance(sums, PaillierSum)
        out = halves(sums, "cat", laid(numbers, *four_squares(sums.proof.most**2 - squares(numbers))))
        out["share"] = sent["ann"]["share"]
        return out if own_seed else {**out, "seed": sent["ann"]["seed"]}

    return lie


@pytest.mark.parametrize("own_seed", [True, False])
def test_nobody_can_test_a_guess_of_what_is_in_another_clients_ciphertexts(paillier, own_seed: bool) -> None:
    """Right or wrong, the guess is refused: the guesser does not know ann's randomisers."""
    for guess in (WHOLE["ann"], WHOLE["bob"]):
        aggregator, _, total = run(paillier, {"cat": _guessing(guess, own_seed)})
        assert [one.client for one in aggregator.refused] == ["cat"]
        assert total.tobytes() == expected(("ann", "bob", "dan", "eve"))


def test_what_was_sent_in_one_run_is_worth_nothing_in_another(sums: ProvenSum) -> None:
    """A friend of the aggregator has ann's old message, and ann's name in the next run: still no sum."""
    envelope, old = Envelope(sums.fingerprint, ROUND), sums.aggregator(ROUND, NAMES)
    sent = sums.client("ann", WHOLE["ann"]).reply(old.begin()["ann"])
    kept = envelope.open(sent, "share", "ann")
    for again in (replace(sums, run=secrets.token_hex(16)), replace(sums, least=3)):
        now, aggregator = Envelope(again.fingerprint, ROUND), again.aggregator(ROUND, NAMES)
        inbox = aggregator.begin()
        replies = [(name, again.client(name, WHOLE[name]).reply(inbox[name])) for name in NAMES[1:]]
        aggregator.gather([("ann", now.seal("share", "ann", kept)), *replies])
        while (question := aggregator.question()) is not None:
            aggregator.heed(again.judge(question, ROUND))
        assert [one.client for one in aggregator.refused] == ["ann"]
        assert again.open(aggregator.aggregate(), ROUND).tobytes() == expected(NAMES[1:])
    assert type(sums)(CODE, LENGTH, norm=4.0, key=sums.key, secret=sums.secret).run != sums.run


def test_a_copied_public_key_gives_nobody_the_secret(sums: ProvenSum) -> None:
    """Whatever cat sends with ann's public key is judged under a key that cat cannot know."""

    def lie(sums: ProvenSum, parts: Parts, sent: Mapping[str, Parts]) -> Parts:
        return {**parts, "hidden": sent["ann"]["hidden"]}

    aggregator, _, _ = run(sums, {"cat": lie})
    assert [one.client for one in aggregator.refused] == ["cat"]
    secret, hidden = sums.hide()
    keys = {sums.client_key(secret, hidden, "half", r, n) for r in (1, 2) for n in ("ann", "cat")}
    assert len(keys | {sums.client_key(secret, bytes(32), "half", 1, "ann")}) == 5


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
        PaillierSum(FixedPoint(1.0, 2.0**-40, 2), LENGTH, norm=1.0, key=toy.public, secret=toy)
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
    parts = split_entries(envelope.open(question, "question", AGGREGATOR))
    for change, words in (
        ({"about": b"weather"}, "question must be about lengths, got b'weather'"),
        ({"more": b""}, "question must be of about, clients, coins, told, got"),
        ({"told": b""}, "clients asked about must be the same in both parts"),
        ({"coins": b""}, "coins must be 32 bytes long, got 0"),
    ):
        with pytest.raises(ValueError, match=words):
            sums.judge(envelope.seal("question", AGGREGATOR, join_entries({**parts, **change})), ROUND)


def begun(sums: ProvenSum) -> SumAggregator:
    """A round to the point where questions are asked; cat's half is noise."""
    aggregator = sums.aggregator(ROUND, NAMES)
    inbox, envelope = aggregator.begin(), Envelope(sums.fingerprint, ROUND)
    replies = {name: sums.client(name, WHOLE[name]).reply(inbox[name]) for name in NAMES}
    parts = _noise(sums, split_entries(envelope.open(replies["cat"], "share", "cat")), {})
    aggregator.gather({**replies, "cat": envelope.seal("share", "cat", join_entries(parts))}.items())
    return aggregator


def test_nothing_is_added_up_before_all_is_judged(sums: ProvenSum, monkeypatch: pytest.MonkeyPatch) -> None:
    envelope = Envelope(sums.fingerprint, ROUND)
    nothing = envelope.seal("verdicts", READER, b"")
    for early in (False, True):
        aggregator = begun(sums)
        with pytest.raises(ValueError, match="proofs must be judged"):
            aggregator.aggregate()
        with pytest.raises(ValueError, match="verdicts must be asked for"):
            aggregator.heed(nothing)
        if early:  # a question that fails while it is made counts for nothing
            with monkeypatch.context() as broken:
                broken.setattr(type(sums.proof), "evidence", lambda *_: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    aggregator.question()
        question = aggregator.question()
        with pytest.raises(ValueError, match="proofs must be judged"):
            aggregator.aggregate()
        aggregator.heed(sums.judge(question, ROUND))
        with pytest.raises(ValueError, match="verdicts must be asked for"):
            aggregator.heed(nothing)
        while (question := aggregator.question()) is not None:
            aggregator.heed(sums.judge(question, ROUND))
        assert sums.open(aggregator.aggregate(), ROUND).tobytes() == expected(("ann", "bob", "dan", "eve"))


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
    assert [sums.agreed_secret.find(hidden) for _, hidden in pairs] == [secret for secret, _ in pairs]
    assert len({secret for secret, _ in pairs}) == 3


def test_a_paillier_key_has_one_key_for_proofs_and_tells_the_public_one(paillier, toy: SecretKey) -> None:
    again = PaillierSum(CODE, LENGTH, norm=4.0, key=toy.public, secret=toy)
    assert again.proof_key == paillier.proof_key
    assert (
        again.proof_key
        != PaillierSum(
            CODE, LENGTH, norm=4.0, key=(other := SecretKey.for_tests()).public, secret=other
        ).proof_key
    )
    with pytest.raises(ValueError, match="secret must be given, got None"):
        PaillierSum(CODE, LENGTH, norm=4.0, key=toy.public)  # nobody told it the key for proofs
    with pytest.raises(ValueError, match="proof_key must be 32 bytes long"):
        PaillierSum(CODE, LENGTH, norm=4.0, key=toy.public, proof_key=b"short")
    with pytest.raises(ValueError, match="proof_key must be that of the secret key, got another key"):
        replace(paillier, proof_key=bytes(32))


def test_what_a_client_sends_does_not_make_an_error_long(sums: ProvenSum) -> None:
    aggregator, _, _ = run(sums, {"cat": lambda sums, parts, sent: {**parts, "x" * 100_000: b""}})
    assert len(aggregator.refused[0].reason) <= 500
