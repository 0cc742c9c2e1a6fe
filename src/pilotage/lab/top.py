"""The live table of a cluster's nodes in a terminal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widgets import DataTable, Footer, Input, Static

from pilotage.lab.overview import NodeRow, Overview
from pilotage.lab.overview_table import COLUMNS, FULLEST_FIRST, cells, chosen, colour, decision_text, summary

MOST_ROWS = 500  # more than anybody reads; sorting and filtering find the others
DECISIONS_SHOWN = 8
STATE_COLOURS = {"ready": "green", "not ready": "bold red", "cordoned": "yellow", "tainted": "cyan"}


class Top(App[None]):
    """Asks for an overview now and then, and shows it."""

    CSS = """
    #summary { height: auto; padding: 0 1; background: $panel; }
    #nodes { height: 1fr; }
    #decisions { height: auto; max-height: 10; padding: 0 1; border-top: solid $primary; }
    #filter { display: none; height: 3; }
    #filter.open { display: block; }
    """
    BINDINGS: ClassVar[list[Binding | tuple[str, str] | tuple[str, str, str]]] = [
        Binding("q", "quit", "quit"),
        Binding("s", "sort", "sort by the next column"),
        Binding("r", "reverse", "other way round"),
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("escape", "all", "all nodes", show=False),
        Binding("space", "pause", "pause"),
        Binding("d", "decisions", "decisions"),
    ]
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        ask: Callable[[], Overview],
        follow: Callable[[], Awaitable[None]] | None = None,
        seconds: float = 1.0,
        sort: str = "node",
        text: str = "",
    ) -> None:
        super().__init__()
        self._ask, self._follow, self._seconds, self._text = ask, follow, seconds, text
        self.sorted_by, self.reversed, self.paused = sort, sort in FULLEST_FIRST, False

    def compose(self) -> ComposeResult:
        yield Static(id="summary", markup=False)
        with Vertical():
            yield Input(
                self._text,
                placeholder="part of a node's name, state or GPU model",
                id="filter",
                classes="open" if self._text else "",
            )
            yield DataTable(id="nodes", cursor_type="row", zebra_stripes=True)
            yield Static(id="decisions", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        self.title = "pilotage lab top"
        self.nodes.add_columns(*((self._heading(name), name) for name in COLUMNS))
        if self._follow is not None:
            self.run_worker(self._follow(), exclusive=True, exit_on_error=True)
        self.set_interval(self._seconds, self.show_now)
        self.show_now()
        self.nodes.focus()

    @property
    def nodes(self) -> DataTable[Text]:
        return self.query_one("#nodes", DataTable)

    def show_now(self) -> None:
        if self.paused:
            return
        overview = self._ask()
        rows = chosen(overview, self.query_one("#filter", Input).value, self.sorted_by, reverse=self.reversed)
        lines = summary(overview)
        if len(rows) < len(overview.nodes) or len(rows) > MOST_ROWS:
            lines.append(f"{min(len(rows), MOST_ROWS)} of {len(overview.nodes)} nodes shown")
        self.query_one("#summary", Static).update("\n".join(lines))
        self._fill(rows[:MOST_ROWS])
        last = overview.decisions[:DECISIONS_SHOWN]
        self.query_one("#decisions", Static).update("\n".join(map(decision_text, last)) or "no decisions yet")

    def _fill(self, rows: list[NodeRow]) -> None:
        """Cells that changed, where the same nodes are in the same order; else all of them, at the same place."""
        table = self.nodes
        names = [row.name for row in rows]
        if [key.value for key in table.rows] == names:
            for row in rows:
                for column, cell in zip(COLUMNS, _styled(row), strict=True):
                    if table.get_cell(row.name, column) != cell:
                        table.update_cell(row.name, column, cell, update_width=True)
            return
        place, scrolled = table.cursor_row, table.scroll_offset
        table.clear()
        for row in rows:
            table.add_row(*_styled(row), key=row.name)
        table.move_cursor(row=min(place, max(len(rows) - 1, 0)), animate=False)
        table.scroll_to(y=scrolled.y, animate=False)

    # What keys do

    def action_sort(self) -> None:
        self.sort_by(COLUMNS[(COLUMNS.index(self.sorted_by) + 1) % len(COLUMNS)])

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        name = event.column_key.value or "node"
        self.sort_by(name, reverse=not self.reversed if name == self.sorted_by else None)

    def sort_by(self, column: str, *, reverse: bool | None = None) -> None:
        """Shares begin with the fullest node, names with the first."""
        self.sorted_by = column
        self.reversed = column in FULLEST_FIRST if reverse is None else reverse
        for name, shown in zip(COLUMNS, self.nodes.columns.values(), strict=True):
            shown.label = Text(self._heading(name))
        self.nodes.refresh()
        self.show_now()

    def action_reverse(self) -> None:
        self.sort_by(self.sorted_by, reverse=not self.reversed)

    def action_filter(self) -> None:
        field = self.query_one("#filter", Input)
        field.add_class("open")
        field.focus()

    def action_all(self) -> None:
        field = self.query_one("#filter", Input)
        field.value = ""
        field.remove_class("open")
        self.nodes.focus()
        self.show_now()

    def on_input_changed(self) -> None:
        self.show_now()

    def on_input_submitted(self) -> None:
        self.nodes.focus()

    def action_pause(self) -> None:
        self.paused = not self.paused
        self.sub_title = "paused" if self.paused else ""
        self.show_now()

    def action_decisions(self) -> None:
        shown = self.query_one("#decisions", Static)
        shown.display = not shown.display

    def _heading(self, name: str) -> str:
        return f"{name} {'▼' if self.reversed else '▲'}" if name == self.sorted_by else name


def _styled(row: NodeRow) -> tuple[Text, ...]:
    name, state, *uses, model = cells(row)
    colours = [colour(use) for use in (row.cpu, row.memory, row.gpu, row.pods)]
    return (
        Text(name),
        Text(state, style=STATE_COLOURS[row.state]),
        *(Text(text, style=style, justify="right") for text, style in zip(uses, colours, strict=True)),
        Text(model, style="dim" if model == "-" else ""),
    )
