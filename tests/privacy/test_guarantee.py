from __future__ import annotations

import dataclasses
import json
import math

import pytest

from veilrec.privacy import Claim, Event, GaussianEvent, Guarantee, Noise, PureEvent, UnboundedEvent
from veilrec.privacy.mechanisms import BitResponse, GammaShares, Gaussian, Laplace

STEPS = GaussianEvent(noise_multiplier=1.29, sampling_rate=0.1, count=300, label="gradients")
GRAPH = GaussianEvent(noise_multiplier=4.0, label="graph")


def claim(*events, delta=1e-5, **more):
    about = {"secret": "all data of a user", "unit": "user", "neighbours": "add-remove", "adversaries": "OF"}
    return Claim(**{**about, "released": ("item vectors", "weights"), "delta": delta, **more}, events=events)


def statement(*claims, **more):
    about = {"reads": ("item titles",), "not_covered": ("test metrics",), "grade": "secure"}
    return Guarantee("gerai", claims=claims, **{**about, **more})


def test_no_mechanism_no_epsilon() -> None:
    found = Guarantee.none("x", reads=("interactions", "attributes"))
    assert math.isinf(found.epsilon)
    assert "no finite epsilon holds for anyone" in str(found)
    assert "interactions, attributes" in str(found)
    assert found.to_dict()["protection"] == "none"
    assert Guarantee.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_nobody_can_type_an_epsilon() -> None:
    found = Guarantee.none("x", reads=())
    with pytest.raises(TypeError):
        Guarantee("x", (), (), epsilon=1.0)  # type: ignore[call-arg]
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
        found.epsilon = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError):
        claim(STEPS, epsilon=1.0)
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError)):
        claim(STEPS).epsilon = 1.0


def test_a_changed_file_is_refused() -> None:
    kept = json.loads(json.dumps(statement(claim(STEPS)).to_dict()))
    assert Guarantee.from_dict(kept) == statement(claim(STEPS))
    kept["claims"][0]["epsilon"] = 1.0
    with pytest.raises(ValueError, match=r"compose to 7\.95997.*the file was changed"):
        Guarantee.from_dict(kept)


def test_a_changed_event_is_refused_too() -> None:
    kept = statement(claim(STEPS)).to_dict()
    kept["claims"][0]["events"][0]["noise_multiplier"] = 12.9
    with pytest.raises(ValueError, match="the file was changed"):
        Guarantee.from_dict(kept)


def test_composed_epsilon_is_above_each_part_and_below_the_sum() -> None:
    both = claim(STEPS, GRAPH)
    alone = [cost for _, cost in both.parts]
    assert max(alone) < both.epsilon < sum(alone)
    assert both.each(STEPS) < alone[0] / 5


def test_the_text_says_everything() -> None:
    text = str(
        statement(
            claim(STEPS, GRAPH),
            claim(
                PureEvent(epsilon=2.0, neighbours="replace", count=3, label="reports"),
                secret="the gender of a user",
                unit="attribute",
                neighbours="replace",
                adversaries="X",
                delta=0.0,
            ),
            paper_claim="epsilon 0.4 for training, 20 for the features",
            tuned=True,
        )
    )
    for words in (
        "Privacy statement of gerai",
        "secret: all data of a user",
        "the data with and without all data of a user look alike",
        "O: outsiders who see the released model",
        "they see: item vectors, weights",
        "epsilon 8.",
        "at delta 1e-05",
        "300 releases, each Gaussian noise, 1.29 times the sensitivity, each unit sampled at 0.1",
        "the attribute could have any other value",
        "epsilon 6\n",
        "factor of at most 403",
        "the paper claims: epsilon 0.4 for training",
        "read without noise: item titles",
        "not covered: test metrics",
        "noise: secure",
        "chosen on private data",
    ):
        assert words in text, words


def test_markdown_has_the_same_facts() -> None:
    page = statement(claim(STEPS)).to_markdown()
    assert page.startswith("# Privacy statement of gerai\n")
    assert "| epsilon | epsilon 7.96 at delta 1e-05 |" in page
    assert "- **not covered**: test metrics" in page


