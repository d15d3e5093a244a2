"""
A fleet killed and brought back
===============================

A whole fleet in one process and in virtual time: the protocol is that of real nodes, only the
network and the clock are replaced.
The node that holds the model is killed in the middle of the walk.
Its guardian, the node that handed the model over, notices the silence and goes on with its own
copy; the killed node starts again later and takes part as before.
"""

import matplotlib.pyplot as plt

import levywalk as lw
from levywalk.fleet.protocol.terms import HandOffTerms
from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.timeline import summary, timeline, timeline_data
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet

network = lw.ring(12)
problem = lw.heterogeneous(12, important=1, seed=1)
terms = HandOffTerms(b"gallery", 100, "wait", heartbeat=0.05, dead_after=0.5, retry=0.025)
plan = Fleet.of(network, problem, lw.mhlj(), steps=1_200, step_size="theory", seed=1, terms=terms)

fleet = VirtualFleet(plan)
fleet.at(1.502, PlannedFault("kill", "holder"))
fleet.run(until=1.502)
killed = next(told.node for told in fleet.reports if told.what == "kill")
fleet.at(3.0, PlannedFault("restart", killed))
finished = fleet.run()

# %%
# What happened, as an operator would read it.

for row in timeline(fleet):
    print(f"{row.time:6.3f} s  {row.text}" + (f" (node {row.node})" if row.node >= 0 else ""))
found = summary(fleet)
print(f"{found['updates']} updates; {found['lost_updates']} was lost and made again")

# %%
# Where the model was.

drawn = timeline_data(fleet)
words = {
    "kill": ("X", "killed"),
    "regenerated": ("*", "restored"),
    "restart": ("^", "starts again"),
}
figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
for leg, colour in zip(drawn.legs, ("#0072B2", "#D55E00", "#009E73"), strict=False):
    axes.step(leg.times, leg.nodes, where="post", linewidth=0.8, color=colour, label=leg.name)
for time, node, what in drawn.marks:
    if what in words:
        mark, label = words[what]
        axes.plot(time, node, mark, markersize=12, color="black", label=label, zorder=5)
axes.set_xlabel("virtual seconds")
axes.set_ylabel("node")
figure.legend(frameon=False, loc="outside lower center", ncols=5)
