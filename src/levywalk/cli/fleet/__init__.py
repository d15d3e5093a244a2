"""``levywalk fleet …``: create, run, watch and simulate a fleet of real nodes."""

from __future__ import annotations

import typer

from levywalk.cli.fleet.budget import BUDGET_EXAMPLES, budget
from levywalk.cli.fleet.export import MODEL_EXAMPLES, TRACE_EXAMPLES, model, trace
from levywalk.cli.fleet.init import INIT_EXAMPLES, init
from levywalk.cli.fleet.join import join
from levywalk.cli.fleet.logs import LOGS_EXAMPLES, logs
from levywalk.cli.fleet.maintain import (
    doctor,
    forgive,
    gone,
    leave,
    prune,
    rejoin,
    renew,
    revive,
    revoke,
    rotate,
)
from levywalk.cli.fleet.monitoring import MONITORING_EXAMPLES, monitoring
from levywalk.cli.fleet.operator import OPERATOR_EXAMPLES, operator
from levywalk.cli.fleet.simulate import SIMULATE_EXAMPLES, simulate
from levywalk.cli.fleet.start_stop import UP_EXAMPLES, begin, stop, up
from levywalk.cli.fleet.status import STATUS_EXAMPLES, status

app = typer.Typer(
    no_args_is_help=True, help="Create, run, watch and simulate a fleet of real nodes."
)


@app.callback()
def fleet() -> None:
    """Create, run, watch and simulate a fleet of real nodes."""


app.command(epilog=INIT_EXAMPLES, short_help="Create a fleet: a folder with its nodes.")(init)
app.command(epilog=UP_EXAMPLES, short_help="Start every node that does not run.")(up)
app.command(short_help="Start the walk, if others have started the nodes.")(begin)
app.command(epilog=STATUS_EXAMPLES, short_help="Show where the model is, and every node.")(status)
app.command()(stop)
app.command(epilog=LOGS_EXAMPLES)(logs)
app.command(epilog=TRACE_EXAMPLES)(trace)
app.command(epilog=MODEL_EXAMPLES, short_help="Write the final model as safetensors.")(model)
app.command(short_help="Look for problems of a fleet, with remedies.")(doctor)
app.command(short_help="Say that a node will never come back.")(gone)
app.command(short_help="Let a node whose models were refused take part again.")(forgive)
app.command(short_help="Continue a walk that has stopped for good from the best copy left.")(revive)
app.command(short_help="Let a fenced node take part again, without its old disk.")(rejoin)
app.command(
    epilog=BUDGET_EXAMPLES,
    short_help="Set the privacy budget already used by a node whose disk was lost.",
)(budget)
app.command(short_help="Remove the oldest visits from the nodes' logs.")(prune)
app.command(short_help="Remove a node from the fleet.")(leave)
app.command(short_help="Give the nodes new certificates for their present keys.")(renew)
app.command(short_help="Give the nodes new keys, without a stop.")(rotate)
app.command(short_help="Add a new node to a running fleet.")(join)
app.command(short_help="Exclude a node for good; all nodes are told.")(revoke)
app.command(
    epilog=OPERATOR_EXAMPLES, short_help="Create a folder for operators on other machines."
)(operator)
app.command(
    epilog=MONITORING_EXAMPLES, short_help="Write configuration for Prometheus and Grafana."
)(monitoring)
app.command(epilog=SIMULATE_EXAMPLES, short_help="Run a whole fleet in virtual time.")(simulate)
