"""A wrong rule, planted into a copy of the package, is found by `levywalk reproduce --check`.

`test_verdicts` has the other half: nothing is found in the package as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import levywalk
from tests.limits import mostly_soak

PACKAGE = Path(levywalk.__file__).parent

# The plain loop of the kernels is the one that can be changed in a line or two; it is several times
# slower, and used only where it was changed.
LOOP = "engine/kernels/loop.py"
PLANTED = {
    "acceptance without the degree ratio": [
        (
            "walks/bound_walk.py",
            "np.asarray(self.scores / self.network.degree)",
            "np.asarray(self.scores)",
        ),
    ],
    "a jump that updates on the way": [
        (
            LOOP,
            "                                    v = u\n"
            "                                hops += distance\n",
            "                                    v = u\n"
            "                                    z = 0.0\n"
            "                                    for j in range(dim):\n"
            "                                        z += features[v, j] * x[j]\n"
            "                                    for j in range(dim):\n"
            "                                        gain = 2.0 * step_size * (z - targets[v])\n"
            "                                        gain *= weights[phase, v]\n"
            "                                        x[j] -= gain * features[v, j]\n"
            "                                hops += distance\n",
        ),
    ],
}


@pytest.mark.more
@pytest.mark.parametrize("name", mostly_soak(PLANTED, lambda name: name.startswith("acceptance")))
def test_a_planted_wrong_rule_makes_the_check_fail(name, tmp_path):
    # With what is compiled: a changed file is compiled again, and so are all kernels if it is one
    # of theirs. What another process is just writing is left out.
    unfinished = shutil.ignore_patterns("*.tmp.*", "*.pyc.*")
    shutil.copytree(PACKAGE, tmp_path / "levywalk", ignore=unfinished)
    for file, right, wrong in PLANTED[name]:
        path = tmp_path / "levywalk" / file
        text = path.read_text(encoding="utf-8")
        assert text.count(right) == 1, f"{file} no longer has the line that is to be made wrong"
        path.write_text(text.replace(right, wrong), encoding="utf-8")
    command = [
        "reproduce",
        "limit",
        "--quick",
        "--check",
        "--workers",
        "0",
        "--no-figures",
        "--out",
        "out",
    ]
    plain = any(file == LOOP for file, *_ in PLANTED[name])
    done = subprocess.run(
        [sys.executable, "-m", "levywalk.cli.main", *command],
        cwd=tmp_path,
        env=os.environ
        | {"PYTHONPATH": str(tmp_path), "LEVYWALK_KERNELS": "plain" if plain else ""},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "unexpected: claim 10 [limit]" in done.stderr, done.stdout + done.stderr
