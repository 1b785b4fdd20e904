"""The graph encoders: exact probabilities, one edge within e^epsilon, dense oracles, precision, memory."""

from __future__ import annotations

import math
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import sparse, stats

from veilrec.core import in_threads, stream
from veilrec.privacy import Noise, epsilon_of, kernels
from veilrec.privacy.mechanisms import (
    DegreePreserving,
    EdgeRand,
    EdgeResponse,
    GaussianAdjacency,
    LapGraph,
    TopDegreeEncoder,
    graph_top,
)
from veilrec.privacy.mechanisms.graph import Edges
from veilrec.privacy.mechanisms.graph_top import expected_precision, top_cells
from veilrec.privacy.noise import LAPLACE_STEPS

Rows = NDArray[np.int64]
ROWS = 20_000


def _same_rows(row: list[int], items: int, count: int = ROWS) -> Edges:
    """``count`` users with the same items: one encoding of it encodes the row ``count`` times."""
    return Edges(np.arange(count + 1) * len(row), np.tile(np.array(row, np.int64), count), items)


def _patterns(report: Any) -> Rows:
    """Each row as a whole number, item i its bit i."""
    return np.rint(report @ 2.0 ** np.arange(report.shape[1])).astype(np.int64)


def _homogeneous(one: Rows, two: Rows) -> bool:
    """Whether two samples of outcomes have the same distribution, at level 1e-6."""
    values, codes = np.unique(np.concatenate([one, two]), return_inverse=True)
    table = np.stack(
        [np.bincount(part, minlength=len(values)) for part in (codes[: len(one)], codes[len(one) :])]
    )
    common = table.sum(0) >= 20
    table = np.column_stack([table[:, common], table[:, ~common].sum(1)])
    table = table[:, table.sum(0) > 0]
    return bool(stats.chi2_contingency(table).pvalue > 1e-6)


def _within(one: Rows, two: Rows, epsilon: float) -> bool:
    """No set of outcomes, chosen on half of the samples, refutes epsilon on the other half (level 1e-6)."""
    half = len(one) // 2
    size = int(max(one.max(), two.max())) + 1
    for a, b in ((one, two), (two, one)):
        first = (np.bincount(a[:half], minlength=size) + 0.5) / (np.bincount(b[:half], minlength=size) + 0.5)
        for bar in (0.5, 0.8, 1.0):
            chosen = np.log(first) > bar * epsilon
            hits, other = int(chosen[a[half:]].sum()), int(chosen[b[half:]].sum())
            low = stats.beta.ppf(1e-7, hits, half - hits + 1) if hits else 0.0
            high = stats.beta.ppf(1 - 1e-7, other + 1, half - other) if other < half else 1.0
            if low > 0 and math.log(low / high) > epsilon:
                return False
    return True


# -- one edge is worth no more than epsilon -----------------------------------------------------------------

LOCAL: dict[str, tuple[Callable[[float], Any], float]] = {
    "response": (EdgeResponse, 2.0),
    "thinned": (lambda e: EdgeResponse(e, thinning=0.5), 2.0),
    "edge rand": (EdgeRand.for_budget, 2.0),
    "top degree": (lambda e: TopDegreeEncoder(e, split=0.5), 6.0),
    "degree preserving": (lambda e: DegreePreserving(e, split=0.8), 3.0),
}


@pytest.mark.parametrize("name", LOCAL)
def test_one_edge_is_within_epsilon(name: str) -> None:
    """20,000 encodings of a row of three items with and without one edge; less noise is caught."""
    make, factor = LOCAL[name]
    noise = Noise.research(1, name)

    def pair(mechanism: Any) -> tuple[Rows, Rows]:
        worlds = (_same_rows([0, 2], 3), _same_rows([0], 3))
        one, two = (_patterns(mechanism.perturb(world, noise)) for world in worlds)
        return one, two

    assert _within(*pair(make(1.0)), 1.0)
    assert not _within(*pair(make(factor)), 1.0)


