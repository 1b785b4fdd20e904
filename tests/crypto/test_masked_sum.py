"""Masked sums: drop-outs in every phase, what one client's message tells, and liars."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from veilrec.core import stream
from veilrec.crypto import AGGREGATOR, FixedPoint, MaskedSum, SumClient, masked_sum, masks, shamir
from veilrec.crypto.messages import Envelope, join_entries, split_entries

CODE = FixedPoint(bound=1.0, step=2**-12, clients=7)
NAMES = ("ann", "bob", "cat", "dan", "eve", "fay", "gil")
LENGTH = 5
SUMS = MaskedSum(CODE, LENGTH)
VALUES = {name: stream(2, name).uniform(-1, 1, LENGTH) for name in NAMES}
KINDS = [kind for _, kind in SUMS.phases]


def total_of(*names: str) -> list[float]:
    return CODE.decode(sum(CODE.encode(VALUES[name]) for name in names)).tolist()


class Round:
    """A round in which the test sees every message and decides who is still there."""

    def __init__(self, sums: MaskedSum = SUMS, values: Mapping[str, np.ndarray] = VALUES) -> None:
        self.sums = sums
        self.clients: dict[str, SumClient] = {
            name: sums.client(name, sums.codec.encode(one)) for name, one in values.items()
        }
        self.aggregator = sums.aggregator(1, self.clients)
        self.inbox = self.aggregator.begin()
        self.replies: dict[str, dict[str, bytes]] = {}

    def phase(self, kind: str, *gone: str, change: Mapping[str, bytes] | None = None) -> Round:
        present = {name: data for name, data in self.inbox.items() if name not in gone}
        self.replies[kind] = {name: self.clients[name].reply(data) for name, data in present.items()}
        sent = {**self.replies[kind], **(change or {})}
        self.inbox = self.aggregator.gather(sent.items())
        return self

    def opened(self) -> list[float]:
        return self.sums.open(self.aggregator.aggregate(), 1).tolist()


def sealed(kind: str, name: str, payload: bytes) -> bytes:
    return Envelope(SUMS.fingerprint, 1).seal(kind, name, payload)


def payload(kind: str, name: str, message: bytes, sums: MaskedSum = SUMS) -> bytes:
    return Envelope(sums.fingerprint, 1).open(message, kind, name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gone", [("cat",), ("ann", "gil"), ("bob", "dan", "fay")])
def test_clients_may_vanish_in_any_phase(kind: str, gone: tuple[str, ...]) -> None:
    one = Round()
    for now in KINDS:
        one.phase(now, *(gone if KINDS.index(now) >= KINDS.index(kind) else ()))
    kept = NAMES if kind == "reveal" else tuple(name for name in NAMES if name not in gone)
    assert one.aggregator.included == kept
    assert one.opened() == total_of(*kept)


def test_one_vanishes_after_the_other() -> None:
    one = Round()
    gone = ["ann", "cat", "eve", "gil"]
    for count, kind in zip((1, 1, 2, 3, 4), KINDS):
        one.phase(kind, *gone[:count])
    assert one.aggregator.included == ("bob", "dan", "fay", "gil")
    with pytest.raises(ValueError, match="shares must be at least 4, got 3"):
        one.opened()  # of six in the directory three are left: no majority


def test_a_minority_is_never_revealed() -> None:
    one = Round().phase("keys").phase("shares").phase("opened").phase("masked", "ann", "bob", "cat", "dan")
    with pytest.raises(ValueError, match=r"survivors must be at least 4, got 3\. A sum over fewer"):
        one.phase("reveal")


def forgotten(one: Round) -> list[int]:
    """The sum if nobody takes out the pair masks with those who left: what a naive server would get."""
    total = one.aggregator._total.copy()
    for other in one.aggregator.included:
        secret = one.aggregator._rebuilt(other)
        total -= masks.expand(masks.derive(secret, "own", 1, other, ""), LENGTH, total.dtype)
    return total.view(np.int32).tolist()


def test_a_vanished_client_would_poison_a_sum_that_forgets_it() -> None:
    one = Round().phase("keys").phase("shares").phase("opened").phase("masked", "cat").phase("reveal", "cat")
    good = sum(CODE.encode(VALUES[name]) for name in NAMES if name != "cat").tolist()
    assert forgotten(one) != good
    whole = Round().phase("keys").phase("shares").phase("opened").phase("masked").phase("reveal")
    assert forgotten(whole) == sum(CODE.encode(VALUES[name]) for name in NAMES).tolist()
    assert one.opened() == CODE.decode(good).tolist()


# ---- what a message tells ----------------------------------------------------------------------------------


def looks_masked(words: np.ndarray) -> bool:
    """Whether words are uniform in their top and in their bottom bits."""
    tops, bottoms = words >> (8 * words.itemsize - 4), words & 15
    counts = [np.bincount(part.astype(int), minlength=16) for part in (tops, bottoms)]
    return all(chisquare(one).pvalue > 1e-6 for one in counts)


@pytest.fixture
def _seeded(monkeypatch) -> None:
    """Own masks from a fixed seed; the pair masks are left out, so that each kind must do alone."""
    monkeypatch.setattr(masked_sum.secrets, "token_bytes", stream(9, "own").bytes)


@pytest.mark.usefixtures("_seeded")
@pytest.mark.parametrize("broken", [False, True])
def test_a_masked_vector_looks_like_noise(monkeypatch, broken: bool) -> None:
    wide = MaskedSum(CODE, 4000)
    monkeypatch.setattr(MaskedSum, "pair_mask", lambda self, *_: np.zeros(self.length, self.dtype))
    if broken:  # the negative control: no own mask either
        monkeypatch.setattr(masked_sum, "expand", lambda key, length, dtype: np.zeros(length, dtype))
    one = (
        Round(wide, {name: np.full(4000, 0.5) for name in NAMES})
        .phase("keys")
        .phase("shares")
        .phase("opened")
        .phase("masked")
    )
    words = np.frombuffer(payload("masked", "ann", one.replies["masked"]["ann"], wide), "<u4")
    assert looks_masked(words) is not broken


def test_every_client_has_an_own_mask_in_every_round() -> None:
    """What b_u is promised by: nobody's is that of another, or the same again."""
    rounds = [Round().phase("keys") for _ in range(3)]
    promised = {
        payload("keys", name, message)[64:] for one in rounds for name, message in one.replies["keys"].items()
    }
    assert len(promised) == 3 * len(NAMES)


