"""Every field of ``privacy.json`` follows from class, settings and plan; signatures catch the rest."""

from __future__ import annotations

import json
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

import veilrec as vr
from veilrec.core import DataError
from veilrec.crypto import SigningKey, VerifyKey
from veilrec.systems import DPMF, GERAI, PFGNR, DPGram, GERAIPaper, GERAIUsers, PFGNRSums

MODELS = {
    "dp-gram": DPGram(epsilon=4.0),
    "gerai": GERAI(epochs=1, embedding_size=4),
    "gerai-paper": GERAIPaper(epochs=1, embedding_size=4),
    "gerai-users": GERAIUsers(epochs=1, embedding_size=4, epsilon=20.0),
    "pf-gnr": PFGNR(epochs=1, embedding_size=4),
    "pf-gnr-sums": PFGNRSums(epochs=1, embedding_size=4, epsilon=20.0, sums="plain"),
    "dpmf": DPMF(embedding_size=4, user_vectors="public"),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, bytes]]:
    """The members of each shareable model, fitted for research."""
    folder, data = tmp_path_factory.mktemp("saved"), vr.synthetic(25, 20, 200, seed=1)
    found = {}
    for word, model in MODELS.items():
        path = model.fit(data, progress=False, secure=False).save(folder / f"{word}.veil", part="shareable")
        assert vr.load_model(path).guarantee == model.guarantee
        with zipfile.ZipFile(path) as archive:
            found[word] = {name: archive.read(name) for name in archive.namelist()}
    return found


