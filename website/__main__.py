"""Build the site: ``python -m website``; it is then in build/site/html and needs no server."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

from website.links import faults_of
from website.sources import assemble

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "build" / "site"


def main() -> int:
    """Put the pages together, run Sphinx, and check every link inside the result."""
    parser = argparse.ArgumentParser(prog="python -m website", description=__doc__)
    parser.add_argument("--fresh", action="store_true", help="forget what was built before")
    arguments = parser.parse_args()
    if arguments.fresh:
        shutil.rmtree(SITE, ignore_errors=True)
    began = time.monotonic()
    explain_page(SITE / "extra" / "explain.html")
    assemble(ROOT, SITE / "source", explain=(SITE / "extra" / "explain.html").exists())
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    command += ["-c", str(ROOT / "website"), "-d", str(SITE / "doctrees")]
    done = subprocess.run([*command, str(SITE / "source"), str(SITE / "html")], check=False)
    if done.returncode:
        return done.returncode
    faults, checked = faults_of(SITE / "html")
    if not formulas_are_shown(SITE / "html"):
        faults.append("MathJax is there, but the formulas of the pages are as they were typed")
    for fault in faults:
        print(fault)
    pages = len(list((SITE / "html").rglob("*.html")))
    size = sum(path.stat().st_size for path in (SITE / "html").rglob("*") if path.is_file())
    print(
        f"{pages} pages, {size / 1e6:.1f} MB, {checked} links inside the site, {len(faults)} "
        f"faults, {time.monotonic() - began:.0f} s; open {SITE / 'html' / 'index.html'}"
    )
    return bool(faults)


def formulas_are_shown(html: Path) -> bool:
    """Say whether some page has formulas that MathJax shows, if MathJax is beside the pages."""
    if not (html / "_static" / "tex-svg.js").exists():
        return True
    return any('class="math' in page.read_text(encoding="utf-8") for page in html.rglob("*.html"))


def explain_page(path: Path) -> None:
    """Write the page on which one plays with a walk, if this version of levywalk makes one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "levywalk", "explain", "--out", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        path.unlink(missing_ok=True)
        print("the site has no page to play with, because `levywalk explain` does not exist here")


if __name__ == "__main__":
    sys.exit(main())
