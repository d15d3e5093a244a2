"""Three machines and an office: every command of docs/machines.md, typed in network namespaces.

The commands and what they print are taken from the page itself. Each machine is a network namespace
and a folder, which is its disk. All traffic is inside the namespaces. Every loop has a limit of
rounds or of time.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

import levywalk as lw
from levywalk.fleet.checking.namespaces import Namespaces, NoNamespaces
from levywalk.fleet.operate.fleet_status import winning_epoch
from levywalk.fleet.operate.folder import FleetFolder
from levywalk.fleet.operate.stopped_walk import able_to_continue
from levywalk.fleet.runtime.node_status import running
from tests.limits import PATIENCE, eventually

PAGE = Path(__file__).parents[2] / "docs" / "machines.md"
NODES = ["one", "two", "three", "four"]  # the machine of node v is NODES[v]
FIRST = NODES[:3]  # the others join later
MACHINES = [*NODES, "office"]
LONGEST = PATIENCE  # seconds for all commands of the page; without other work it is a minute or two
# Copies files to another machine, which is a folder here; scp itself would need a server there.
SCP = """\
#!/bin/bash
to=${!#}
exec cp "${@:1:$#-1}" "$MACHINES/${to%%:*}/${to#*:}"
"""
READS = ("status", "doctor", "logs")  # commands that may be typed again until they show the line


class Typed(NamedTuple):
    """A command of the page with the machine where it is typed, and what it prints; or an event."""

    machine: str | None  # None for an event
    text: str
    shown: tuple[str, ...]


def typed(page: str) -> Iterator[Typed]:
    """Yield the commands and the events of a page."""
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        found: list[Typed] = []
        for line in block.splitlines():
            if at := re.fullmatch(r"(\w+)\$ (.*)", line):
                found.append(Typed(at[1], at[2], ()))
            elif line.startswith("# "):
                found.append(Typed(None, line[2:], ()))
            else:
                found[-1] = found[-1]._replace(shown=(*found[-1].shown, line))
        yield from found


def shows(output: str, line: str) -> bool:
    """Return whether an output contains a line of the page, whose dots stand for anything."""
    parts = [re.escape(" ".join(part.split())) for part in line.split("…")]
    return re.search(".*?".join(parts), " ".join(output.split())) is not None


class Site:
    """Machines in one folder, with a network namespace each."""

    def __init__(self, folder: Path, between: Namespaces) -> None:
        self.folder, self.between = folder, between
        self.until = time.monotonic() + LONGEST
        for name in MACHINES:
            (folder / name).mkdir()
        tools = folder / "tools"
        tools.mkdir()
        (tools / "scp").write_text(SCP)
        (tools / "scp").chmod(0o755)
        path = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = os.environ | {
            "PATH": path,
            "MACHINES": str(folder),
            "COLUMNS": "1000",
        }

    def type(self, command: Typed) -> str:
        """Type a command at its machine until it shows what the page shows; return its output."""
        assert command.machine is not None
        again = any(command.text.startswith(f"levywalk fleet {one} ") for one in READS)
        while True:
            left = self.until - time.monotonic()
            assert left > 0, f"the page takes longer than {LONGEST:g} s"
            nice = "5" if command.machine in NODES else "0"  # nodes leave time for commands
            shell = ["nice", "-n", nice, "bash", "-c", command.text]
            done = subprocess.run(
                self.between.command(MACHINES.index(command.machine), shell),
                cwd=self.folder / command.machine,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=left,
            )
            missing = [line for line in command.shown if not shows(done.stdout, line)]
            if done.returncode == 0 and not missing:
                return done.stdout
            assert again, f"{command}\n{missing}\n{done.stdout}\n{done.stderr}"

    # Machines

    def nodes(self, *machines: str) -> dict[int, FleetFolder]:
        """Return the nodes of machines, each in the folder of its machine."""
        return {NODES.index(name): FleetFolder.open(self.folder / name) for name in machines}

    def signal(self, number: signal.Signals, *machines: str) -> None:
        """Send a signal to the processes of the nodes of some machines."""
        for v, fleet in self.nodes(*machines).items():
            pid = running(fleet.files[v].state)
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    def running(self, machine: str) -> bool:
        """Return whether the node of a machine runs."""
        (found,) = self.nodes(machine).items()
        return running(found[1].files[found[0]].state) is not None

    def goes_on(self) -> None:
        """Wait until the walk has come to node 0 and goes on from there."""
        fleet = self.nodes("one")[0]
        before = fleet.status(PATIENCE)["step"]
        eventually(lambda: fleet.status(PATIENCE)["step"] > before)

    def burn(self, *machines: str) -> None:
        """Kill the nodes of machines, and lose their disks."""
        self.signal(signal.SIGKILL, *machines)
        for name in machines:
            shutil.rmtree(self.folder / name)
            (self.folder / name).mkdir()

    def happen(self, event: str) -> None:
        """Let something happen that is no command."""
        if event == "machine three burns down":
            self.burn("three")
        elif event == "machines two and three burn down, with the model and its guardian":
            for _ in range(300):  # until node 0 neither holds nor guards the model
                self.signal(signal.SIGSTOP, *FIRST)
                views = [fleet.node_views(0.05)[0] for fleet in self.nodes(*FIRST).values()]
                able = able_to_continue(views, winning_epoch(views))
                if able and 0 not in able:
                    self.burn("two", "three")
                    self.signal(signal.SIGCONT, "one")
                    return
                self.signal(signal.SIGCONT, *FIRST)
                time.sleep(0.02)  # the walk goes on meanwhile
            raise AssertionError("node 0 always holds or guards the model")
        else:
            raise AssertionError(f"the test does not know the event {event!r}")

    def close(self) -> None:
        """End all nodes that still run."""
        there = [name for name in NODES if (self.folder / name / "manifest.json").exists()]
        self.signal(signal.SIGKILL, *there)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    try:
        made = Namespaces(len(MACHINES))
    except NoNamespaces as error:
        pytest.skip(str(error))
    with closing(made), closing(Site(tmp_path, made)) as found:
        yield found


@pytest.mark.more
def test_every_command_of_the_page(site: Site) -> None:
    """Wherever the page says that all nodes are up, the walk goes on; at its end the office has
    the model and the trace of a walk that was restored.
    """
    for one in typed(PAGE.read_text(encoding="utf-8")):
        if one.machine is None:
            site.happen(one.text)
        else:
            site.type(one)
            if any(" up, 0 down" in line for line in one.shown):
                site.goes_on()
    assert (site.folder / "office" / "later.safetensors").stat().st_size > 100
    found = lw.load_trace(site.folder / "office" / "walk.nc")
    about = found.provenance["fleet"]
    # Two nodes were lost with the model, and the walk was revived. When one node alone was lost, it
    # may neither have held nor guarded the model.
    assert len(about["epochs"]) >= 2
    assert [one for one in NODES if site.running(one)] == []


def test_the_page_is_read_as_it_is_written() -> None:
    found = list(typed(PAGE.read_text(encoding="utf-8")))
    assert {one.machine for one in found} == {None, *MACHINES}
    assert len([one for one in found if one.text.startswith("levywalk fleet ")]) > 25
    commands = {one.text.split()[2] for one in found if one.text.startswith("levywalk fleet ")}
    assert commands >= {"init", "up", "begin", "rotate", "gone", "revive", "rejoin", "trace"}
    assert shows("a  b\nc d", "a … d")
    assert not shows("a c", "b …")