def written(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def forged(members: dict[str, bytes], path: Path, change: Any, name: str = "privacy.json") -> Path:
    value = json.loads(members[name])
    change(value)
    return written(path, members | {name: json.dumps(value).encode()})


CHANGES = {
    "noise": lambda s: s.update(noise="secure" if s["noise"] == "research" else "research"),
    "not_covered": lambda s: s.update(not_covered=[]),
    "adversaries": lambda s: s["claims"][0].update(adversaries=[*"OXSFO"]),
    "released": lambda s: s["claims"][0].update(released=["nothing"]),
    "secret": lambda s: s["claims"][0].update(secret="everything of a user"),
    "unit": lambda s: s["claims"][0].update(
        unit="user" if s["claims"][0]["unit"] != "user" else "interaction"
    ),
    "delta": lambda s: s["claims"][0].update(delta=s["claims"][0]["delta"] + 1e-3),
    "per_user": lambda s: s["claims"][0].update(per_user=s["claims"][0]["per_user"] + 1),
    "restates": lambda s: s["claims"][0].update(restates=True),
    "events": lambda s: s["claims"][0]["events"][0].update(count=7),
    "claims 1, epsilon": lambda s: s["claims"][0].update(epsilon=0.01),
    "epsilon": lambda s: s.update(epsilon=0.01),
    "tuned": lambda s: s.update(tuned=not s["tuned"]),
    "reads": lambda s: s.update(reads=["nothing"]),
    "sums": lambda s: s.update(sums="masked"),
    "paper_claim": lambda s: s.update(paper_claim="all is well"),
    "protection": lambda s: s.update(protection="everything"),
    "simulated": lambda s: s.update(simulated=["in earnest"]),
    "warnings": lambda s: s.update(warnings=["none at all"]),
    "model": lambda s: s.update(model="ease"),
    "more": lambda s: s.update(more=1),
    "claims": lambda s: s["claims"].append(s["claims"][0]),
}


@pytest.mark.parametrize("word", MODELS)
@pytest.mark.parametrize("field", CHANGES)
def test_a_changed_field_is_refused_by_name(saved, tmp_path: Path, word: str, field: str) -> None:
    path = forged(saved[word], tmp_path / "m.veil", CHANGES[field])
    with pytest.raises(DataError) as refused:
        vr.load_model(path)
    said = str(refused.value)
    assert field.split(", ")[-1] in said, said
    assert "\n" not in said


@pytest.mark.parametrize("word", MODELS)
def test_no_claims_at_all_are_refused(saved, tmp_path: Path, word: str) -> None:
    def bare(statement: dict[str, Any]) -> None:
        none = vr.Guarantee.none(word, reads=("interactions",)).to_dict()
        statement.clear()
        statement.update(none)

    with pytest.raises(DataError, match="claims"):
        vr.load_model(forged(saved[word], tmp_path / "m.veil", bare))
    with pytest.raises(DataError, match="must be with a plan"):
        vr.load_model(forged(saved[word], tmp_path / "m.veil", lambda m: m.update(plan=None), "model.json"))


def test_claims_for_a_model_without_noise_are_refused(saved, tmp_path: Path) -> None:
    plain = vr.Popularity().fit(vr.synthetic(25, 20, 200, seed=1)).save(tmp_path / "p.veil")
    with zipfile.ZipFile(plain) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with pytest.raises(DataError, match=r"of privacy\.json must be what settings and plan come to"):
        vr.load_model(
            written(tmp_path / "m.veil", members | {"privacy.json": saved["dp-gram"]["privacy.json"]})
        )
    plan = json.loads(saved["dp-gram"]["model.json"])["plan"]
    with pytest.raises(DataError, match="must be without a plan"):
        vr.load_model(forged(members, tmp_path / "m.veil", lambda m: m.update(plan=plan), "model.json"))


def test_settings_that_promise_more_are_refused(saved, tmp_path: Path) -> None:
    """Less noise for the same epsilon, or a smaller epsilon for the same noise: the events give it away."""

    def cheaper(about: dict[str, Any]) -> None:
        about["settings"]["epsilon"] = 0.7

    for word in ("dp-gram", "gerai", "gerai-users", "pf-gnr", "pf-gnr-sums", "dpmf"):
        with pytest.raises(DataError, match=r"events of privacy\.json|noise must be what epsilon"):
            vr.load_model(forged(saved[word], tmp_path / "m.veil", cheaper, "model.json"))


def test_a_formula_in_floats_is_never_secure(saved, tmp_path: Path) -> None:
    def safer(about: dict[str, Any]) -> None:
        about["plan"].update(noise="secure", in_floats=False)

    model = vr.load_model(forged(saved["dpmf"], tmp_path / "m.veil", safer, "model.json"))
    assert model.guarantee.grade == "research"


def test_the_plan_has_nothing_that_claims_do_not_need(saved) -> None:
    """Attributes that no claim speaks of would tell who is there, where their categories were read off."""
    for word, members in saved.items():
        plan = json.loads(members["model.json"])["plan"]
        assert bool(plan["attributes"]) == word.startswith("gerai"), word
        assert not {"fingerprint", "interactions", "data"} & plan.keys()
        text = members["model.json"].decode()
        assert "fingerprint" not in text


def test_events_beyond_the_settings_are_in_the_plan(saved, tmp_path: Path) -> None:
    """The draws of the loss of gerai-paper: fewer than were made, and the statement does not follow."""
    plan = json.loads(saved["gerai-paper"]["model.json"])["plan"]
    assert len(plan["beyond"]) == 1
    with pytest.raises(DataError, match="claims must be"):
        vr.load_model(
            forged(
                saved["gerai-paper"], tmp_path / "m.veil", lambda m: m["plan"].update(beyond=[]), "model.json"
            )
        )


def test_a_plan_that_does_not_go_with_its_model_is_refused(saved, tmp_path: Path) -> None:
    def other_purpose(about: dict[str, Any]) -> None:
        about["plan"]["looked"] = ["nothing of importance"]

    def other_profile(about: dict[str, Any]) -> None:
        about["facts"]["profile"]["attributes"]["gender"]["categories"] = ["M", "F"]

    with pytest.raises(DataError, match="looked of the plan must be purposes of the model"):
        vr.load_model(forged(saved["dp-gram"], tmp_path / "m.veil", other_purpose, "model.json"))
    with pytest.raises(DataError, match="profile of the facts must be that of the plan"):
        vr.load_model(forged(saved["gerai"], tmp_path / "m.veil", other_profile, "model.json"))


@pytest.mark.parametrize("word", ["gerai-users", "pf-gnr-sums"])
@pytest.mark.parametrize("name", ["epochs", "sampling_rate", "epsilon"])
def test_settings_that_would_take_ages_are_refused_at_once(
    saved, tmp_path: Path, word: str, name: str
) -> None:
    """As many steps as a number can say, with as little or as much noise as one can say."""
    wild = {"epochs": 2**61, "sampling_rate": 1e-9, "epsilon": 9999.0}

    for noise in (1e-3, 1e6):

        def heavy(statement: dict[str, Any], noise: float = noise) -> None:
            for claim in statement["claims"]:
                for event in claim["events"]:
                    if "noise_multiplier" in event:
                        event["noise_multiplier"] = noise

        members = dict(saved[word])
        about = json.loads(members["model.json"])
        about["settings"][name] = wild[name]
        members["model.json"] = json.dumps(about).encode()
        began = time.perf_counter()
        with pytest.raises(DataError):
            vr.load_model(forged(members, tmp_path / "m.veil", heavy))
        assert time.perf_counter() - began < 20


# -- signatures ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def key() -> SigningKey:
    return SigningKey.generate()


def believed(saved: dict[str, dict[str, bytes]], path: Path) -> dict[str, bytes]:
    """A forger who changes plan *and* statement: only a signature can tell."""
    about, stated = (json.loads(saved["dp-gram"][name]) for name in ("model.json", "privacy.json"))
    about["plan"]["noise"] = stated["noise"] = "secure"
    stated["warnings"], stated["protection"] = [], stated["protection"].removesuffix("; research noise")
    return saved["dp-gram"] | {
        "model.json": json.dumps(about).encode(),
        "privacy.json": json.dumps(stated).encode(),
    }


def test_what_only_a_signature_can_tell(saved, tmp_path: Path, key: SigningKey) -> None:
    members = believed(saved, tmp_path)
    assert vr.load_model(written(tmp_path / "m.veil", members)).guarantee.grade == "secure"
    honest = vr.load_model(written(tmp_path / "honest.veil", saved["dp-gram"]))
    signed = honest.save(tmp_path / "signed.veil", part="shareable", sign=key)
    loaded = vr.load_model(signed, key=key.public)
    assert loaded.signed_by == key.public.fingerprint
    with zipfile.ZipFile(signed) as archive:
        signature = archive.read("signature.json")
    with pytest.raises(
        DataError, match=r"signature must be of these members, got .*: model\.json was changed"
    ):
        vr.load_model(written(tmp_path / "m.veil", members | {"signature.json": signature}))
    written(tmp_path / "m.veil", members)  # without any: only who asks for the key notices
    vr.load_model(tmp_path / "m.veil")
    with pytest.raises(DataError, match=r"must be signed by .*, got none"):
        vr.load_model(tmp_path / "m.veil", key=key.public)


def test_a_signature_by_another_key_is_no_signature(saved, tmp_path: Path, key: SigningKey) -> None:
    honest = vr.load_model(written(tmp_path / "honest.veil", saved["dp-gram"]))
    path = honest.save(tmp_path / "m.veil", part="shareable", sign=SigningKey.generate())
    assert vr.load_model(path).signed_by is not None
    with pytest.raises(DataError, match=r"must be signed by .*, got a signature by"):
        vr.load_model(path, key=key.public)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.update(signature="00" * 64), "signature must be that of its key"),
        (lambda s: s.update(key="11" * 32), "signature must be that of its key"),
        (lambda s: s.update(key="11"), r"signature\.json cannot be read"),
        (lambda s: s.update(signature="zz"), r"signature\.json cannot be read"),
        (lambda s: s["members"].pop(), "was changed, added or left out"),
        (lambda s: s["members"].append({"name": "x", "bytes": 1, "sha256": ""}), "x was changed, added or"),
        (lambda s: s["members"].append(7), "was changed, added or left out"),
        (lambda s: s.update(format=2), r"format of signature\.json must be 1"),
        (lambda s: s.update(more=1), "got 'more'"),
    ],
)
def test_a_broken_signature_refuses_the_model(
    saved, tmp_path: Path, key: SigningKey, change, said: str
) -> None:
    honest = vr.load_model(written(tmp_path / "honest.veil", saved["dp-gram"]))
    path = honest.save(tmp_path / "m.veil", part="shareable", sign=key)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with pytest.raises(DataError, match=said):
        vr.load_model(forged(members, tmp_path / "forged.veil", change, "signature.json"))


