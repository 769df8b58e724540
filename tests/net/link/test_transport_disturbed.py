"""The core's members over links that are reset, stalled, truncated, corrupted and delayed, while
other sites are added, take part and are retired."""

from pathlib import Path

import pytest

from ordercast.net.cluster.certificates import write_certificates
from ordercast.net.link.tls import TlsConfig
from support.network.links import CLUSTER, Runner, both_loops
from support.network.proxy import KINDS
from support.network.rough import rough_ride

VISITORS = ("v1",)


@both_loops
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_after_240_disturbances_nothing_is_lost_doubled_or_reordered(
    run: Runner, tls: bool, tmp_path: Path
) -> None:
    """Between the four cases, each of them with its part."""
    count = 60

    async def main() -> None:
        files = None
        if tls:
            write_certificates(CLUSTER, [*"abcd", *VISITORS], tmp_path)
            files = TlsConfig(tmp_path)
        ride = await rough_ride("abcd", count, f"test {tls}", visitors=VISITORS, tls=files)
        assert ride.wrong == []
        assert ride.visits == len(VISITORS)
        assert ride.messages > 100
        assert ride.disturbances.total() >= count
        assert all(ride.disturbances[kind] > 3 for kind in KINDS), ride.disturbances
        assert ride.losses > count // 4

    run(main())
