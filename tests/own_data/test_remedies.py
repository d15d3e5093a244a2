"""Wrong commands: what the error tells to type can be typed as it stands, and then works.

Every message on the way is read: it names no Python call, and every option in it exists.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer.main
from typer.testing import CliRunner

import levywalk as lw
from levywalk.cli import compare, main
from levywalk.cli.main import app
from levywalk.experiments import execute
from tests.limits import mostly_more

FILES = {
    "net.edges": "0 1\n1 2\n2 3\n3 0\n",
    "two.edges": "0 1\n1 2\n2 0\n7 8\n",
    "directed.edges": "# Directed graph\n0 1\n1 2\n2 0\n",
    "net.dat": "0 1\n1 2\n2 0\n",
    "data.csv": "a,y\n1,2\n3,4\n5,7\n2,2\n",
    "missing.csv": "a,y\n1,2\n3,4\n5,7\n,9\n2,2\n",
    "words.csv": "a,colour,y\n1,red,2\n3,blue,4\n5,red,7\n2,red,2\n",
    "labels.csv": "a,y\n1,1\n2,2\n3,1\n4,2\n",
    "classes.csv": "a,y\n1,1\n2,2\n3,3\n4,2\n",
    "apart.csv": "a,y\n-1,0\n-2,0\n3,1\n4,1\n",
    "both.csv": "0,1\n3,4\n5,6\n7,8\n",
    "less.csv": "n,a,y\n0,1,2\n1,3,4\n1,5,6\n1,6,6\n",
    "data.txt": "a,y\n1,2\n3,4\n5,7\n2,2\n",
    "zero.svm": "1 0:1\n2 0:4\n3 0:2\n4 0:3\n",
    "wide.svm": f"1 1:1 {10**11}:3\n2 1:4\n3 1:2\n4 1:2\n",
    "mine.toml": (
        '[network]\nfamily = "ring"\nn = 8\n[problem]\ndata = "homogeneous"\ndim = 2\n'
        '[run]\nsteps = 20\nreplicas = 2\nstep_size = 0.001\n[designs.a]\nkind = "mhlj"\n'
        '[output]\ntraces = false\ntable = false\nfigure = "none"\n'
    ),
    "quiet.toml": "",
}
SHORT = "--steps 20 --replicas 2 --step-size 0.001 --designs mhlj"


class Wrong(NamedTuple):
    """A wrong command, what its error tells to type, and how that is typed: options that are added
    (``+``), or one text for another.
    """

    command: str
    told: str
    typed: tuple[str, str] | str


CASES = {
    "two components": Wrong(
        f"compare two.edges {SHORT}", "add --largest-component", "+--largest-component"
    ),
    "directed": Wrong(
        f"compare directed.edges --directed error {SHORT}",
        "--directed symmetrise",
        ("--directed error", "--directed symmetrise"),
    ),
    "a wrong word": Wrong(
        f"compare net.edges --directed maybe {SHORT}", "'symmetrise'", ("maybe", "symmetrise")
    ),
    "format of the network": Wrong(
        "inspect net.dat --data homogeneous --smoothness smooth.txt",
        "--network-format, one of 'edges'",
        "+--network-format edges",
    ),
    "missing values": Wrong(
        f"compare net.edges --data missing.csv {SHORT}", "--missing drop", "+--missing drop"
    ),
    "a column of words": Wrong(
        f"compare net.edges --data words.csv {SHORT}", "with --features", "+--features a"
    ),
    "two labels": Wrong(
        f"compare net.edges --data labels.csv --loss logistic --ridge 0.1 {SHORT}",
        "--labels 1,2",
        "+--labels 1,2",
    ),
    "three labels": Wrong(
        f"compare net.edges --data classes.csv --loss logistic --ridge 0.1 --labels 1,2 {SHORT}",
        "--labels 2",
        ("--labels 1,2", "--labels 2"),
    ),
    "labels that a line separates": Wrong(
        f"compare net.edges --data apart.csv --loss logistic {SHORT}",
        "--ridge 0.001",
        "+--ridge 0.001",
    ),
    "a line that may be both": Wrong(
        f"compare net.edges --data both.csv --ridge 0.1 --partition iid {SHORT}",
        "--header or --no-header",
        "+--no-header",
    ),
    "nodes without data": Wrong(
        f"compare net.edges --data less.csv --node n {SHORT}", "leave --node out", (" --node n", "")
    ),
    "CSV in a .txt file": Wrong(
        f"compare net.edges --data data.txt {SHORT}", "--data-format csv", "+--data-format csv"
    ),
    "indices from 0": Wrong(
        f"compare net.edges --data zero.svm {SHORT}", "--index-base 0", "+--index-base 0"
    ),
    "too many features": Wrong(
        f"compare net.edges --data wide.svm {SHORT}", "with --features", "+--features 1-1"
    ),
    "an option of data files": Wrong(
        f"compare ring:8 --ridge 0.1 --data homogeneous {SHORT}",
        "leave them out",
        (" --ridge 0.1", ""),
    ),
    "a family": Wrong(f"compare rign:30 {SHORT}", "did you mean 'ring:n'", ("rign", "ring")),
    "a design": Wrong(
        f"compare ring:30 {SHORT}x", "did you mean 'mhlj'", ("mhljx", "mhlj")
    ),
    "a parameter": Wrong(
        f"compare ring:30 {SHORT}:p_jum=0.2", "did you mean 'p_jump'", ("p_jum=", "p_jump=")
    ),
    "a parameter without a value": Wrong(
        f"compare ring:30 {SHORT}:p_jump", "p_jump=…", (":p_jump", ":p_jump=0.2")
    ),
    "a mixture": Wrong(
        "compare ring:30 --steps 20 --replicas 2 --step-size 0.001 --designs mixed_rw",
        "mixed_rw:mix=0.3",
        ("mixed_rw", "mixed_rw:mix=0.3"),
    ),
    "an update": Wrong(
        f"compare ring:30 {SHORT}+sgdx", "did you mean 'sgd'", ("sgdx", "sgd")
    ),
    "a step size": Wrong(
        "compare ring:30 --steps 20 --replicas 2 --step-size big --designs mhlj",
        "theory or a number above 0",
        ("big", "theory"),
    ),
    "a key of a file": Wrong(
        "run mine.toml --set steps=10", "did you mean 'run.steps'", ("steps=10", "run.steps=10")
    ),
    "a key with a typing error": Wrong(
        "run mine.toml --set run.stepz=10", "did you mean 'steps'", ("stepz", "steps")
    ),
    "too few nodes": Wrong(
        "inspect ring:9", "take a network of more nodes", ("ring:9", "ring:30")
    ),
    "a sweep without a table": Wrong(
        "sweep mine.toml", "levywalk sweep --example", ("mine.toml", "--example")
    ),
    "a file as a folder": Wrong(
        "sweep sweep.toml --dry-run --out mine.toml", "--out must be a folder",
        ("--out mine.toml", "--out other"),
    ),
    "no experiment": Wrong("run", "levywalk run --example", "+--example"),
    "no network": Wrong(
        f"compare {SHORT}", "levywalk compare ring:1000", ("compare", "compare ring:1000")
    ),
    "a policy": Wrong(
        "fleet simulate ring:5 --steps 10 --policy never", "'wait', 'eager'", ("never", "wait")
    ),
    "a step size in a fleet": Wrong(
        "fleet simulate ring:5 --steps 10 --step-size tuned",
        "theory or a number",
        ("tuned", "theory"),
    ),
    "a fault": Wrong(
        "fleet simulate ring:5 --steps 10 --kill 2", "such as 5@1.5", ("--kill 2", "--kill 2@1.5")
    ),
    "two components of a fleet": Wrong(
        "fleet simulate two.edges --steps 10", "--largest-component", "+--largest-component"
    ),
    "a claim": Wrong("reproduce homoo --workers 0", "one of homo, hete", ("homoo", "--help")),
    "a folder without a result": Wrong(
        "report empty", "levywalk compare NETWORK --out DIR",
        ("report empty", f"compare ring:30 {SHORT} --out empty"),
    ),
}  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "sweep.toml").write_text(FILES["mine.toml"] + '[sweep]\n"run.seed" = [0, 1]\n')
    (tmp_path / "smooth.txt").write_text("1\n1\n30\n")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    # Figures and pages take a second each, and no remedy is about them.
    monkeypatch.setattr(execute, "write_results", lambda *_, **__: [])
    for module in (main, compare):
        monkeypatch.setattr(module, "write_on_one_core", lambda *_: [])
    return tmp_path


def type_in(command: str) -> tuple[int, str]:
    """Return the exit code, and what was said on stderr or would be said there."""
    done = CliRunner().invoke(app, command.split())
    if isinstance(done.exception, lw.LevywalkError):
        return 2, f"{done.stderr}{done.exception}"
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stderr


def options_of(command: str) -> set[str]:
    group: Any = typer.main.get_command(app)
    found = {"--load", "--max-file-size"}
    for word in command.split():
        if not hasattr(group, "commands"):
            break
        group = group.commands[word]
    for entry in group.params:
        found |= {*entry.opts, *entry.secondary_opts}
    return found | {"--help"}


# Each of these walks in a loop that no other quick test compiles.
OWN_LOOPS = (
    "two labels",
    "three labels",
    "labels that a line separates",
    "a line that may be both",
)
# Every second of the others.
QUICK = [name for name in CASES if name not in OWN_LOOPS][1::2]


@pytest.mark.filterwarnings("ignore::levywalk.DataWarning")
@pytest.mark.parametrize("name", mostly_more(CASES, lambda name: name in QUICK))
def test_what_an_error_tells_to_type_works(here: Path, name: str) -> None:
    wrong = CASES[name]
    code, said = type_in(wrong.command)
    assert code == 2, said
    assert wrong.told in said
    assert not re.search(r"\blw\.|\w\(\)|=True\b|=False\b|=None\b|\w='|<\w+\.", said), said
    elsewhere = " ".join(re.findall(r"`[^`]*`", said))  # other commands have options of their own
    for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", said):
        assert option in options_of(wrong.command) or option in elsewhere, option
    if isinstance(wrong.typed, str):
        mended = f"{wrong.command} {wrong.typed.removeprefix('+')}"
    else:
        mended = wrong.command.replace(*wrong.typed, 1)
    assert mended != wrong.command
    code, said = type_in(mended)
    assert code == 0, said


def test_what_a_warning_tells_to_type_reaches_the_accuracy(here: Path) -> None:
    command = "compare ring:12 --data homogeneous --steps 200 --replicas 4 --designs unif_rw"
    with pytest.warns(lw.DataWarning, match="no step size reached 0.01 %") as caught:
        assert type_in(f"{command} --accuracy 0.0001")[0] == 0
    (told,) = [str(one.message) for one in caught if "no step size" in str(one.message)]
    named = re.search(r"give --steps 800 or (--accuracy [0-9.]+) \(.*--set run.steps=800\)", told)
    assert named is not None, told
    with warnings.catch_warnings():
        warnings.simplefilter("error", lw.DataWarning)
        code, said = type_in(f"{command} {named[1]}")
    assert code == 0, said
