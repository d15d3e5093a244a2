"""Figures as images inside the page."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass

from levywalk.errors import InvalidTrace
from levywalk.report.page.markup import Markup, section, tag

_COLOURS = 64  # of an image in the page: it needs a quarter of the bytes and looks the same


@dataclass(frozen=True)
class FigureImage:
    """A figure as the bytes of a PNG file, with its title."""

    title: str
    content: bytes


def images_section(pictures: Sequence[FigureImage]) -> Markup:
    """Return a section with figures inside the page itself.

    Examples
    --------
    >>> images_section([])
    '<section id="figures" aria-labelledby="figures-title"><h2
    id="figures-title">Figures</h2></section>'
    """
    shown = []
    for picture in pictures:
        source = f"data:image/png;base64,{base64.b64encode(_smaller(picture.content)).decode()}"
        image = tag("img", src=source, alt=picture.title, loading="lazy").removesuffix("</img>")
        shown.append(tag("figure", Markup(image), tag("figcaption", picture.title)))
    return section("figures", "Figures", *shown)


def _smaller(content: bytes) -> bytes:
    """Return a PNG with fewer colours; refuse bytes that are not a PNG."""
    from PIL import Image

    file = io.BytesIO()
    try:
        picture = Image.open(io.BytesIO(content), formats=["PNG"]).convert("RGB")
    except (OSError, ValueError, SyntaxError) as error:  # what Pillow raises for a damaged file
        raise InvalidTrace(f"a figure is not a PNG: {error}; the file is damaged") from None
    picture.quantize(_COLOURS, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()
