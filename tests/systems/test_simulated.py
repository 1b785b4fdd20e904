"""Who really holds the rows: a claim that rests on devices says that this process has played them."""

from __future__ import annotations

import dataclasses

import pytest

import veilrec as vr
from veilrec.crypto import SUMS
from veilrec.systems import SYSTEMS, PFGNRPaper, PFGNRSums
from veilrec.training import Recommender

HOLDER, UNREAD = (
    "simulated: whoever runs this process holds every row",
    "simulated cryptography, not reviewed",
)
CURATORS = {
    "dp-als",
    "dp-gram",
    "dp-spectral",
    "dpae",
    "dpmf",
    "dpne",
    "gap",
    "gerai-functional",
    "lapgraph",
    "rap",
}
"""Systems whose curator has every row and is trusted with it: nothing is claimed against the server."""
NET = {"epochs": 1, "embedding_size": 4}


@pytest.fixture(scope="module")
def people() -> vr.Dataset:
    return vr.synthetic(users=60, items=40, interactions=900, seed=1)


def fit(system: type[Recommender], people: vr.Dataset, **settings) -> Recommender:
    known = {field.name for field in dataclasses.fields(system) if field.init}
    small = {name: value for name, value in NET.items() if name in known}
    return system(**small | settings).fit(people, progress=False, secure=False)


@pytest.mark.filterwarnings("ignore::veilrec.core.DataWarning")
@pytest.mark.parametrize("word", sorted(SYSTEMS))
def test_a_claim_against_the_server_names_the_holder_of_the_rows(people, word, tmp_path) -> None:
    model = fit(SYSTEMS[word], people)
    plays = SYSTEMS[word].is_private() and word not in CURATORS
    assert any("S" in claim.adversaries for claim in model.guarantee.claims) == plays
    for part in ("whole", "shareable"):
        told = vr.load_model(model.save(tmp_path / part, part=part)).guarantee
        for text in (str(told), told.to_markdown()):
            assert (HOLDER in text) == plays
        assert told.to_dict()["simulated"] == [HOLDER] * plays
        assert ("simulated" in told.to_dict()["protection"]) == plays


@pytest.mark.parametrize("system", [PFGNRPaper, PFGNRSums])
@pytest.mark.parametrize("sums", ["", *SUMS])
def test_sums_of_our_own_making_are_called_so(system, sums, tmp_path) -> None:
    few = vr.synthetic(users=6, items=12, interactions=30, seed=1)
    model = fit(system, few, sums=sums, epochs=1, embedding_size=2)
    read = [HOLDER] if sums in ("", "plain") else [HOLDER, UNREAD]
    assert list(vr.load_model(model.save(tmp_path / "m")).guarantee.simulated) == read
    assert (UNREAD in str(model.guarantee)) == (len(read) == 2)


def test_a_file_cannot_leave_the_holder_out(people) -> None:
    stated = fit(SYSTEMS["pf-gnr"], people).guarantee.to_dict()
    assert HOLDER in str(vr.Guarantee.from_dict(stated | {"simulated": [], "not_covered": []}))
