"""Groups of commands whose module is read when one of them is asked for: start-up time is a promise."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


def group_of(module: str, name: str, text: str) -> typer.Typer:
    """A group like the `app` of `module`, which is imported when its commands are listed or called."""

    class Later(TyperGroup):
        """Takes its commands from the module."""

        def list_commands(self, ctx: Any) -> list[str]:
            self._read()
            return super().list_commands(ctx)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            self._read()
            return super().get_command(ctx, cmd_name)

        def _read(self) -> None:
            if not self.commands:
                found: Any = typer.main.get_group(import_module(module).app)
                self.commands = found.commands

    app = typer.Typer(name=name, cls=Later, help=text, no_args_is_help=True)

    @app.callback()
    def _group() -> None:
        """A group needs one; its text is that of `help`."""

    return app
