"""Secure sums: the same bits from every backend, bad shares refused by name, clients that drop out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from veilrec.core import stream
from veilrec.crypto import (
    AGGREGATOR,
    SUMS,
    Ciphertexts,
    Encryptor,
    FixedPoint,
    MaskedSum,
    PaillierSum,
    PlainSum,
    SecretKey,
    SecureSum,
    SharedSum,
    ShareKey,
    SumAggregator,
    SumClient,
    sum_from_bytes,
)
from veilrec.crypto.messages import Envelope, join_entries, split_entries

CODE = FixedPoint(bound=8.0, step=2**-10, clients=6)
NAMES = ("ann", "bob", "cat", "dan", "eve")
KINDS = ("masked", "paillier", "paillier, proven", "plain", "plain, norm", "shared")
SHARE_KEY = ShareKey()


def backend(word: str, toy: SecretKey, code: FixedPoint = CODE, length: int = 7, least: int = 2) -> SecureSum:
    norm = None if word in ("masked", "paillier", "plain") else code.bound
    if word.startswith("paillier"):
        return PaillierSum(code, length, least, norm=norm, key=toy.public, secret=toy)
    if word == "shared":
        return SharedSum(code, length, least, norm=norm, key=SHARE_KEY.public, secret=SHARE_KEY)
    return SUMS[word.split(",")[0]](code, length, least, norm=norm)


def asked(sums: SecureSum, aggregator: SumAggregator, round: int) -> int:
    """Let the reader judge all that the aggregator asks; how many questions there were."""
    count = 0
    while (question := aggregator.question()) is not None:
        aggregator.heed(sums.judge(question, round))
        count += 1
    return count


def vectors(length: int = 7, names: Iterable[str] = NAMES) -> dict[str, np.ndarray]:
    return {name: stream(1, "values", name).uniform(-2, 2, length) for name in names}


def exact(values: Mapping[str, np.ndarray], code: FixedPoint = CODE) -> list[Fraction]:
    """The slow oracle: round each value to the grid in exact arithmetic, add fractions."""
    step = Fraction(code.step)
    return [sum(round(Fraction(float(x)) / step) * step for x in column) for column in zip(*values.values())]


Change = Callable[[str, str, bytes], Iterable[bytes]]


def run(
    sums: SecureSum, values: Mapping[str, np.ndarray], change: Change | None = None, round: int = 4
) -> tuple[SumAggregator, np.ndarray]:
    """A round in which ``change(client, kind, reply)`` decides what arrives: nothing, the reply, or worse."""
    clients = {name: sums.client(name, sums.codec.encode(one)) for name, one in values.items()}
    aggregator = sums.aggregator(round, clients)
    inbox = aggregator.begin()
    for _, kind in sums.phases:
        replies = []
        for name, message in inbox.items():
            reply = clients[name].reply(message)
            replies += [(name, one) for one in (change(name, kind, reply) if change else [reply])]
        inbox = aggregator.gather(replies)
    asked(sums, aggregator, round)
    return aggregator, sums.open(aggregator.aggregate(), round)


def without(values: Mapping[str, np.ndarray], *names: str) -> dict[str, np.ndarray]:
    return {name: one for name, one in values.items() if name not in names}


WORDS = pytest.mark.parametrize("word", KINDS)


# ---- the same sum everywhere -------------------------------------------------------------------------------


@settings(max_examples=15)
@given(st.data(), st.integers(2, 5), st.integers(1, 30), st.integers(-20, 3), st.integers(1, 2**25))
def test_all_backends_give_the_same_bits(toy: SecretKey, data, count, length, power, levels) -> None:
    most = levels * 2.0**power  # of a value; a vector of 30 is not longer than 6 times that
    code = FixedPoint(6 * most, 2.0**power, count)
    numbers = st.lists(st.floats(-most, most), min_size=length, max_size=length)
    values = {NAMES[i]: np.array(data.draw(numbers)) for i in range(count)}
    totals = {word: backend(word, toy, code, length).total(values) for word in KINDS}
    assert [Fraction(float(x)) for x in totals["plain"].values] == exact(values, code)
    for total in totals.values():
        assert total.values.tobytes() == totals["plain"].values.tobytes()
        assert total.included == tuple(values)
        assert total.refused == ()


def test_a_real_key_and_the_extremes(secret: SecretKey) -> None:
    code = FixedPoint(bound=8.0, step=2**-24, clients=50)
    names = [f"client {i}" for i in range(50)]
    values = {name: np.array([8.0, -8.0, 2**-25, 0.0, 1 / 3]) for name in names}
    plain = PlainSum(code, 5).total(values).values
    assert plain[:2].tolist() == [400.0, -400.0]
    paillier = PaillierSum(code, 5, key=secret.public, secret=secret)
    assert paillier.total(values).values.tobytes() == plain.tobytes()
    assert MaskedSum(code, 5).total(values).values.tobytes() == plain.tobytes()


def test_masks_use_words_that_hold_the_sum() -> None:
    assert MaskedSum(FixedPoint(1.0, 2**-28, 4), 1).dtype is np.uint32  # 32 bits with the sign
    wide = FixedPoint(1.0, 2**-28, 8)
    assert MaskedSum(wide, 1).dtype is np.uint64
    assert MaskedSum(wide, 1).total({name: [-1.0] for name in "abcdefgh"}).values.tolist() == [-8.0]


# ---- bad shares --------------------------------------------------------------------------------------------


def spoil(sums: SecureSum, how: str) -> Change:
    """What cat does wrong in the phase that carries its vector."""
    kind = sums.phases[3 if sums.word == "masked" else 0][1]

    def change(name: str, found: str, reply: bytes) -> Iterable[bytes]:
        if name != "cat" or found != kind:
            return [reply]
        payload = Envelope(sums.fingerprint, 4).open(reply, kind, name)
        return {
            "nothing": [],
            "empty": [b""],
            "noise": [b"\x07" * 300],
            "cut": [reply[:-1]],
            "longer": [reply + b"\0"],
            "other name": [Envelope(sums.fingerprint, 4).seal(kind, "ann", payload)],
            "other round": [Envelope(sums.fingerprint, 3).seal(kind, name, payload)],
            "other settings": [Envelope(bytes(16), 4).seal(kind, name, payload)],
            "other kind": [Envelope(sums.fingerprint, 4).seal("begin", name, payload)],
        }[how]

    return change


@WORDS
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("nothing", None),
        ("empty", "message must be at least"),
        ("noise", "message must be a message of veilrec"),
        ("cut", "bytes"),
        ("longer", "bytes"),
        ("other name", "sender must be 'cat', got 'ann'"),
        ("other round", "round must be 4, got 3"),
        ("other settings", "settings fingerprint must be"),
        ("other kind", "kind of message must be"),
    ],
)
def test_a_bad_share_is_refused_and_the_round_goes_on(toy: SecretKey, word, how, reason) -> None:
    sums, values = backend(word, toy), vectors()
    aggregator, total = run(sums, values, spoil(sums, how))
    assert [Fraction(float(x)) for x in total] == exact(without(values, "cat"))
    assert "cat" not in aggregator.included
    assert [one.client for one in aggregator.refused] == ([] if reason is None else ["cat"])
    for one in aggregator.refused:
        assert reason in one.reason


@WORDS
def test_the_oracle_sees_a_share_too_many(toy: SecretKey, word: str) -> None:
    """The negative control of the test above: with cat's share the sum is another one."""
    values = vectors()
    _, total = run(backend(word, toy), values)
    assert [Fraction(float(x)) for x in total] != exact(without(values, "cat"))
    assert [Fraction(float(x)) for x in total] == exact(values)


