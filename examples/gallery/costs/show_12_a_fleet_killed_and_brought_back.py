"""
A fleet killed and brought back
===============================

A whole fleet in one process and in virtual time: the protocol is that of real nodes, only the
network and the clock are replaced.
The node that holds the model is killed in the middle of the walk, and starts again two and a
half seconds later.
What happens in between is a choice of the operator.
"""

import matplotlib.pyplot as plt

import levywalk as lw
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.timeline import summary, timeline, timeline_data
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet

network = lw.ring(12)
problem = lw.heterogeneous(12, important=1, seed=1)


def killed_and_restarted(policy):
    """Return a fleet that has finished its walk, although its holder was killed after one and a half seconds."""
    terms = HandOffTerms(
        b"gallery", 100, policy, heartbeat=0.05, dead_after=0.5, retry=0.025
    )
    plan = Fleet.of(
        network, problem, lw.mhlj(), steps=1_200, step_size="theory", seed=1, terms=terms
    )
    fleet = VirtualFleet(plan)
    fleet.at(1.502, PlannedFault("kill", "holder"))
    fleet.run(until=1.502)
    killed = next(told.node for told in fleet.told if told.what == "kill")
    fleet.at(4.0, PlannedFault("restart", killed))
    fleet.run()
    return fleet


# %%
# With the policy "wait" the model waits on the dead node's disk, and nothing is lost.
# With "eager" its guardian, the node that handed the model over, soon goes on with its own copy.

fleets = {policy: killed_and_restarted(policy) for policy in ("wait", "eager")}
for policy, fleet in fleets.items():
    found = summary(fleet)
    print(f"{policy}: {found['updates']} updates, {found['lost_updates']} lost and made again")
    for row in timeline(fleet):
        print(f"  {row.time:6.3f} s  node {row.node:2d}  {row.words}")

# %%
# Where the model was.

figure, axes = plt.subplots(2, 1, figsize=(9, 6), sharex=True, layout="constrained")
for panel, (policy, fleet) in zip(axes, fleets.items(), strict=True):
    drawn = timeline_data(fleet)
    for leg, colour in zip(drawn.legs, ("#0072B2", "#D55E00", "#009E73"), strict=False):
        panel.step(leg.times, leg.nodes, where="post", linewidth=0.8, color=colour, label=leg.name)
    for time, node, what in drawn.marks:
        mark, words = {
            "kill": ("X", "killed"), "restart": ("^", "starts again"), "regenerated": ("*", "goes on")
        }.get(what, ("", ""))  # fmt: skip
        if mark:
            panel.plot(time, node, mark, markersize=11, color="black", label=words)
    panel.set_title(f"policy {policy}", loc="left")
    panel.set_ylabel("node")
    panel.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
axes[-1].set_xlabel("virtual seconds")
