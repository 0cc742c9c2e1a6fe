"""`pilotage gang`: synchronous jobs."""

from __future__ import annotations

import typer

from pilotage.cli import gang_compare, gang_forecast, gang_plan, gang_profile, gang_run, gang_train

app = typer.Typer(
    name="gang", help="Divide CPU among tasks that wait for the slowest, and when to do it again.", no_args_is_help=True
)
app.command("compare", epilog=gang_compare.EXAMPLE)(gang_compare.compare)
app.command("forecast", epilog=gang_forecast.EXAMPLE)(gang_forecast.forecast)
app.command("plan", epilog=gang_plan.EXAMPLE)(gang_plan.plan)
app.command("profile", epilog=gang_profile.EXAMPLE)(gang_profile.profile)
app.command("run", epilog=gang_run.EXAMPLE)(gang_run.run)
app.command("train", epilog=gang_train.EXAMPLE)(gang_train.train)
app.command("worker", epilog=gang_run.WORKER_EXAMPLE)(gang_run.worker)
