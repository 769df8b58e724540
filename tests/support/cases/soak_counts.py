"""What the soak campaigns of failures add up over their runs."""

from support.worlds.epochs import World


def counts_of(world: World) -> dict[str, int]:
    return {
        "simulated ms": world.now // 1_000_000,
        "events": world.events,
        "crashes": world.crashes,
        "crashes within a flush": world.crashes_within,
        "partitions": world.partitions,
        "lost stores": sum(world.lost.values()),
        "returns by snapshot": sum(map(len, world.lapses.values())),
        "rollbacks": len(world.rollbacks),
        "messages": len(world.before),
        "deliveries": sum(map(len, world.seen.values())),
        "epochs": max(world.epochs, default=0),
    }
