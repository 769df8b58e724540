"""The live screen of a cluster. It needs Textual, of an extra."""

import time
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Footer, Static

from ordercast.cli.top_tables import whole
from ordercast.model.errors import Error
from ordercast.net.client.destinations import Destination
from ordercast.net.client.overview import Overview, overview
from ordercast.net.client.statuses import ask_all


class TopScreen(App[None]):
    """Asks all sites every `every_s` seconds, one look after the other."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "VerticalScroll { padding: 0 1; } Screen { background: transparent; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "interrupt", "Quit", show=False, priority=True),
    ]

    def __init__(self, place: Destination, every_s: float) -> None:
        super().__init__(ansi_color=True)  # the colours of the terminal
        self.interrupted = False
        self.failure: Error | None = None
        self._place = place
        self._every_s = every_s
        self._view: Overview | None = None

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static("asking the sites …", id="view", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.set_interval(self._every_s, self._look_again)
        self._look_again()

    def _look_again(self) -> None:
        self.run_worker(self._look(), exclusive=False, group="look")

    async def _look(self) -> None:
        if self._looking:
            return
        self._looking = True
        try:
            found = await ask_all(self._place)
        except Error as error:
            self.failure = error
            self.exit()
            return
        finally:
            self._looking = False
        self._view = overview(self._place.name, found, time.monotonic(), self._view)
        self.query_one("#view", Static).update(whole(self._view))

    _looking = False

    def action_interrupt(self) -> None:
        self.interrupted = True
        self.exit()
