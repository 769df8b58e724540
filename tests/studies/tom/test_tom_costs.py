"""[TOM] Table 1 and Figure 5 beside what is right (errata TOM-5)."""

from ordercast.studies.tom.costs import PROCESSING, TRANSMISSIONS, FormulaTerms, figure_5


def column(setting: FormulaTerms, which: int) -> dict[str, float]:
    return {name: pair[which](setting) for name, pair in TRANSMISSIONS.items()}


EXAMPLE = FormulaTerms(3, 9, 11, depth=2, metagroups=4, path=3, forwarding=3)


def test_the_printed_column_is_that_of_the_paper() -> None:
    s, r, n, d, k, p = 3, 9, 11, 2, 4, 3
    assert column(EXAMPLE, 0) == {
        "symmetric": s * (1 + 2 * r),
        "two_phase": s * (1 + r),
        "centralized": s + r,
        "ring": 2 * s * n,
        "propagation": s * (1 + d),
        "metagroup": s * (1 + d + k),
        "tom": s * (2 + p),
    }


def test_two_phase_and_centralized_are_corrected_by_the_papers_own_text() -> None:
    printed, ours = column(EXAMPLE, 0), column(EXAMPLE, 1)
    assert ours["two_phase"] - printed["two_phase"] == EXAMPLE.sources  # the final numbers
    assert ours["centralized"] == 2 * EXAMPLE.sources
    assert PROCESSING["symmetric"] == ("O(sr²)", "O(sr)")
    differ = {name for name in ours if ours[name] != printed[name]}
    assert differ == set(TRANSMISSIONS)


def test_the_claim_that_tom_is_never_dearer_holds_in_print_only() -> None:
    """§4.3: "TOM performs equal or better than MG and MP"."""
    for hosts in (50, 100, 500, 1000):
        printed, ours = column(figure_5(hosts), 0), column(figure_5(hosts), 1)
        assert printed["tom"] <= printed["metagroup"] + 1
        assert ours["tom"] > ours["metagroup"]
        assert ours["tom"] > ours["propagation"]


def test_of_20_hosts_figure_5_is_below_one_level() -> None:
    """d = log_5 2: nothing is rounded up."""
    printed = column(figure_5(20), 0)
    assert round(printed["propagation"], 2) == 1.43
    assert round(printed["metagroup"], 2) == 2.43


def test_by_the_height_of_the_receivers_tom_beats_mg_always_and_mp_in_large_sessions() -> None:
    for hosts in (20, 100, 200, 250, 500, 1000):
        printed = column(figure_5(hosts, height_of="receivers"), 0)
        assert printed["tom"] <= printed["metagroup"]
        assert (printed["tom"] <= printed["propagation"] + 1e-9) == (hosts >= 250)
        assert printed["tom"] < column(figure_5(hosts), 0)["tom"]


def test_small_sessions_have_costs_too() -> None:
    for hosts in range(1, 30):
        for pair in TRANSMISSIONS.values():
            assert all(formula(figure_5(hosts)) >= 1 for formula in pair)