@WORDS
def test_a_second_share_and_a_stranger_are_refused(toy: SecretKey, word: str) -> None:
    sums, values = backend(word, toy), vectors()
    aggregator, total = run(
        sums, values, lambda name, kind, reply: [reply, reply] if name == "bob" else [reply]
    )
    assert [Fraction(float(x)) for x in total] == exact(values)  # bob once
    assert {(one.client, one.reason) for one in aggregator.refused} == {
        ("bob", "client must be heard once in a phase, got 'bob'. The first message counts.")
    }
    begun = sums.aggregator(4, NAMES)
    begun.begin()
    begun.gather(
        [("mallory", sums.client("mallory", sums.codec.encode(values["ann"])).reply(begun.begin()["ann"]))]
    )
    assert begun.refused[0].reason == "client must be invited to this phase, got 'mallory'."


@WORDS
@pytest.mark.parametrize("thing", [None, "text", 7, bytearray(300), memoryview(bytes(300))])
def test_what_is_not_bytes_is_refused_by_name(toy: SecretKey, word: str, thing) -> None:
    sums, values = backend(word, toy), vectors()
    aggregator, total = run(sums, values, lambda name, _, reply: [thing if name == "cat" else reply])
    assert [Fraction(float(x)) for x in total] == exact(without(values, "cat"))
    reason = f"message must be bytes, got {type(thing)}. Parties share no objects."
    assert aggregator.refused[0] == ("cat", sums.phases[0][1], reason)
    with pytest.raises(ValueError, match="message must be bytes, got"):
        sums.client("ann", np.zeros(7, np.int64)).reply(thing)


