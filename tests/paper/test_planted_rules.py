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

# The plain loop of the kernels is the one that can be changed in a line or two.
PLANTED = {
    "acceptance without the degree ratio": [
        (
            "walks/bound.py",
            "np.asarray(self.scores / self.network.degree)",
            "np.asarray(self.scores)",
        ),
    ],
    "a jump that updates on the way": [
        (
            "engine/kernels/loop.py",
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
    shutil.copytree(PACKAGE, tmp_path / "levywalk", ignore=shutil.ignore_patterns("__pycache__"))
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
    done = subprocess.run(
        [sys.executable, "-m", "levywalk.cli.main", *command],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "LEVYWALK_KERNELS": "plain"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "unexpected: claim 10 [limit]" in done.stderr, done.stdout + done.stderr