def test_pair_masks_cancel_and_differ() -> None:
    shared = bytes(range(32))
    mask = SUMS.pair_mask(shared, 1, "ann", "bob")
    assert (mask + SUMS.pair_mask(shared, 1, "bob", "ann") == 0).all()
    others = [SUMS.pair_mask(shared, 2, "ann", "bob"), SUMS.pair_mask(shared, 1, "ann", "cat")]
    assert all((mask != other).any() for other in others)
    pair = np.concatenate(
        [masks.expand(hashlib.sha256(bytes([i])).digest(), 500, np.uint32) for i in range(8)]
    )
    assert looks_masked(pair)


def test_a_late_vector_stays_hidden() -> None:
    """The server has cat's vector after all, and everything that was revealed: cat's own mask is missing."""
    one = Round().phase("keys").phase("shares").phase("opened")
    late = one.clients["cat"].reply(one.inbox["cat"])
    one.inbox.pop("cat")
    one.phase("masked").phase("reveal")
    assert one.opened() == total_of(*(name for name in NAMES if name != "cat"))
    rebuilt = one.aggregator._rebuilt("cat")  # the key of cat's pair masks
    entry = payload("keys", "cat", one.replies["keys"]["cat"])
    key = masked_sum.X25519PrivateKey.from_private_bytes(rebuilt)
    assert key.public_key().public_bytes_raw() == entry[32:64]
    assert hashlib.sha256(rebuilt).digest() != entry[64:]  # not the own mask, though anyone can check one
    words = np.frombuffer(payload("masked", "cat", late), "<u4").copy()
    for other in NAMES:
        if other != "cat":
            shared = masks.agree(key, payload("keys", other, one.replies["keys"][other])[32:64])
            words -= SUMS.pair_mask(shared, 1, "cat", other)
    assert words.view(np.int32).tolist() != CODE.encode(VALUES["cat"]).tolist()
    own = one.clients["cat"]._own  # with it, and only with it, the vector is open
    words -= masks.expand(masks.derive(own, "own", 1, "cat", ""), LENGTH, np.uint32)
    assert words.view(np.int32).tolist() == CODE.encode(VALUES["cat"]).tolist()


