"""``levywalk fleet …``: create, run, watch and simulate a fleet of real nodes."""

from __future__ import annotations

import typer

from levywalk.cli.fleet.export import MODEL_EXAMPLES, TRACE_EXAMPLES, model, trace
from levywalk.cli.fleet.init import INIT_EXAMPLES, init
from levywalk.cli.fleet.logs import LOGS_EXAMPLES, logs
from levywalk.cli.fleet.maintain import doctor, gone, leave, renew
from levywalk.cli.fleet.simulate import SIMULATE_EXAMPLES, simulate
from levywalk.cli.fleet.start_stop import UP_EXAMPLES, begin, stop, up
from levywalk.cli.fleet.status import STATUS_EXAMPLES, status

app = typer.Typer(
    no_args_is_help=True, help="Create, run, watch and simulate a fleet of real nodes."
)


@app.callback()
def fleet() -> None:
    """Create, run, watch and simulate a fleet of real nodes."""


app.command(epilog=INIT_EXAMPLES)(init)
app.command(epilog=UP_EXAMPLES)(up)
app.command()(begin)
app.command(epilog=STATUS_EXAMPLES)(status)
app.command()(stop)
app.command(epilog=LOGS_EXAMPLES)(logs)
app.command(epilog=TRACE_EXAMPLES)(trace)
app.command(epilog=MODEL_EXAMPLES)(model)
for command in (doctor, gone, leave, renew):
    app.command()(command)
app.command(epilog=SIMULATE_EXAMPLES)(simulate)
