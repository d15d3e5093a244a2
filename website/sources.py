"""The pages that Sphinx reads: docs/ as it is, the texts beside it, and one page for each name.

They are put together in ``build/site/source``, so that nothing is written into docs/, and a file
is only written if its content changed, so that Sphinx reads again what is new.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from website.api import api_pages

BESIDE = {  # texts of the repository's first folder that are pages as well
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "RELEASE.md": "release.md",
}
BY_FILE = re.compile(r"\[([\w-]+\.md)\]\(([^()\s#]+)\)")  # a link whose text is a file's name
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")


def project_address(root: Path) -> str:
    """Return the project's address, which pyproject.toml says."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Source"])


def relinked(text: str, folder: str, root: Path) -> str:
    """Return a Markdown page whose links fit the site.

    A link to a page stays one, and is called by the page's title if it was called by its file; a
    link to a file of the repository that is no page becomes its address.

    Parameters
    ----------
    text
        The page.
    folder
        The folder in which it is in the repository: ``"docs"`` or ``""``.
    root
        The repository.
    """
    address = project_address(root)

    def fit(found: re.Match[str]) -> str:
        before, target, after = found.groups()
        if re.match(r"[a-z]+:", target):
            return found[0]
        path = (root / folder / target).resolve()
        if not path.is_relative_to(root):
            return found[0]
        inside = path.relative_to(root).as_posix()
        if inside in BESIDE:
            return f"{before}{BESIDE[inside]}{after}"
        if inside == "README.md":
            return f"{before}index.md{after}"
        if inside.startswith("docs/"):
            if folder.startswith("docs"):
                return found[0]
            return f"{before}{inside.removeprefix('docs/')}{after}"
        if not path.exists():
            return found[0]
        kind = "tree" if path.is_dir() else "blob"
        return f"{before}{address}/{kind}/main/{inside}{after}"

    def called(found: re.Match[str]) -> str:
        label, target = found.groups()
        path = (root / folder / target).resolve()
        if path.name != label or not path.is_file():
            return found[0]
        lines = path.read_text(encoding="utf-8").splitlines()
        title = next((line[2:] for line in lines if line.startswith("# ")), label)
        return f"[{title}]({target})"

    return LINK.sub(fit, BY_FILE.sub(called, text))


def without_empty_patterns(text: str, folder: Path) -> str:
    """Return a page whose tables of contents have no pattern like ``../live*`` without a page."""
    lines = text.splitlines(keepends=True)
    return "".join(
        line
        for line in lines
        if not re.fullmatch(r"[\w./-]+\*\n", line)
        or any(folder.glob(line.strip() + ".md"))
        or line.strip().removeprefix("../").removesuffix("*") + ".md" in BESIDE.values()
    )


EXPLAIN = """```{raw} html
<iframe class="explain" src="explain.html" title="A walk to play with: ring, grid and small world"></iframe>
```
"""  # noqa: E501 - HTML


def assemble(root: Path, target: Path, *, explain: bool = False) -> None:
    """Write all pages into the folder ``target`` and remove there what is no page any more.

    With ``explain`` the page ``explain.html`` is shown where a page has ``<!-- explain -->``.
    """
    pages: dict[Path, bytes] = {}
    for source in sorted((root / "docs").rglob("*")):
        if source.is_file():
            content = source.read_bytes()
            inside = source.relative_to(root / "docs")
            if source.suffix == ".md":
                folder = source.parent.relative_to(root).as_posix()
                text = without_empty_patterns(content.decode(), source.parent)
                if explain:
                    text = text.replace("<!-- explain -->\n", f"{EXPLAIN}\n")
                content = relinked(text, folder, root).encode()
            pages[inside] = content
    for name, page in BESIDE.items():
        if (root / name).exists():
            text = (root / name).read_text(encoding="utf-8")
            pages[Path(page)] = relinked(text, "", root).encode()
    for name, text in api_pages().items():
        pages[Path("api") / name] = text.encode()

    for inside, content in pages.items():
        path = target / inside
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    made_by_gallery = {"gallery", "used"}
    for path in sorted(target.rglob("*")):
        inside = path.relative_to(target)
        if path.is_file() and inside not in pages and not made_by_gallery & set(inside.parts):
            path.unlink()