def test_an_unclipped_share_is_refused_where_it_can_be_seen(toy: SecretKey) -> None:
    sums, values = backend("plain", toy), vectors()
    unclipped = np.full(7, 8193, "<i8").tobytes()  # the bound is 8192 steps

    def change(name: str, kind: str, reply: bytes) -> Iterable[bytes]:
        return [Envelope(sums.fingerprint, 4).seal(kind, name, unclipped) if name == "cat" else reply]

    aggregator, total = run(sums, values, change)
    assert [Fraction(float(x)) for x in total] == exact(without(values, "cat"))
    assert "encoded values must be from -8192 to 8192, got 8193 at 0" in aggregator.refused[0].reason
    for word in KINDS:  # and no honest client's code makes one
        with pytest.raises(ValueError, match="encoded values must be from -8192 to 8192"):
            backend(word, toy).client("cat", np.full(7, 8193))


class _Unclipped(SecureSum):
    """Mixed into a backend, it lets a client's vector through unchecked."""

    def checked(self, integers):
        return np.asarray(integers)


@pytest.mark.parametrize("base", [PaillierSum, MaskedSum])
def test_a_hidden_unclipped_share_stops_the_round_when_the_sum_is_read(toy: SecretKey, base) -> None:
    honest = backend(base.word, toy)
    liar = type("Liar", (_Unclipped, base), {"__hash__": None})
    extra = {"key": toy.public, "run": honest.run} if base is PaillierSum else {}
    wild = liar(CODE, 7, 2, **extra)
    clients: dict[str, SumClient] = {"ann": honest.client("ann", CODE.encode(np.zeros(7)))}
    clients["eve"] = wild.client("eve", np.full(7, 2 * 8192 + 1))
    aggregator = honest.aggregator(0, clients)
    inbox = aggregator.begin()
    for _ in honest.phases:
        inbox = aggregator.gather([(name, clients[name].reply(data)) for name, data in inbox.items()])
    assert aggregator.refused == []
    with pytest.raises(ValueError, match="encoded values must be from -16384 to 16384, got 16385 at 0"):
        honest.open(aggregator.aggregate(), 0)


def test_a_paillier_share_must_be_one_client_under_the_right_key(toy: SecretKey) -> None:
    sums, values = backend("paillier", toy), vectors()
    other = Encryptor(SecretKey.for_tests(256).public)
    mine = Encryptor(toy.public)
    two = mine.encrypt([1] * sums.ciphertexts) + mine.encrypt([1] * sums.ciphertexts)
    bad = {
        "key fingerprint must be": other.encrypt([1] * sums.ciphertexts),
        "ciphertexts in a share must be": mine.encrypt([1] * (sums.ciphertexts + 1)),
        "summands of a share must be": two,
        "ciphertexts must be invertible": Ciphertexts(toy.public, (mine._n,) * sums.ciphertexts),
    }
    for words, share in bad.items():
        sealed = Envelope(sums.fingerprint, 4).seal("share", "cat", share.to_bytes())
        aggregator, total = run(
            sums, values, lambda name, _, reply, sealed=sealed: [sealed if name == "cat" else reply]
        )
        assert words in aggregator.refused[0].reason
        assert [Fraction(float(x)) for x in total] == exact(without(values, "cat"))