def test_a_folder_is_signed_with_its_private_part(tmp_path: Path, key: SigningKey) -> None:
    model = vr.BPR(epochs=1, embedding_size=4).fit(vr.synthetic(25, 20, 200, seed=1), progress=False)
    folder = model.save(tmp_path / "run", sign=key)
    assert vr.load_model(folder, key=key.public).signed_by == key.public.fingerprint
    (folder / "record.json").write_text("{}")  # other files of a run are no members
    vr.load_model(folder, key=key.public)
    state = folder / "private" / "state.safetensors"
    content = bytearray(state.read_bytes())
    content[-1] ^= 1
    state.write_bytes(content)
    with pytest.raises(DataError, match=r"private/state\.safetensors was changed"):
        vr.load_model(folder)
    model.save(folder)  # anew, and no longer signed
    assert vr.load_model(folder).signed_by is None


def test_keys_are_for_their_owner(tmp_path: Path, key: SigningKey) -> None:
    secret, public = key.save(tmp_path / "shop")
    assert secret.stat().st_mode & 0o777 == 0o600
    assert VerifyKey.load(public) == key.public
    with pytest.raises(DataError, match="must be a new file"):
        SigningKey.generate().save(tmp_path / "shop")
    assert SigningKey.load(secret).public == key.public
    with pytest.raises(DataError, match="got a secret one"):
        VerifyKey.load(secret)
    secret.chmod(0o644)
    with pytest.raises(DataError, match="mode must be 0o600 or less"):
        SigningKey.load(secret)
    (tmp_path / "odd.pub").write_text("hello")
    with pytest.raises(DataError, match="must be Ed25519 in PEM"):
        VerifyKey.load(tmp_path / "odd.pub")
    assert "secret" in repr(key)