def test_groups_of_interactions() -> None:
    found = claim(PureEvent(epsilon=0.5), unit="interaction", delta=0.0, per_user=20)
    assert (found.epsilon, found.user_epsilon) == (0.5, 10.0)
    assert "epsilon 10 for up to 20 of them" in str(statement(found))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (statement(claim(GaussianEvent(noise_multiplier=0.3))), "is above 10"),
        (statement(claim(STEPS), grade="research"), "before anything leaves the house"),
        (statement(claim(STEPS), tuned=True), "chosen on private data"),
    ],
)
def test_warnings(found, words) -> None:
    assert any(words in warning for warning in found.warnings)
    assert "warning: " in str(found)


def test_a_good_statement_has_no_warnings() -> None:
    assert statement(claim(STEPS)).warnings == ()


def test_paper_forms_may_have_no_finite_epsilon() -> None:
    open_end = UnboundedEvent(reason="labels enter the loss without noise", label="training")
    found = statement(claim(STEPS, open_end))
    assert math.isinf(found.epsilon)
    assert "no finite guarantee" in str(found)
    assert "labels enter the loss without noise" in str(found)
    kept = json.loads(json.dumps(found.to_dict()))
    assert kept["epsilon"] is None
    assert Guarantee.from_dict(kept) == found


class TestOf:
    def drawn(self):
        noise = Noise.research(1)
        Gaussian(4.0).release([1.0], noise, "graph")
        for _ in range(3):
            Laplace(2.0).release([1.0], noise, "counts")
        return noise

    def test_every_draw_is_named(self) -> None:
        noise = self.drawn()
        found = Guarantee.of("m", [claim(*noise.events)], noise)
        assert found.grade == "research"
        assert found.epsilon > 1.5

    def test_a_forgotten_draw_is_an_error(self) -> None:
        noise = self.drawn()
        with pytest.raises(ValueError, match=r"every event that was drawn.*counts"):
            Guarantee.of("m", [claim(noise.events[0])], noise)

    def test_three_draws_cannot_be_stated_as_one(self) -> None:
        noise = self.drawn()
        with pytest.raises(ValueError, match="as often as it was"):
            Guarantee.of("m", [claim(*noise.events[:2])], noise)

    def test_many_draws_may_be_stated_together(self) -> None:
        noise = self.drawn()
        together = claim(noise.events[0], noise.events[1].times(3))
        assert Guarantee.of("m", [together], noise).claims == (together,)

    def test_a_claim_about_nothing_is_an_error(self) -> None:
        noise = self.drawn()
        with pytest.raises(ValueError, match="and no other"):
            Guarantee.of("m", [claim(*noise.events, STEPS)], noise)

    def test_slices_may_be_stated(self) -> None:
        noise = Noise.secure()
        whole, part = (PureEvent(epsilon=e, neighbours="replace") for e in (7.5, 2.5))
        noise.record(whole, slices=[part])
        about = {"unit": "attribute", "neighbours": "replace", "adversaries": "X", "delta": 0.0}
        found = Guarantee.of("m", [claim(whole, **about), claim(part, **about, restates=True)], noise)
        assert [c.epsilon for c in found.claims] == [7.5, 2.5]
        assert found.grade == "secure"
        with pytest.raises(ValueError, match="every event"):
            Guarantee.of("m", [claim(part, **about)], noise)
        with pytest.raises(ValueError, match="every event"):
            Guarantee.of("m", [claim(whole, **about, restates=True)], noise)

    def test_float_formulas_are_never_called_secure(self) -> None:
        noise = Noise.secure()
        GammaShares(1.0, 3).release([[1.0], [0.0], [0.0]], noise)
        assert Guarantee.of("m", [claim(*noise.events, delta=0.0)], noise).grade == "research"

    def test_one_research_source_makes_it_research(self) -> None:
        one, other = Noise.secure(), Noise.research(1)
        for source in (one, other):
            BitResponse(1.0).perturb([1], source)
        about = {"unit": "attribute", "neighbours": "replace", "adversaries": "X", "delta": 0.0}
        assert (
            Guarantee.of("m", [claim(*one.events, *other.events, **about)], [one, other]).grade == "research"
        )


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"unit": "person"}, "unit must be one of user, interaction, attribute"),
        ({"neighbours": "any"}, "neighbours must be one of"),
        ({"adversaries": "Z"}, "letters out of O, X, S, F"),
        ({"adversaries": ""}, "letters out of O, X, S, F"),
        ({"released": ()}, "what the adversary sees"),
        ({"delta": 1.0}, "delta must be from 0 up to"),
        ({"delta": math.nan}, "delta must be from 0 up to"),
        ({"secret": ""}, "named in words"),
        ({"per_user": 0}, "per_user must be"),
    ],
)
def test_bad_claims(more, words) -> None:
    with pytest.raises(ValueError, match=words):
        claim(STEPS, **more)


