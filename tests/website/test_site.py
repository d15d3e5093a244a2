"""The site, without Sphinx: every name has a page, every page a place, every link a goal; every
command of the new pages runs.
"""

from __future__ import annotations

import ast
import inspect
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import pytest

import levywalk as lw
from tests.forked import levywalk

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    not (ROOT / "website").exists(), reason="an installed package has no website beside its tests"
)
if (ROOT / "website").exists():
    from website.__main__ import formulas_are_shown
    from website.address import PLACES, set_address
    from website.api import _directive, api_pages, page_name, public_names, related
    from website.gallery import missing_for, needs_of
    from website.links import faults_of
    from website.sources import assemble, folded, project_address, relinked

NAMES = [n for n in lw.__all__ if not isinstance(getattr(lw, n), (str, ModuleType))]


def test_every_public_name_has_a_page_that_the_list_links_to():
    pages = api_pages()
    listed = [name for names in public_names().values() for name in names]
    assert sorted(listed) == sorted(NAMES)
    for name in NAMES:
        assert f"{name}\n" in pages[f"{page_name(name)}.rst"]
        assert f"<{page_name(name)}>" in pages["index.rst"]


def test_no_two_pages_differ_in_capitals_alone():
    files = [name.lower() for name in api_pages()]
    assert len(files) == len(set(files))


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_documented_with_an_example_and_others_to_see(name):
    text = inspect.getdoc(getattr(lw, name)) or ""
    assert ">>>" in text, f"{name} has no example"
    assert len(related(name)) >= 2
    assert name not in related(name)


def test_every_page_of_docs_has_a_place_in_a_table_of_contents():
    contents = "".join(
        path.read_text(encoding="utf-8")
        for path in [ROOT / "docs" / "index.md", *(ROOT / "docs" / "sections").glob("*.md")]
    )
    entries = re.findall(r"^(?:\w[\w ]* <)?(?:\.\./)?([\w/-]+\*?)>?$", contents, flags=re.MULTILINE)
    patterns = [re.compile(entry.replace("*", ".*") + "$") for entry in entries]
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name = page.relative_to(ROOT / "docs").with_suffix("").as_posix()
        if name != "index":
            assert any(pattern.match(name) for pattern in patterns), (
                f"docs/{name}.md is in no table of contents; add it to a page of docs/sections"
            )


def test_formulas_that_mathjax_does_not_show_are_noticed(tmp_path):
    (tmp_path / "a.html").write_text("<pre>x^2</pre>", encoding="utf-8")
    assert formulas_are_shown(tmp_path)  # MathJax could not be installed, which is said elsewhere
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "tex-svg.js").touch()
    assert not formulas_are_shown(tmp_path)
    (tmp_path / "b.html").write_text('<div class="math">x^2</div>', encoding="utf-8")
    assert formulas_are_shown(tmp_path)


def test_lists_of_files_are_folded_and_nothing_else():
    listed = "  walks/   " + "how the model moves " * 8
    command = "levywalk compare ring:10      # " + "why this takes so long " * 8
    prose = "word " * 40
    text = f"{prose}\n```\n{listed}\n{command}\n```\n```python\n{listed}\n```\n"
    lines = folded(text).splitlines()
    assert all(line in lines for line in (prose, command))
    assert lines.count(listed) == 1  # the one that says its language
    folds = lines[2 : lines.index(command)]
    assert len(folds) > 1
    assert all(len(line) <= 100 and line.startswith(" " * 11) for line in folds[1:])
    assert " ".join(" ".join(folds).split()) == " ".join(listed.split())


def test_links_to_files_that_are_no_pages_become_addresses():
    address = project_address(ROOT)
    text = (
        "[a](../README.md) [b](../pyproject.toml) [c](theory.md#x) [d](https://e.org) [f](../src)"
    )
    assert relinked(text, "docs", ROOT) == (
        f"[a](index.md) [b]({address}/blob/main/pyproject.toml) [c](theory.md#x) "
        f"[d](https://e.org) [f]({address}/tree/main/src)"
    )
    assert relinked("[a](../../SECURITY.md) [b](../fleet.md)", "docs/sections", ROOT) == (
        "[a](../security.md) [b](../fleet.md)"
    )
    assert relinked("[docs/fleet.md](docs/fleet.md)", "", ROOT).startswith("[The fleet: how")
    assert relinked("[a](docs/fleet.md) [b](CHANGELOG.md)", "", ROOT) == (
        "[a](fleet.md) [b](changelog.md)"
    )


def test_links_that_are_called_by_a_file_are_called_by_its_title():
    text = "([models.md](models.md), [CHANGELOG.md](../CHANGELOG.md), [none.md](none.md))"
    assert relinked(text, "docs", ROOT) == (
        "([Models of torch and JAX](models.md), [Changelog](changelog.md), [none.md](none.md))"
    )


