"""Every link inside the built site leads somewhere, and no page asks another host for anything."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, what it loads, and which places in it can be linked to.

    Examples
    --------
    >>> page = Page('<p id="a"><a href="#a">up</a><img src="b.png">')
    >>> page.links, page.loads, page.places
    (['#a'], ['b.png'], {'a'})
    """

    LOADS = ("script", "link", "img", "iframe", "source", "video", "object")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names."""
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.places.add(value)
            elif tag in self.LOADS and name in ("src", "href", "data"):
                self.loads.append(value)
            elif name == "href":
                self.links.append(value)


def faults_of(folder: Path) -> tuple[list[str], int]:
    """Return what is wrong with the links of a site, in words, and how many links were checked."""
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8"))
        for path in folder.rglob("*.html")
        if "_static" not in path.parts  # templates of the theme
    }
    faults, checked = [], 0
    for path, page in pages.items():
        here = path.relative_to(folder.resolve())
        faults += [
            f"{here} loads {target} from another host"
            for target in page.loads
            if urlsplit(target).scheme in ("http", "https") or target.startswith("//")
        ]
        for target in dict.fromkeys([*page.links, *page.loads]):
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            checked += 1
            goal = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if goal.is_dir():
                goal /= "index.html"
            if not goal.exists():
                faults.append(f"{here} links to {target}, which does not exist")
            elif parts.fragment and goal in pages:
                if unquote(parts.fragment) in pages[goal].places:
                    continue
                faults.append(f"{here} links to {target}, a place that the page does not have")
    return faults, checked
