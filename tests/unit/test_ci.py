"""`.ci/tools` on machines that may install programs and on those that may not; every command is a
stand-in.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.limits import PATIENCE

SCRIPT = Path(__file__).parents[2] / ".ci" / "tools"
NEEDED = ("bash", "env", "timeout")

pytestmark = pytest.mark.skipif(
    not SCRIPT.exists(), reason="an installed package has no .ci beside its tests"
)


def machine(folder: Path, **commands: str) -> subprocess.CompletedProcess[str]:
    """Run the script where nothing but these commands is installed."""
    for name in NEEDED:
        (folder / name).symlink_to(str(shutil.which(name)))
    for name, body in commands.items():
        path = folder / name.replace("_", "-")
        path.write_text(f"#!{shutil.which('bash')}\n{body}\n")
        path.chmod(0o755)
    bash = str(shutil.which("bash"))
    return subprocess.run(
        [bash, str(SCRIPT)],
        env={"PATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_programs_that_are_there_are_left_alone(tmp_path: Path) -> None:
    asked = f'echo "$@" >> {tmp_path}/asked'
    done = machine(tmp_path, chromium="", promtool="", id="echo 0", apt_get=asked)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (tmp_path / "asked").exists()


@pytest.mark.parametrize(
    ("program", "other", "package", "said"),
    [
        ("chromium", "promtool", "chromium", "installing Chromium for tests/browser\n"),
        (
            "promtool",
            "chromium",
            "prometheus",
            "installing promtool for tests/fleet/test_monitoring.py\n",
        ),
    ],
)
def test_root_with_apt_installs_it(
    tmp_path: Path, program: str, other: str, package: str, said: str
) -> None:
    made = (
        f"printf '#!/bin/sh\\n' > {tmp_path}/{program}; "
        f"{shutil.which('chmod')} +x {tmp_path}/{program}"
    )
    done = machine(
        tmp_path,
        id="echo 0",
        apt_get=f'echo "$@" >> {tmp_path}/asked\n[[ "$*" != *install* ]] || {{ {made}; }}',
        **{other: ""},
    )
    assert done.returncode == 0
    assert done.stdout == said
    update, install = (tmp_path / "asked").read_text().splitlines()
    assert update.endswith("update")
    assert install.endswith(f"install -y --no-install-recommends {package}")


@pytest.mark.parametrize(
    ("commands", "why"),
    [
        ({"id": "echo 1000", "apt_get": ""}, "only root can install it"),
        ({"id": "echo 0"}, "this machine has no apt-get"),
        (
            {"id": "echo 0", "apt_get": "echo working; echo E: no network >&2; exit 100"},
            "apt-get failed: E: no network",
        ),
        ({"id": "echo 0", "apt_get": ""}, "apt-get installed a package without the program"),
    ],
)
def test_without_it_the_reason_is_said_and_nothing_fails(
    tmp_path: Path, commands: dict[str, str], why: str
) -> None:
    done = machine(tmp_path, **commands)
    assert done.returncode == 0
    assert f"no Chromium: {why}; tests/browser will skip" in done.stdout
    assert f"no promtool: {why}; tests/fleet/test_monitoring.py will skip" in done.stdout