# ---- aggregates --------------------------------------------------------------------------------------------


@WORDS
def test_a_sum_of_too_few_is_not_forwarded(toy: SecretKey, word: str) -> None:
    sums = backend(word, toy, least=3)
    with pytest.raises(ValueError, match="number of clients must be from 3 to 6, got 2"):
        sums.aggregator(0, ["ann", "bob"])
    values = vectors(names=NAMES[:3])
    with pytest.raises(ValueError, match=r"(clients in the sum|survivors) must be at least 3, got"):
        run(sums, values, spoil(sums, "nothing"))
    if word != "masked":  # whose clients refuse before the aggregator can
        few = sums.aggregator(0, values)
        begun = few.begin()
        few.gather(
            (name, sums.client(name, CODE.encode(values[name])).reply(begun[name])) for name in NAMES[:2]
        )
        assert few.question() is None  # nor is the reader asked anything about them
        with pytest.raises(ValueError, match=r"clients in the sum must be at least 3, got \('ann', 'bob'\)"):
            few.aggregate()
    with pytest.raises(ValueError, match="least must be a whole number of at least 2, got 1"):
        backend(word, toy, least=1)


@WORDS
def test_bad_aggregates_are_refused(toy: SecretKey, word: str) -> None:
    sums, values = backend(word, toy), vectors()
    clients = {name: sums.client(name, CODE.encode(one)) for name, one in values.items()}
    aggregator = sums.aggregator(4, clients)
    with pytest.raises(ValueError, match="phase must be the last, got 0"):
        aggregator.aggregate()
    inbox = aggregator.begin()
    for _ in sums.phases:
        inbox = aggregator.gather([(name, clients[name].reply(data)) for name, data in inbox.items()])
    with pytest.raises(ValueError, match="phase must be open"):
        aggregator.gather([])
    proven = word in ("paillier, proven", "shared")
    if proven:
        with pytest.raises(ValueError, match=r"proofs must be judged, got .* Ask the reader first"):
            aggregator.aggregate()
    assert asked(sums, aggregator, 4) == (0 if not proven else 1 if word == "shared" else 2)
    good = aggregator.aggregate()
    envelope = Envelope(sums.fingerprint, 4)
    payload = envelope.open(good, "aggregate", AGGREGATOR)
    if word == "shared":
        parts = split_entries(payload)
        hidden = dict.fromkeys((*NAMES, "fay", "gus"), next(iter(split_entries(parts["hidden"]).values())))
        few, many = (
            join_entries({**parts, "hidden": join_entries(dict(list(hidden.items())[:number]))})
            for number in (1, 7)
        )
    else:
        at = 27 if word.startswith("paillier") else 0  # where the number of clients stands
        few, many = (payload[:at] + number.to_bytes(4) + payload[at + 4 :] for number in (1, 7))
    for wrong, words in (
        (payload[:-1], "bytes"),
        (few, "at least 2, got 1"),
        (many, "at most 6, got 7"),
    ):
        with pytest.raises(ValueError, match=words):
            sums.open(envelope.seal("aggregate", AGGREGATOR, wrong), 4)
    with pytest.raises(ValueError, match="round must be 5, got 4"):
        sums.open(good, 5)