def test_nobody_reveals_twice_or_both_kinds_of_share() -> None:
    one = Round().phase("keys").phase("shares").phase("opened").phase("masked", "cat")
    message = one.inbox["ann"]
    revealed = split_entries(payload("reveal", "ann", one.clients["ann"].reply(message)))
    held = one.clients["ann"]._held
    assert revealed["bob"] == held["bob"][:33]
    assert revealed["cat"] == held["cat"][33:]
    everyone = sealed("survivors", AGGREGATOR, join_entries(dict.fromkeys(NAMES, b"")))
    for again in (message, everyone):
        with pytest.raises(ValueError, match=r"phase must be below 5, got 5\. Make a new client"):
            one.clients["ann"].reply(again)


@pytest.mark.parametrize("listed", [NAMES[1:], (*NAMES, "mallory")])
def test_a_list_of_survivors_that_cannot_be_is_refused(listed: tuple[str, ...]) -> None:
    one = Round().phase("keys").phase("shares").phase("opened").phase("masked")
    with pytest.raises(ValueError, match="survivors must be clients of this round, this one among them"):
        one.clients["ann"].reply(sealed("survivors", AGGREGATOR, join_entries(dict.fromkeys(listed, b""))))


# ---- liars -------------------------------------------------------------------------------------------------


def test_keys_that_cannot_be_used_are_refused() -> None:
    small = bytes(32) + stream(1, "key").bytes(64)  # a point of small order
    one = Round().phase(
        "keys", change={"cat": sealed("keys", "cat", small), "dan": sealed("keys", "dan", b"x")}
    )
    for kind in KINDS[1:]:
        one.phase(kind)
    reasons = {found.client: found.reason for found in one.aggregator.refused}
    assert "public key must be a point of large order" in reasons["cat"]
    assert "keys must be 96 bytes long, got 1" in reasons["dan"]
    assert one.opened() == total_of("ann", "bob", "eve", "fay", "gil")


def test_shares_for_the_wrong_people_are_refused() -> None:
    bad = {
        "cat": sealed("shares", "cat", join_entries({"ann": bytes(82)})),
        "dan": sealed("shares", "dan", b"abc"),
    }
    one = Round().phase("keys").phase("shares", change=bad).phase("opened").phase("masked").phase("reveal")
    assert [found.client for found in one.aggregator.refused] == ["cat", "dan"]
    assert one.opened() == total_of("ann", "bob", "eve", "fay", "gil")


def dealt(one: Round, dealer: str, *unread: str) -> Round:
    """A dealer seals shares that some others cannot open; who complains is said before anybody masks."""
    truth = split_entries(payload("shares", dealer, one.clients[dealer].reply(one.inbox.pop(dealer))))
    spoilt = {name: bytes(82) if name in unread else part for name, part in truth.items()}
    return one.phase("shares", change={dealer: sealed("shares", dealer, join_entries(spoilt))})


def test_a_dealer_of_shares_that_cannot_be_opened_is_left_out_and_the_round_goes_on() -> None:
    one = dealt(Round().phase("keys"), "cat", *(name for name in NAMES if name != "cat")).phase("opened")
    said = split_entries(payload("opened", "ann", one.replies["opened"]["ann"]))
    assert said == {"cat": b""}
    assert "cat" not in one.inbox
    one.phase("masked").phase("reveal")
    assert one.opened() == total_of(*(name for name in NAMES if name != "cat"))
    reason = "sealed shares must be readable for all but 1, got 6 that are not."
    assert one.aggregator.refused == [("cat", "shares", reason)]
    assert all(
        "cat" not in split_entries(payload("reveal", name, reply))
        for name, reply in one.replies["reveal"].items()
    )


