"""Named readers over SIGKILLs of the programs that follow them, and of their daemon."""

from collections import Counter
from pathlib import Path

from support.clusters.campaigns.reader_kills import ReaderCase, judge, run_readers


def test_readers_get_every_message_once_over_kills(tmp_path: Path) -> None:
    case = ReaderCase(3, readers=8, kills=5, pause_s=0.5)
    found = run_readers(case, tmp_path)
    assert found.wrong == []
    assert found.counts["kills of programs"]
    assert found.counts["kills of daemons"]
    assert found.counts["confirmed"] >= case.readers


def test_the_judge_of_notes_finds_what_is_wrong() -> None:
    truth = [(1, "x"), (3, "y"), (4, "z")]
    good = ["F p 1 0", "H p 1 1 x", "H p 1 3 y", "C p 1 3", "H q 2 4 z", "C q 2 4"]
    assert judge(truth, good, Counter()) == []
    for change, said in (
        ([*good[:4], "H q 2 3 y", *good[4:]], "it was confirmed before"),
        ([*good[:2], *good[4:]], "was left out"),
        ([*good[:3], "C p 1 4", *good[4:]], "it was not handed over"),
        ([*good[:4]], "1 never came"),
        ([good[0], "H p 1 1 y", *good[2:]], "not the message of that position"),
        ([*good[:2], "H p 1 1 x", *good[2:]], "came before it"),
        ([*good, "H q 2 2 b"], "no such message"),
    ):
        assert any(said in each for each in judge(truth, change, Counter())), (change, said)
