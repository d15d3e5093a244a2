"""
A walk that dies and is revived
===============================

Six real node processes run on this machine, over mutual TLS.
The model is at one node, its holder, and a copy of it at another one, its guardian.
If both lose their disks at the same time, no node can continue by itself.
The walk has stopped for good.
The fleet says so, and one command continues from the best copy that is left.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import matplotlib.pyplot as plt

from levywalk.fleet.operate.fleet_status import winning_epoch
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.stopped_walk import able_to_continue

place = Path(tempfile.mkdtemp())


def levywalk(command: str) -> str:
    """Run a command as an operator types it, and return what it says."""
    words = [sys.executable, "-m", "levywalk", *command.split()]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()


print(levywalk("fleet init --network ring:6 --steps 100000 --dead-after 3 --heartbeat 1 six"))
print(levywalk("fleet up six"))

# %%
# The walk goes on. A second thread notes the highest update that any node has seen.

fleet = FleetFolder.open(place / "six")
began, seen, over = time.monotonic(), [], threading.Event()


def watch() -> None:
    """Look at the fleet until it is over."""
    while not over.wait(0.2):
        seen.append((time.monotonic() - began, fleet.status()["step"]))


watching = threading.Thread(target=watch)
watching.start()
time.sleep(5.0)
status = fleet.status()
print(f"update {status['step']}, at node {status['holder']}, guarded by {status['guardian']}")

# %%
# The nodes from whose disks the walk could continue, the holder and the guardian, are killed, and
# their disks are removed. The model moves many times per second, so all nodes are stopped first.

for node in status["nodes"]:
    os.kill(node["pid"], signal.SIGSTOP)
views = fleet.node_views()
lost = able_to_continue(views, winning_epoch(views))
for node in views:
    os.kill(node.pid, signal.SIGKILL if node.id in lost else signal.SIGCONT)
for v in lost:
    shutil.rmtree(fleet.files[v].state)
print(f"nodes {lost} have lost their disks")
died = time.monotonic() - began
time.sleep(8.0)  # two dead_after and more
print(levywalk("fleet status six"))

# %%
# The operator's signed order continues the walk. The two nodes start again, without their disks.

print(levywalk("fleet revive six"))
revived = time.monotonic() - began
print(levywalk("fleet up six"))
time.sleep(5.0)
over.set()
watching.join()
print(levywalk("fleet stop six"))

# %%
# The walk stands still until it is revived, and then goes on from an update shortly before.

times, steps = zip(*seen, strict=True)
figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
axes.plot(times, steps, color="#0072B2")
axes.axvline(died, color="#D55E00", linestyle="--", label="two disks are lost")
axes.axvline(revived, color="#009E73", linestyle="--", label="fleet revive")
axes.set_xlabel("seconds")
axes.set_ylabel("updates of the model")
axes.legend(frameon=False)
shutil.rmtree(place)
