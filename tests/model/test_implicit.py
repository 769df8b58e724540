"""Names of implicit groups: the same for the same members, and never one a user can choose."""

import hashlib

import pytest

from ordercast.model.implicit import implicit_group, is_implicit
from ordercast.model.names import is_name


def test_the_name_is_made_from_the_sorted_members() -> None:
    expected = "@" + hashlib.sha256(b"a,b,c").hexdigest()[:16]
    assert implicit_group(["c", "a", "b"]) == expected
    assert implicit_group("abcabc") == expected
    assert len(expected) == 17


def test_other_members_have_another_name() -> None:
    assert implicit_group(["ab", "c"]) != implicit_group(["a", "bc"])


@pytest.mark.parametrize("group", ["alpha", "a-b", "0"])
def test_no_name_that_a_user_may_choose_is_implicit(group: str) -> None:
    assert is_name(group)
    assert not is_implicit(group)
    assert is_implicit(implicit_group([group]))
    assert not is_name(implicit_group([group]))
