"""What balanced trees are made of: hypergraphs, cutters, clusters and their moves, samples."""

from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ordercast.forest.clusters import ClusterLimits, Clusters
from ordercast.forest.grower import Grower
from ordercast.forest.hypergraph import Hypergraph
from ordercast.forest.indexed_table import IndexedTable
from ordercast.forest.lineup import cut_line, cut_line_under, line_up
from ordercast.forest.partition import cutter_of
from ordercast.forest.sample import sample_of
from support.cases.tables import random_table


def ring_graph(nodes: int) -> Hypergraph:
    """Edges of three neighbours each; numbered so that neighbours' numbers are far apart."""
    number = [(7 * place) % nodes for place in range(nodes)]
    pins = [[number[(place + i) % nodes] for i in range(3)] for place in range(nodes)]
    return Hypergraph.of(pins, [1.0] * nodes, nodes)


def crossing(graph: Hypergraph, label: list[int]) -> float:
    return sum(
        weight
        for pins, weight in zip(graph.pins, graph.weights, strict=True)
        if len({label[node] for node in pins}) > 1
    )


@st.composite
def connected_graphs(draw: st.DrawFn) -> Hypergraph:
    """Up to fourteen nodes: a path that connects them, and edges of any size across it."""
    nodes = draw(st.integers(2, 14))
    edge = st.lists(st.integers(0, nodes - 1), min_size=2, max_size=nodes, unique=True)
    pins = [[i, i + 1] for i in range(nodes - 1)] + draw(st.lists(edge, max_size=12))
    weights = [float(draw(st.integers(1, 9))) for _ in pins]
    return Hypergraph.of(pins, weights, nodes)


def test_contraction_keeps_what_crosses_and_merges_what_crosses_alike() -> None:
    graph = Hypergraph.of([[0, 1], [1, 2], [0, 3], [0, 1, 2, 3]], [1.0, 2.0, 4.0, 8.0], 4)
    upper = graph.contracted([0, 0, 1, 1], 2)
    assert [list(pins) for pins in upper.pins] == [[0, 1]]
    assert upper.weights == [14.0]
    assert upper.work == [14.0, 14.0]


@given(connected_graphs())
@settings(max_examples=60, deadline=None)
def test_a_line_up_has_every_node_once(graph: Hypergraph) -> None:
    assert sorted(line_up(graph)) == list(range(graph.nodes))


def test_a_line_up_follows_a_ring_around() -> None:
    graph = ring_graph(300)
    line = line_up(graph)
    place = {node: at for at, node in enumerate(line)}
    spans = [max(place[n] for n in pins) - min(place[n] for n in pins) for pins in graph.pins]
    wrapped = [span for span in spans if span > 30]
    assert len(wrapped) <= 6  # it has to be cut open somewhere
    assert sum(spans) - sum(wrapped) <= 5 * len(spans)


@given(connected_graphs(), st.integers(2, 6))
@settings(max_examples=60, deadline=None)
def test_no_other_cuts_of_the_line_let_less_cross(graph: Hypergraph, limit: int) -> None:
    line = list(range(graph.nodes))
    sizes = [1.0] * graph.nodes

    def crossed(starts: tuple[int, ...]) -> float:
        """Counted at each cut, as the runs' heads see it."""
        return sum(
            weight
            for start in starts
            for pins, weight in zip(graph.pins, graph.weights, strict=True)
            if min(pins) < start <= max(pins)
        )

    def fits(starts: tuple[int, ...]) -> bool:
        bounds = (0, *starts, graph.nodes)
        return all(end - begin <= limit for begin, end in pairwise(bounds))

    label = cut_line(graph, line, sizes, float(limit))
    found = tuple(i for i in range(1, graph.nodes) if label[i] != label[i - 1])
    others = (
        [
            starts
            for count in range(graph.nodes)
            for starts in combinations(range(1, graph.nodes), count)
            if fits(starts)
        ]
        if graph.nodes <= 9
        else []
    )
    assert fits(found)
    assert all(crossed(found) <= crossed(starts) + 1e-9 for starts in others)


@given(connected_graphs(), st.integers(5, 60))
@settings(max_examples=60, deadline=None)
def test_runs_under_a_cap_are_single_nodes_or_within_it(graph: Hypergraph, cap: int) -> None:
    label = cut_line_under(graph, line_up(graph), float(cap))
    clusters = Clusters(graph, label, ClusterLimits(float(cap)))
    for nodes, load in zip(clusters.members, clusters.load, strict=True):
        assert len(nodes) == 1 or load <= cap


