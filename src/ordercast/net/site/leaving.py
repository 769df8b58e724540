"""What a site that stops leaves behind, told in one line."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ordercast.net.site.node import Node


def unflushed_of(node: "Node", stage: str) -> str:
    """It closed before all was at this stage of its receipt."""
    left = node.outgoing.waiting_messages
    behind = {
        group: last - node.stages.last(stage, group)
        for group in node.core.window.groups()
        if (last := node.core.window.last_seq(group)) > node.stages.last(stage, group)
    }
    told = ", ".join(f"{count} to {group}" for group, count in sorted(behind.items()))
    parts = []
    if left:
        parts.append(f"{left} messages were never taken into the window and are dropped")
    if behind:
        fate = "may be lost" if stage == "stable" else "are stored, and the next start sends them"
        parts.append(f"messages not {stage} yet: {told}; they {fate}")
    return f"site {node.site} closed before all was flushed: {'; '.join(parts) or 'unknown'}"
