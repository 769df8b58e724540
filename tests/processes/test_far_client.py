"""A client in another network namespace than the cluster: real processes, TLS, and all that may
happen to them under load."""

from pathlib import Path

import pytest

from support.clusters.far_clients import FarCase, run_case
from support.network.namespaces import why_not


def test_a_far_client_outlives_its_daemon_and_changes_of_grants_but_not_its_certificate(
    tmp_path: Path,
) -> None:
    if why := why_not():
        pytest.skip(why)
    found = run_case(FarCase(1), tmp_path)
    assert found.wrong == []
    assert found.counts["daemons killed"] == 1
    assert found.counts["stable"] > 100