def test_one_edge_of_a_central_graph_is_within_epsilon() -> None:
    noise = Noise.research(2)

    def pair(mechanism: LapGraph) -> tuple[Rows, Rows]:
        worlds = (Edges.of(([0, 1, 2], [0, 1], 2)), Edges.of(([0, 1, 1], [0], 2)))
        found = [[mechanism.perturb(world, noise) for _ in range(900)] for world in worlds]
        one, two = (
            np.array([int(graph.toarray().ravel() @ [1, 2, 4, 8]) for graph in graphs]) for graphs in found
        )
        return one, two

    assert _within(*pair(LapGraph(1.0, count_share=0.5)), 1.0)
    assert not _within(*pair(LapGraph(8.0, count_share=0.5)), 1.0)


def test_with_secure_noise() -> None:
    noise = Noise.secure()
    worlds = [_same_rows(row, 3, 3000) for row in ([0, 2], [0])]
    for mechanism in (EdgeResponse(1.0), DegreePreserving(1.0), TopDegreeEncoder(1.0)):
        one, two = (_patterns(mechanism.perturb(world, noise)) for world in worlds)
        assert _within(one, two, 1.0)
    one, two = (_patterns(EdgeResponse(2.0).perturb(world, noise)) for world in worlds)
    assert not _within(one, two, 1.0)


# -- exact probabilities and dense oracles ------------------------------------------------------------------


def _response_fits(reports: Rows, p1: float, p0: float) -> bool:
    """Rows with items 0 and 2 of 3: the chi-square of all 8 patterns."""
    bits = np.arange(8)[:, None] >> np.arange(3) & 1
    ones = np.array([p1, p0, p1])
    expected = np.where(bits, ones, 1 - ones).prod(1)
    return bool(stats.chisquare(np.bincount(reports, minlength=8), len(reports) * expected).pvalue > 1e-6)


@pytest.mark.parametrize("noise", [Noise.research(3), Noise.secure()], ids=["research", "secure"])
@pytest.mark.parametrize("thinning", [1.0, 0.3])
def test_response_has_the_stated_probabilities(noise: Noise, thinning: float) -> None:
    mechanism = EdgeResponse(1.5, thinning)
    assert mechanism.p1 / mechanism.p0 == pytest.approx(math.exp(1.5), rel=1e-12)
    assert mechanism.p1 / mechanism.p0 <= math.exp(1.5)
    reports = _patterns(mechanism.perturb(_same_rows([0, 2], 3, 5000), noise))
    assert _response_fits(reports, mechanism.p1, mechanism.p0)
    broken = _patterns(EdgeResponse(3.0, thinning).perturb(_same_rows([0, 2], 3, 5000), noise))
    assert not _response_fits(broken, mechanism.p1, mechanism.p0)


def _dense_top(row: list[int], items: int, epsilon: float, split: float, name: str) -> NDArray[np.bool_]:
    """Algorithm 1 as it is written, with the indices taken first."""
    rng = stream(5, "dense", name)
    cells = rng.laplace(0, 1 / (split * epsilon), (ROWS, items))
    cells[:, row] += 1
    noisy = len(row) + rng.laplace(0, 1 / ((1 - split) * epsilon), ROWS)
    keep = np.clip(np.floor(noisy), 0, items)
    rank = np.argsort(np.argsort(-cells, axis=1), axis=1)
    return np.asarray(rank < keep[:, None])


def test_top_degree_equals_the_dense_oracle_on_every_pattern() -> None:
    """Four items: the threshold is 0 and often too few lie above it, so the rest is drawn too."""
    dense = _dense_top([0, 1], 4, 1.5, 0.6, "few") @ 2 ** np.arange(4)
    sparse_ = _patterns(TopDegreeEncoder(1.5, 0.6).perturb(_same_rows([0, 1], 4), Noise.research(6)))
    assert _homogeneous(dense, sparse_)
    other = _patterns(TopDegreeEncoder(1.8, 0.6).perturb(_same_rows([0, 1], 4), Noise.research(6)))
    assert not _homogeneous(dense, other)


