"""
New keys while the walk goes on
===============================

Certificates expire, and keys may have been seen by somebody who should not have them.
``levywalk fleet rotate`` gives all nodes new keys and certificates without a stop.
The old key of a node signs the new one, so that its neighbours follow, and what was signed before
stays valid.
"""

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import matplotlib.pyplot as plt

from levywalk.fleet.operate.folder import FleetFolder

place = Path(tempfile.mkdtemp())


def levywalk(command: str) -> str:
    """Run a command as an operator types it, and return what it says."""
    words = [sys.executable, "-m", "levywalk", *command.split()]
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()


print(levywalk("fleet init --network ring:5 --steps 100000 five"))
print(levywalk("fleet up five"))

# %%
# The walk goes on. A second thread notes the highest update that any node has seen.

fleet = FleetFolder.open(place / "five")
began, seen, over = time.monotonic(), [], threading.Event()


def watch() -> None:
    """Look at the fleet until it is over."""
    while not over.wait(0.2):
        seen.append((time.monotonic() - began, fleet.status()["step"]))


watching = threading.Thread(target=watch)
watching.start()
time.sleep(5.0)

# %%
# One command, and all nodes use new keys. They open their connections again, one node after the
# other.

started = time.monotonic() - began
print(levywalk("fleet rotate five"))
ended = time.monotonic() - began
time.sleep(5.0)
over.set()
watching.join()
status = fleet.status()
print(f"rotations by node: {[node['rotation'] for node in status['nodes']]}")
print(f"lost updates: {status['lost_updates']}")
print(levywalk("fleet stop five"))

# %%
# The walk hardly slows down while connections are opened again, and loses nothing.

times, steps = zip(*seen, strict=True)
figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
axes.plot(times, steps, color="#0072B2")
axes.axvspan(started, ended, color="#E69F00", alpha=0.3, label="fleet rotate")
axes.set_xlabel("seconds")
axes.set_ylabel("updates of the model")
axes.legend(frameon=False)
shutil.rmtree(place)