@pytest.mark.parametrize("partitioner", ["metis", "builtin"])
@given(graph=connected_graphs(), parts=st.integers(1, 14))
@settings(max_examples=60, deadline=None)
def test_any_number_of_parts_may_be_asked_for(
    partitioner: str, graph: Hypergraph, parts: int
) -> None:
    label = cutter_of(partitioner, graph).cut(graph.work, parts, 0.05)
    assert len(label) == graph.nodes
    assert min(label) >= 0
    if parts == 1:
        assert set(label) == {0}


@pytest.mark.parametrize("partitioner", ["metis", "builtin"])
@pytest.mark.parametrize("parts", [2, 10, 60])
def test_a_ring_is_cut_into_even_runs(partitioner: str, parts: int) -> None:
    graph = ring_graph(600)
    label = cutter_of(partitioner, graph).cut([1.0] * 600, parts, 0.05)
    counts = [label.count(part) for part in sorted(set(label))]
    assert parts * 0.9 <= len(counts) <= parts * 1.2
    assert max(counts) <= 1.5 * 600 / parts
    assert crossing(graph, label) <= 3 * len(counts)  # two at each end of a run, and some slack


@given(
    connected_graphs(),
    st.lists(st.integers(0, 3), min_size=14, max_size=14),
    st.integers(10, 80),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=120, deadline=None)
def test_moves_keep_the_books_right_and_never_raise_the_cost(
    graph: Hypergraph, drawn: list[int], cap: int, headed: bool, by_count: bool
) -> None:
    limits = ClusterLimits(cap / 10 if by_count else float(cap), headed=headed, by_count=by_count)
    clusters = Clusters(graph, drawn[: graph.nodes], limits)
    cost = clusters.cost()
    for passes in (1, 3):
        clusters.improve(passes)
        if not headed:  # what another head saves is not weighed
            assert clusters.cost() <= cost + 1e-6
        cost = clusters.cost()
    before = sum(max(0.0, load - limits.cap) for load in clusters.loads())
    clusters.relieve()
    assert sum(max(0.0, load - limits.cap) for load in clusters.loads()) <= before + 1e-6
    clusters.split()
    clusters.merge()
    label, count = clusters.compact()
    assert sorted(set(label)) == list(range(count))
    again = Clusters(graph, label, limits)
    assert sorted(again.loads()) == pytest.approx(sorted(clusters.loads()))
    assert again.cost() == pytest.approx(clusters.cost())


@given(connected_graphs(), st.integers(2, 4))
@settings(max_examples=60, deadline=None)
def test_split_clusters_have_no_more_nodes_than_allowed(graph: Hypergraph, most: int) -> None:
    clusters = Clusters(graph, [0] * graph.nodes, ClusterLimits(float(most), by_count=True))
    clusters.split()
    clusters.merge()
    assert max(map(len, clusters.members)) <= most


def test_lonely_nodes_move_to_where_they_share_most() -> None:
    graph = Hypergraph.of([[0, 1], [1, 2], [2, 3], [3, 4], [2, 4]], [1.0, 5.0, 1.0, 1.0, 1.0], 5)
    clusters = Clusters(graph, [0, 1, 2, 2, 2], ClusterLimits(100.0, least=2))
    clusters.pair_up()
    assert clusters.compact()[0] == [0, 0, 1, 1, 1]


def test_a_piece_of_a_local_table_is_a_sample_of_it() -> None:
    table = IndexedTable.of(random_table(6000, 6000, 5, 1, spread=10.0))
    sample = sample_of(table, Grower(table, "builtin").domains)
    assert sample is not None
    assert 2000 <= len(sample.sites) <= 4000
    assert all(members for members in sample.members)
    whole = {g: set(m) for g, m in zip(table.groups, table.members, strict=True)}
    number = {site: i for i, site in enumerate(table.sites)}
    inside = 0
    for group, members in zip(sample.groups, sample.members, strict=True):
        mapped = {number[sample.sites[member]] for member in members}
        assert mapped <= whole[group]
        inside += mapped == whole[group]
    assert inside >= 0.8 * len(sample.groups)


def test_random_groups_have_no_sample_and_small_tables_need_none() -> None:
    for table in (random_table(6000, 6000, 5, 1), random_table(200, 200, 5, 1, spread=10.0)):
        indexed = IndexedTable.of(table)
        assert sample_of(indexed, Grower(indexed, "metis").domains) is None