def test_pages_are_put_together_and_what_is_gone_is_removed(tmp_path: Path):
    assemble(ROOT, tmp_path)
    (tmp_path / "old.md").write_text("# Old")
    written = (tmp_path / "index.md").stat().st_mtime_ns
    assemble(ROOT, tmp_path)
    assert not (tmp_path / "old.md").exists()
    assert (tmp_path / "index.md").stat().st_mtime_ns == written  # unchanged pages stay
    assert (tmp_path / "api" / "mhlj.rst").exists()
    assert (tmp_path / "changelog.md").exists()


def test_faults_of_links_are_found(tmp_path: Path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">x</a><a href="#here">x</a><a href="c.html">x</a>'
        '<a href="https://e.org">x</a><img src="no.png">'
        '<script src="https://cdn.org/x.js"></script>'
    )
    (tmp_path / "b.html").write_text("<p>")
    faults, checked = faults_of(tmp_path)
    assert checked == 4
    assert faults == [
        "a.html loads https://cdn.org/x.js from another host",
        "a.html links to b.html#there, a place that the page does not have",
        "a.html links to c.html, which does not exist",
        "a.html links to no.png, which does not exist",
    ]


def test_examples_say_what_they_need(tmp_path: Path, capsys):
    (tmp_path / "show_1.py").write_text('"""A."""\n\n# needs: numpy, levywalk.no_such_name\n')
    (tmp_path / "show_2.py").write_text('"""B."""\n\n# needs: levywalk.ring\n')
    assert needs_of(tmp_path / "show_1.py") == ["numpy", "levywalk.no_such_name"]
    assert missing_for(tmp_path) == [r"show_1\.py"]
    assert "show_1.py is left out" in capsys.readouterr().out


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples" / "gallery").rglob("show_*.py")), ids=lambda path: path.stem
)
def test_an_example_of_the_gallery_has_a_title_and_says_what_it_imports(path: Path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    title, line, *_ = (ast.get_docstring(tree) or "").splitlines()
    assert set(line) == {"="}
    assert len(line) == len(title)
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else node.names[0].name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    always = {"levywalk", "matplotlib", "numpy", "scipy", *sys.stdlib_module_names}
    assert imported - always <= {need.split(".")[0] for need in needs_of(path)}


@pytest.mark.more
def test_the_commands_of_the_first_ten_minutes_run(tmp_path: Path):
    page = (ROOT / "docs" / "ten-minutes.md").read_text(encoding="utf-8")
    commands = re.findall(r"<!-- runs -->\n```console\n(.*?)\n```", page, flags=re.DOTALL)
    assert len(commands) == 2
    for command in commands:
        program, *words = command.split()
        assert program == "levywalk"
        done = levywalk(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert {"report.html", "figure.png", "table.csv", "experiment.toml"} <= {
        path.name for path in (tmp_path / "first").iterdir()
    }


def test_one_line_sets_the_address_everywhere(tmp_path: Path):
    for place in PLACES:
        (tmp_path / place).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / place, tmp_path / place)
    old = project_address(tmp_path)
    assert set_address(tmp_path, "https://example.org/ours/") == list(PLACES)
    assert project_address(tmp_path) == "https://example.org/ours"
    for place in PLACES:
        assert old not in (tmp_path / place).read_text(encoding="utf-8")
    with pytest.raises(SystemExit, match="must be like https"):
        set_address(tmp_path, "ours")


def test_the_address_is_said_nowhere_else():
    address = project_address(ROOT)
    places = [*ROOT.glob("*.*"), *(ROOT / "docs").rglob("*.md"), *(ROOT / ".github").rglob("*.yml")]
    said = [
        path.relative_to(ROOT).as_posix()
        for path in places
        if path.is_file() and address in path.read_bytes().decode(errors="ignore")
    ]
    assert sorted(said) == sorted(PLACES)


def test_the_version_is_said_alike():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {lw.__version__}\n" in citation


def test_the_page_of_an_estimator_leaves_out_what_scikit_learn_describes():
    pytest.importorskip("sklearn", reason="the extra sklearn is not installed")
    from levywalk.sklearn import WalkClassifier

    (excluded,) = (line for line in _directive(WalkClassifier, "X") if "exclude-members" in line)
    names = excluded.partition("members: ")[2].split(", ")
    assert {"set_fit_request", "get_metadata_routing", "score"} <= set(names)
    assert not {"fit", "predict", "predict_proba"} & set(names)
    assert not any("exclude-members" in line for line in _directive(lw.Trace, "Trace"))
