"""`draw`: a forest as a picture in a file, site by site or, when it is large, by level."""

from ordercast.forest.forest import Forest
from ordercast.forest.metrics import measure
from ordercast.model.groups import GroupTable
from ordercast.plan.canvas import save, style
from ordercast.plan.overview import overview
from ordercast.plan.picture import picture

LABELLED = 200  # sites: up to here each is drawn by itself


def draw(forest: Forest, table: GroupTable, path: str) -> None:
    """Draw to a .svg or .png file; `canvas.require_drawable` says beforehand if that will work."""
    metrics = measure(forest, table)
    make = picture if len(table.sites) <= LABELLED else overview
    with style():
        save(make(forest, table, metrics), path)