def test_as_many_unreadable_shares_as_can_be_spared_are_let_pass() -> None:
    one = dealt(Round().phase("keys"), "cat", "ann").phase("opened").phase("masked").phase("reveal")
    assert (one.opened(), one.aggregator.refused) == (total_of(*NAMES), [])
    two = dealt(Round().phase("keys"), "cat", "ann", "bob").phase("opened")
    assert [found.client for found in two.aggregator.refused] == ["cat"]


@pytest.mark.parametrize("liars", [("ann",), ("ann", "bob"), ("ann", "bob", "cat")])
def test_false_complaints_put_out_those_who_complain(liars: tuple[str, ...]) -> None:
    """Else they would leave one honest client with themselves, and read its vector off the sum."""
    one = Round().phase("keys").phase("shares")
    victims = {v: b"" for v in NAMES if v not in (*liars, "gil")}
    about = {name: sealed("opened", name, join_entries(victims)) for name in liars}
    one.phase("opened", change=about)
    honest = tuple(name for name in NAMES if name not in liars)
    assert tuple(one.inbox) == honest
    reason = f"complaints must be about 1 dealers at most, got {len(victims)}."
    assert one.aggregator.refused == [(name, "opened", reason) for name in liars]
    one.phase("masked").phase("reveal")
    assert one.opened() == total_of(*honest)


def test_two_complaints_about_one_dealer_count() -> None:
    """With one complaint each, as many liars as dealers they put out: never a minority alone with one."""
    one = Round().phase("keys").phase("shares")
    about = {name: sealed("opened", name, join_entries({"gil": b""})) for name in ("ann", "bob")}
    one.phase("opened", change=about)
    assert tuple(one.inbox) == NAMES[:-1]
    assert one.phase("masked").phase("reveal").opened() == total_of(*NAMES[:-1])


def test_complaints_that_cannot_be_are_refused() -> None:
    bad = {
        "ann": sealed("opened", "ann", join_entries({"mallory": b""})),
        "bob": sealed("opened", "bob", b"abc"),
        "cat": sealed("opened", "cat", join_entries(dict.fromkeys(NAMES, b""))),
    }
    one = Round().phase("keys").phase("shares").phase("opened", change=bad)
    assert [found.client for found in one.aggregator.refused] == ["ann", "bob", "cat"]
    assert one.phase("masked").phase("reveal").opened() == total_of("dan", "eve", "fay", "gil")


@pytest.mark.parametrize("peers", [NAMES[1:], (*NAMES, "mallory"), NAMES[:3]])
def test_a_list_of_peers_that_cannot_be_is_refused(peers: tuple[str, ...]) -> None:
    one = Round().phase("keys").phase("shares").phase("opened")
    words = (
        "clients must be at least 4, got 3" if len(peers) == 3 else "peers must be clients that dealt shares"
    )
    with pytest.raises(ValueError, match=words):
        one.clients["ann"].reply(sealed("peers", AGGREGATOR, join_entries(dict.fromkeys(peers, b""))))


def lies(one: Round, liar: str, *victims: str) -> bytes:
    """The last message of a client that changes its shares of some others."""
    truth = split_entries(payload("reveal", liar, one.clients[liar].reply(one.inbox.pop(liar))))
    step = int.from_bytes(liar.encode())  # another one for each liar, or two could cancel
    changed = {name: ((int.from_bytes(truth[name]) + step) % shamir.PRIME).to_bytes(33) for name in victims}
    return sealed("reveal", liar, join_entries({**truth, **changed}))


@pytest.mark.parametrize("gone", [(), ("gil",)])
def test_a_wrong_share_at_the_end_is_refused_by_name(gone: tuple[str, ...]) -> None:
    one = Round().phase("keys").phase("shares").phase("opened").phase("masked", *gone)
    victim = gone[0] if gone else "bob"  # a survivor, or the one who left
    one.phase("reveal", change={"ann": lies(one, "ann", victim)})
    assert one.opened() == total_of(*(name for name in NAMES if name not in gone))
    reason = f"share of {victim}'s secret must fit the others', got another."
    assert one.aggregator.refused == [("ann", "reveal", f"{reason} ann changed it, or {victim} dealt it so.")]
    assert one.opened() == total_of(*one.aggregator.included)
    assert len(one.aggregator.refused) == 1  # told once, however often the sum is asked for