def test_a_claim_needs_events() -> None:
    with pytest.raises(ValueError, match="the events of the mechanisms that ran"):
        claim()


def test_the_picture(tmp_path) -> None:
    path = statement(claim(STEPS, GRAPH)).plot(tmp_path / "budget.png")
    assert path.read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match="no finite epsilon"):
        statement(claim(UnboundedEvent(reason="raw labels"))).plot(tmp_path / "none.png")
    assert not (tmp_path / "none.png").exists()


def test_events_without_a_bound_are_claimed_when_drawn_and_drawn_when_claimed() -> None:
    """One beside a Laplace release of 0.5 once gave "epsilon 0.5, secure"."""
    leak = UnboundedEvent(reason="labels enter the loss without noise", label="training")
    noise = Noise.secure()
    Laplace.for_budget(0.5).release([3.0], noise, "count")
    told = claim(*noise.events, delta=0.0)
    assert Guarantee.of("x", [told], noise).epsilon == 0.5
    with pytest.raises(ValueError, match=r"about events that were drawn, and no other.*without noise"):
        Guarantee.of("x", [claim(*noise.events, leak, delta=0.0)], noise)
    noise.record(leak)
    with pytest.raises(ValueError, match=r"about every event that was drawn.*without noise"):
        Guarantee.of("x", [told], noise)
    assert math.isinf(Guarantee.of("x", [claim(*noise.events, delta=0.0)], noise).epsilon)


def test_what_draws_no_noise_has_no_grade() -> None:
    noise = Noise.secure()
    noise.record(UnboundedEvent(reason="raw labels", label="training"))
    assert Guarantee.of("x", [claim(*noise.events)], noise).grade == "none"


def drawn(*events: Event, slices: tuple[Event, ...] = ()) -> Noise:
    noise = Noise.research(1)
    for event in events:
        noise.record(event)
    noise.slices.extend(slices)
    return noise


HALF = PureEvent(epsilon=0.5, label="counts"), PureEvent(epsilon=0.5, label="ages")


@pytest.mark.parametrize(
    ("claims", "noise", "words"),
    [
        (  # two halves of one spend, each stated alone
            [claim(HALF[0], delta=0.0), claim(HALF[1], delta=0.0)],
            drawn(*HALF),
            "claims must be one for all that is spent on a secret, got 'all data of a user'",
        ),
        (  # one of a hundred draws
            [
                claim(HALF[0].times(100), delta=0.0, adversaries="O"),
                claim(HALF[0], delta=0.0, adversaries="X", restates=True),
            ],
            drawn(HALF[0].times(100)),
            "claims must be about every event as often as it was drawn, got .'counts: 1 release",
        ),
        (  # one of twenty slices
            [
                claim(HALF[0], delta=0.0),
                claim(PureEvent(epsilon=0.1, label="age"), delta=0.0, secret="age", restates=True),
            ],
            drawn(HALF[0], slices=(PureEvent(epsilon=0.1, label="age", count=20),)),
            "claims must be about every event as often as it was drawn",
        ),
    ],
    ids=["two halves", "one of a hundred", "one of twenty slices"],
)
def test_claims_that_state_too_little_are_refused(claims, noise, words) -> None:
    with pytest.raises(ValueError, match=words):
        Guarantee.of("gerai", claims, noise)