def test_only_the_holder_of_the_key_opens(toy: SecretKey) -> None:
    sums = backend("paillier", toy)
    public = sum_from_bytes(sums.to_bytes(), insecure=True)
    assert public == sums
    assert public.secret is None
    clients = {name: public.client(name, CODE.encode(one)) for name, one in vectors().items()}
    aggregator = public.aggregator(0, clients)
    aggregator.gather([(name, clients[name].reply(data)) for name, data in aggregator.begin().items()])
    with pytest.raises(ValueError, match=r"secret must be given, got None\. Only the holder"):
        public.open(aggregator.aggregate(), 0)
    assert [Fraction(float(x)) for x in sums.open(aggregator.aggregate(), 0)] == exact(vectors())
    with pytest.raises(ValueError, match="secret must be the secret key of key, got another key"):
        PaillierSum(CODE, 7, key=toy.public, secret=SecretKey.for_tests(256))


def test_random_damage_to_a_ciphertext_is_noticed(toy: SecretKey) -> None:
    sums = backend("paillier", toy)
    damaged = Ciphertexts(toy.public, tuple(one + 1 for one in Encryptor(toy.public).encrypt([0]).values), 2)
    sealed = Envelope(sums.fingerprint, 0).seal("aggregate", AGGREGATOR, damaged.to_bytes())
    with pytest.raises(ValueError, match=r"plaintexts must be packed in .* got other bits"):
        sums.open(sealed, 0)


def test_settings_travel_as_bytes(toy: SecretKey) -> None:
    for word in KINDS:
        sums = backend(word, toy)
        assert sum_from_bytes(sums.to_bytes(), insecure=True) == sums
        assert len({sums.fingerprint, backend(word, toy, least=3).fingerprint}) == 2
    with pytest.raises(ValueError, match="key size must be 2048 or 3072 bits, got 256"):
        sum_from_bytes(backend("paillier", toy).to_bytes())


def test_settings_that_cannot_be_read_are_told_in_words(toy: SecretKey) -> None:
    plain, paillier = backend("plain", toy).to_bytes(), backend("paillier", toy).to_bytes()
    key = toy.public.to_bytes().hex().encode()
    no_json = "settings of a sum must be JSON with bound, clients, .* Send what to_bytes"
    for wrong in (b"", b"[]", b"{}", b"\xff", plain[:-1], b"[" * 100_000, b"1" * 5000):
        with pytest.raises(ValueError, match=no_json) as caught:
            sum_from_bytes(wrong)
        assert type(caught.value) is ValueError
    for wrong in (None, "text"):
        with pytest.raises(ValueError, match="settings of a sum must be bytes, got <class"):
            sum_from_bytes(wrong)
    with pytest.raises(ValueError, match="sum must be one of plain, paillier, masked, shared, got 'plane'"):
        sum_from_bytes(plain.replace(b"plain", b"plane"))
    for bad in (b"", b"zz", b"abc", key[:-1], b" " + key):
        with pytest.raises(ValueError, match="key in the settings of a sum must be hexadecimal digits, got"):
            sum_from_bytes(paillier.replace(key, bad), insecure=True)
    with pytest.raises(ValueError, match=r"key in the settings of a sum must be .*, got 'None'"):
        sum_from_bytes(plain.replace(b"plain", b"paillier"))
    with pytest.raises(ValueError, match="step must be a power of two"):
        sum_from_bytes(plain.replace(b"0.0009765625", b"1" + b"0" * 400))


@WORDS
def test_shapes_and_names_are_checked(toy: SecretKey, word: str) -> None:
    sums = backend(word, toy)
    with pytest.raises(ValueError, match=r"shape of a share must be '?\(7,\)'?, got \(6,\)"):
        sums.client("ann", np.zeros(6, np.int64))
    with pytest.raises(ValueError, match="signed whole numbers"):
        sums.client("ann", np.zeros(7))
    with pytest.raises(ValueError, match="name must be a client's, got 'aggregator'"):
        sums.client(AGGREGATOR, np.zeros(7, np.int64))
    with pytest.raises(ValueError, match="names must be given once each"):
        sums.aggregator(0, ["ann", "ann"])
    with pytest.raises(ValueError, match="number of clients must be from 2 to 6, got 7"):
        sums.aggregator(0, list("abcdefg"))
    client = sums.client("ann", np.zeros(7, np.int64))
    with pytest.raises(ValueError, match="round must be begun"):
        _ = client.round