def test_a_client_that_lies_about_everyone_is_found_out_and_asked_last(monkeypatch) -> None:
    one = Round().phase("keys").phase("shares").phase("opened").phase("masked")
    one.phase("reveal", change={"ann": lies(one, "ann", *NAMES)})
    tried = []
    monkeypatch.setattr(shamir, "_value", lambda *given, real=shamir._value: tried.append(1) or real(*given))
    assert one.opened() == total_of(*NAMES)
    assert {found.client for found in one.aggregator.refused} == {"ann"}
    assert len(tried) < 50  # the first secret takes up to 35 tries, each of the other six one


def test_as_many_liars_as_can_be_spared_do_not_stop_the_round() -> None:
    one = Round().phase("keys").phase("shares").phase("opened").phase("masked")
    one.phase("reveal", change={name: lies(one, name, "gil") for name in NAMES[:2]})
    assert one.opened() == total_of(*NAMES)
    assert [found.client for found in one.aggregator.refused] == ["ann", "bob"]
    many = Round().phase("keys").phase("shares").phase("opened").phase("masked")
    many.phase("reveal", change={name: lies(many, name, "gil") for name in NAMES[:3]})
    assert many.opened() == total_of(*NAMES)
    assert many.aggregator.refused == []  # three of seven against four: nobody can say who lied


@pytest.mark.parametrize(("liars", "gone"), [(NAMES[:4], ()), (NAMES[:1], NAMES[4:])])
def test_more_wrong_shares_than_can_be_spared_lose_the_round_loudly(liars, gone) -> None:
    one = Round().phase("keys").phase("shares").phase("opened").phase("masked")
    one.phase("reveal", *gone, change={name: lies(one, name, "bob") for name in liars})
    words = (
        r"secret must be the one promised, got others\. Too many .* The mask of bob stays: the round is lost"
    )
    with pytest.raises(ValueError, match=words):
        one.opened()


def test_a_key_is_shared_in_one_form_only() -> None:
    """Five bits of an X25519 key do not count; a liar must not pass with them for honest."""
    one = Round().phase("keys").phase("shares").phase("opened").phase("masked", "gil").phase("reveal", "gil")
    rebuilt = one.aggregator._rebuilt("gil")
    other = bytes([rebuilt[0] ^ 1]) + rebuilt[1:]
    publics = [masked_sum.X25519PrivateKey.from_private_bytes(key).public_key() for key in (rebuilt, other)]
    assert publics[0] == publics[1]
    assert one.aggregator._promised("gil", rebuilt)
    assert not one.aggregator._promised("gil", other)


def test_a_directory_that_lies_about_a_client_is_refused() -> None:
    one = Round().phase("keys")
    directory = split_entries(payload("directory", AGGREGATOR, one.inbox["ann"]))
    directory["ann"] = directory["bob"]
    with pytest.raises(ValueError, match="directory must be true about this client"):
        one.clients["ann"].reply(sealed("directory", AGGREGATOR, join_entries(directory)))


def test_exact_sum_of_the_whole_round() -> None:
    one = Round()
    for kind in KINDS:
        one.phase(kind)
    step = Fraction(CODE.step)
    slow = [sum(round(Fraction(x) / step) for x in column) * step for column in zip(*VALUES.values())]
    assert [Fraction(x) for x in one.opened()] == slow


# ---- what a client refuses, whoever asks -------------------------------------------------------------------


def test_a_client_reveals_nothing_for_fewer_survivors_than_were_agreed() -> None:
    """Where the server is the aggregator, this check is all that keeps a sum with too little noise closed."""
    careful = MaskedSum(CODE, LENGTH, least=6)
    one = Round(careful).phase("keys").phase("shares").phase("opened").phase("masked")
    envelope = Envelope(careful.fingerprint, 1)

    def survivors(*names: str) -> bytes:
        return envelope.seal("survivors", AGGREGATOR, join_entries(dict.fromkeys(names, b"")))

    assert careful.threshold(len(NAMES)) == 4
    with pytest.raises(ValueError, match=r"survivors must be at least 6, got 5\. A sum over fewer"):
        one.clients["ann"].reply(survivors(*NAMES[:5]))
    assert one.clients["bob"].reply(survivors(*NAMES[:6]))