def test_a_threshold_that_is_too_high_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above 0.7 lie too few cells nearly always: the rest is drawn as Laplace noise given to be below it."""
    monkeypatch.setattr(graph_top, "_threshold", lambda keep, cells, scale: 0.7)
    dense = _dense_top([0, 1], 4, 3.0, 0.6, "high") @ 2 ** np.arange(4)
    world = _same_rows([0, 1], 4, 6000)
    assert _homogeneous(dense, _patterns(TopDegreeEncoder(3.0, 0.6).perturb(world, Noise.research(6))))
    assert not _homogeneous(dense, _patterns(TopDegreeEncoder(3.8, 0.6).perturb(world, Noise.research(6))))


def test_top_degree_equals_the_dense_oracle_beyond_a_threshold() -> None:
    """Two of 150 items: false cells are drawn above a positive threshold. Compared: size and places."""

    def summary(chosen: Any) -> Rows:
        size = np.minimum(np.asarray(chosen.sum(1)).ravel(), 9)
        places = chosen[:, [7]] + 2 * chosen[:, [90]] + 4 * chosen[:, [91]]
        return np.rint(size * 8 + np.asarray(places).ravel()).astype(np.int64)

    dense = summary(_dense_top([7, 90], 150, 4.0, 0.8, "many").astype(np.int64))

    def encoded(epsilon: float) -> Rows:
        return summary(
            TopDegreeEncoder(epsilon, 0.8).perturb(_same_rows([7, 90], 150), Noise.research(7)).toarray()
        )

    assert _homogeneous(dense, encoded(4.0))
    assert not _homogeneous(dense, encoded(4.6))


def test_the_largest_cells_of_all_rows_together_equal_the_dense_oracle() -> None:
    edges, count = Edges.of(([0, 1, 3], [0, 1, 2], 3)), 1000
    noise, rng = Noise.research(8), stream(8, "dense")
    cells = rng.laplace(0, 0.5, (count, 6)) + np.array([1, 0, 0, 0, 1, 1])
    for keep in (2, 5):
        dense = (np.argsort(np.argsort(-cells, axis=1), axis=1) < keep) @ 2 ** np.arange(6)

        def draw(epsilon: float, keep: int = keep) -> Rows:
            found = (top_cells(edges, np.array([keep]), epsilon, noise) for _ in range(count))
            return np.array([int((2 ** (3 * rows + items)).sum()) for rows, items in found])

        assert _homogeneous(dense, draw(2.0))
        assert not _homogeneous(dense, draw(4.0))


@given(st.lists(st.lists(st.integers(0, 3), max_size=9), max_size=6), st.randoms())
def test_the_largest_of_each_group_and_ties_to_the_first(groups: list[list[int]], random: Any) -> None:
    keep = np.array([random.randint(0, 10) for _ in groups], np.int64)
    ends = np.cumsum([0, *map(len, groups)])
    values = np.array([value for group in groups for value in group], np.float64)
    marks = np.zeros(len(values), bool)
    in_threads(kernels.mark_largest, len(groups), values, ends, keep, marks, block=2)
    for number, group in enumerate(groups):
        oracle = sorted(range(len(group)), key=lambda place: (-group[place], place))[: keep[number]]
        assert np.flatnonzero(marks[ends[number] : ends[number + 1]]).tolist() == sorted(oracle)


def test_a_split_of_0_reports_at_random() -> None:
    mechanism = TopDegreeEncoder(5.0, split=0.0)
    out = mechanism.perturb(_same_rows([0, 1, 2], 10, 5000), Noise.research(9))
    places = np.asarray(out.sum(0)).ravel()
    assert stats.chisquare(places).pvalue > 1e-6
    assert mechanism.expected_precision(3, 10) == pytest.approx(0.3)
    assert [event.label for event in mechanism.events] == ["degree"]
    true = TopDegreeEncoder(5.0, split=0.5).perturb(_same_rows([0, 1, 2], 10, 5000), Noise.research(9))
    assert stats.chisquare(np.asarray(true.sum(0)).ravel()).pvalue < 1e-6


def test_degree_preserving_equals_the_dense_oracle_on_every_pattern() -> None:
    rng, row, items = stream(5, "dense", "preserving"), [0, 1], 4
    keep = 1 / (1 + math.exp(-1.2))
    noisy = np.clip(2 + rng.laplace(0, 1 / 0.8, ROWS), 0, items)
    share = np.minimum(noisy / (noisy * (2 * keep - 1) + items * (1 - keep)), 1)
    told = np.isin(np.arange(items), row) ^ (rng.random((ROWS, items)) > keep)
    dense = (told & (rng.random((ROWS, items)) < share[:, None])) @ 2 ** np.arange(items)
    world = _same_rows(row, items)
    assert _homogeneous(dense, _patterns(DegreePreserving(2.0, 0.6).perturb(world, Noise.research(6))))
    assert not _homogeneous(dense, _patterns(DegreePreserving(2.4, 0.6).perturb(world, Noise.research(6))))


def test_degree_preserving_keeps_degrees_and_the_stated_probabilities() -> None:
    mechanism, items = DegreePreserving(3.0, split=0.8), 200
    row = list(range(30))
    out = mechanism.perturb(_same_rows(row, items, 4000), Noise.research(10))
    sizes = np.asarray(out.sum(1)).ravel()
    assert sizes.mean() == pytest.approx(30, abs=0.6)
    # given its noisy degree a row is sampled alike everywhere: true to false places as p1 to p0
    places = np.asarray(out.sum(0)).ravel()
    ratio = places[:30].mean() / places[30:].mean()
    assert ratio == pytest.approx(math.exp(2.4), rel=0.03)
    # the negative control: randomised response alone reports more than the degree
    plain = EdgeResponse(3.0).perturb(_same_rows(row, items, 4000), Noise.research(10))
    assert np.asarray(plain.sum(1)).mean() > 33
    assert (mechanism.sampling(np.array([-5.0, 1e9]), items) <= 1).all()


# -- precision ----------------------------------------------------------------------------------------------


def test_closed_forms_of_the_specification() -> None:
    gowalla, yelp = (27.5, 40_981), (39.4, 38_048)  # mean training degrees at 80 %
    assert TopDegreeEncoder(5.0).expected_precision(132, 3706) == pytest.approx(0.726, abs=0.001)
    assert TopDegreeEncoder(5.0).expected_precision(*gowalla) == pytest.approx(0.057, abs=0.001)
    assert TopDegreeEncoder(5.0).expected_precision(*yelp) == pytest.approx(0.085, abs=0.001)
    response = EdgeResponse(5.0)
    assert response.expected_precision(132, 3706) == pytest.approx(0.846, abs=0.001)
    assert response.expected_precision(*gowalla) == pytest.approx(0.091, abs=0.001)
    assert response.expected_precision(*yelp) == pytest.approx(0.133, abs=0.001)
    assert response.p1 * 132 == pytest.approx(131, abs=0.2)
    assert response.p0 * (3706 - 132) == pytest.approx(24, abs=0.2)
    assert expected_precision(10, 10, 4.5) == pytest.approx(1.0)  # all cells are kept
    assert expected_precision(1, 1000, 1e-6) == pytest.approx(0.001, rel=1e-3)  # all noise: the prior


def _precision(out: Any, degree: int) -> float:
    return float(out[:, :degree].sum() / out.sum())


def test_simulated_precision_is_within_two_per_cent_of_the_closed_form() -> None:
    """ML-1M: 132 of 3,706 items at epsilon 5."""
    world = _same_rows(list(range(132)), 3706, 150)
    for mechanism in (TopDegreeEncoder(5.0), EdgeResponse(5.0)):
        out = mechanism.perturb(world, Noise.research(11))
        assert _precision(out, 132) == pytest.approx(mechanism.expected_precision(132, 3706), rel=0.02)
    central = LapGraph(5.0)
    closed = central.expected_precision(132 * 150, 3706 * 150)
    assert _precision(central.perturb(world, Noise.research(12)), 132) == pytest.approx(closed, rel=0.02)
    less = TopDegreeEncoder(4.0).perturb(world, Noise.research(13))
    assert _precision(less, 132) != pytest.approx(closed, rel=0.02)


def test_the_operator_is_unbiased_and_never_dense() -> None:
    rng = stream(14, "graph")
    dense = (rng.random((50, 40)) < 0.1).astype(float)
    mechanism, noise = EdgeResponse(2.0), Noise.research(15)
    x, y = rng.normal(size=40), rng.normal(size=50)
    ops = [mechanism.operator(mechanism.perturb(sparse.csr_array(dense), noise)) for _ in range(300)]
    deviation = math.sqrt(mechanism.p1 * mechanism.p0 / (mechanism.p1 - mechanism.p0) ** 2)
    for found, truth, size in (
        (np.mean([op @ x for op in ops], axis=0), dense @ x, np.linalg.norm(x)),
        (np.mean([op.rmatvec(y) for op in ops], axis=0), dense.T @ y, np.linalg.norm(y)),
    ):
        assert np.abs(found - truth).max() < 5 * deviation * size / math.sqrt(300)
    assert np.allclose(ops[0] @ np.eye(40), np.column_stack([ops[0] @ one for one in np.eye(40)]))


# -- the rest -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism",
    [EdgeResponse(5.0, thinning=0.1), TopDegreeEncoder(5.0), DegreePreserving(5.0), LapGraph(5.0)],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_memory_stays_far_below_the_dense_matrix(mechanism: Any) -> None:
    """1,500 users x 40,981 items: a dense matrix of bytes would take 61 MB, one of doubles 492 MB."""
    rng = stream(16, "graph")
    rows = np.repeat(np.arange(1500), 27)
    cells = np.unique(rows * 40_981 + rng.integers(0, 40_981, len(rows)))
    graph = sparse.csr_array((np.ones(len(cells)), (cells // 40_981, cells % 40_981)), (1500, 40_981))
    tracemalloc.start()
    try:
        out = mechanism.perturb(graph, Noise.research(17))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert out.nnz > 0
    assert peak < 40e6


def test_events_are_recorded_and_add_up() -> None:
    world = _same_rows([0, 1], 5, 3)
    for mechanism in (
        EdgeResponse(2.0),
        EdgeRand.for_budget(2.0),
        TopDegreeEncoder(2.0),
        DegreePreserving(2.0),
        LapGraph(2.0),
    ):
        noise = Noise.research(18)
        mechanism.perturb(world, noise, "graph")  # type: ignore[attr-defined]
        assert epsilon_of(noise.events, 0.0) == pytest.approx(2.0)
        assert epsilon_of(noise.events, 0.0, group=132) == pytest.approx(264)  # what 132 edges pay
        assert all(event.label.startswith("graph") for event in noise.events)


@pytest.mark.parametrize(
    "mechanism", [EdgeResponse(1.0), TopDegreeEncoder(1.0), DegreePreserving(1.0), LapGraph(1.0)]
)
def test_empty_full_and_single_graphs(mechanism: Any) -> None:
    noise = Noise.research(19)
    for shape, fill in (((0, 3), 0), ((4, 3), 0), ((4, 3), 1), ((1, 1), 1)):
        out = mechanism.perturb(sparse.csr_array(np.full(shape, fill)), noise)
        assert out.shape == shape
        assert (out.data == 1).all()
        assert out.has_sorted_indices
        assert len(set(zip(*out.nonzero()))) == out.nnz


def test_the_same_seed_gives_the_same_graph() -> None:
    world = _same_rows([0, 4, 9], 30, 50)
    for mechanism in (EdgeResponse(3.0), TopDegreeEncoder(3.0), DegreePreserving(3.0), LapGraph(3.0)):
        one, two, other = (mechanism.perturb(world, Noise.research(seed)) for seed in (1, 1, 2))
        assert (one != two).nnz == 0
        assert (one != other).nnz > 0


def _normal(x: NDArray[np.float64], sigma: float) -> bool:
    return bool(stats.kstest(x.ravel(), stats.norm(scale=sigma).cdf).pvalue > 1e-6)


@pytest.mark.parametrize("noise", [Noise.research(20), Noise.secure()], ids=["research", "secure"])
def test_gaussian_adjacency(noise: Noise) -> None:
    graph = sparse.csr_array(np.diag([3.0] * 60))
    gap = GaussianAdjacency(2.0).release(graph, noise) - graph.toarray()
    assert _normal(gap, 2.0)
    assert not _normal(gap / 2, 2.0)
    assert [event.to_dict()["noise_multiplier"] for event in noise.events] == [2.0]
    noise.events.clear()
    assert epsilon_of([GaussianAdjacency.for_budget(5.0, 1e-5).event], 1e-5) == pytest.approx(5.0)


def test_gaussian_adjacency_in_blocks_is_the_same_matrix() -> None:
    graph = sparse.csr_array((5, 2_000_000))
    one, two = Noise.research(21), Noise.research(21)
    mechanism = GaussianAdjacency(1.0)
    whole = mechanism.release(graph[:3], one)
    parts = dict(mechanism.blocks(graph[:3], two))
    assert list(parts) == [0, 2]
    assert np.array_equal(np.concatenate(list(parts.values())), whole)
    assert len(two.events) == 1
    with pytest.raises(ValueError, match="adjacency must be at most"):
        mechanism.release(sparse.csr_array((40, 2_000_000)), one)
    with pytest.raises(ValueError, match="counts of edges"):
        mechanism.release(sparse.csr_array(np.array([[0.5]])), one)


def test_bad_settings() -> None:
    for make in (EdgeResponse, TopDegreeEncoder, DegreePreserving, LapGraph, EdgeRand.for_budget):
        for bad in (0.0, -1.0, math.nan, math.inf):
            with pytest.raises(ValueError, match="epsilon must be"):
                make(bad)  # type: ignore[operator]
    with pytest.raises(ValueError, match="thinning must be above 0"):
        EdgeResponse(1.0, 0.0)
    with pytest.raises(ValueError, match="split must be"):
        TopDegreeEncoder(1.0, 1.0)
    with pytest.raises(ValueError, match="split must be"):
        DegreePreserving(1.0, 0.0)
    with pytest.raises(ValueError, match="count_share must be"):
        LapGraph(1.0, 1.0)
    with pytest.raises(ValueError, match="share must be"):
        EdgeRand(0.0)
    noise = Noise.research(1)
    with pytest.raises(ValueError, match="zeros and ones"):
        EdgeResponse(1.0).perturb(sparse.csr_array(np.array([[2]])), noise)
    assert noise.events == []
    with pytest.raises(ValueError, match="keep must be"):
        top_cells(_same_rows([0], 2, 3), np.array([1, 1]), 1.0, noise)
    with pytest.raises(ValueError, match="degree must be"):
        expected_precision(5, 4, 1.0)


@pytest.mark.parametrize("epsilon", [0.1, 5.0, 30.0, 37.0, 50.0, 800.0])
def test_no_report_is_no_certain_sign_either(epsilon: float) -> None:
    """1 - p0 to 1 - p1: from 37 on a rounded p1 was 1, and a missing report proved that there is no edge.

    From 746 on p0 was 0, and a report proved an edge.
    """
    mechanism = EdgeResponse(epsilon)
    assert (mechanism.event.epsilon, mechanism.p0 > 2.0**-128) == (epsilon, True)
    assert EdgeRand.for_budget(epsilon).epsilon <= epsilon * (1 + 1e-9)
    p1, p0 = Fraction(mechanism.p1), Fraction(mechanism.p0)
    assert p1 < 1
    assert math.log((1 - p0) / (1 - p1)) <= epsilon * (1 + 1e-12)
    assert math.log(p1 / p0) <= epsilon * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [2e-6, 1e-3, 1.0, 5.0])
@pytest.mark.parametrize("honest", [True, False], ids=["as it is", "broken: the scale that was asked for"])
def test_above_the_threshold_secure_odds_are_within_epsilon(epsilon, honest, monkeypatch) -> None:
    """The cells with an edge get noise of the enlarged scale; the mass of the others must be of the same."""
    noise, told = Noise.secure(), []

    def false_cells(edges: Edges, probability: float, noise: Noise) -> tuple[Any, Any]:
        told.append(probability)
        return np.empty(0, np.int64), np.empty(0, np.int64)

    thresholds = []
    find = graph_top._threshold
    monkeypatch.setattr(graph_top, "false_cells", false_cells)
    monkeypatch.setattr(
        graph_top, "_threshold", lambda *about: thresholds.append(find(*about)) or thresholds[-1]
    )
    wide = noise.laplace_scale(1 / epsilon, 1.0, coordinates=1)
    if not honest:
        monkeypatch.setattr(Noise, "laplace_scale", lambda self, scale, *_, **__: scale)
        monkeypatch.setattr(Noise, "laplace_step", 0.0)
        monkeypatch.setattr(Noise, "add_laplace", lambda self, x, *_, **__: np.zeros(np.shape(x)))
    items = 1_000_000
    edges = Edges(np.array([0, 3]), np.array([1, 5, 9]), items)
    top_cells(edges, np.array([0]), epsilon, noise)
    (probability,), (threshold,) = told, thresholds
    step = wide / LAPLACE_STEPS  # a true cell is above the threshold on the lattice: at most a step more
    odds = math.log(math.exp(-(threshold - step - 1) / wide) / 2 / probability)
    assert threshold > 1
    assert (odds <= epsilon) == honest
    assert not honest or odds == pytest.approx(epsilon, rel=0.2)
