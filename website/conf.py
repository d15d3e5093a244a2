"""What Sphinx is told. ``python -m website`` prepares the pages and then runs Sphinx with it."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # Sphinx runs this file by itself, without the folder above it

from levywalk.version import __version__  # noqa: E402
from website.gallery import missing_for  # noqa: E402
from website.sources import project_address  # noqa: E402

project = "levywalk"
author = "The levywalk developers"
copyright = author
version = release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx_gallery.gen_gallery",
    "website.docstrings",
    "website.plain_math",
]
exclude_patterns = ["**/.ipynb_checkpoints"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
default_role = "code"
root_doc = "index"
highlight_language = "none"  # a block that names no language is what a terminal shows

# Markdown
myst_enable_extensions = ["colon_fence", "dollarmath", "attrs_block", "deflist"]
myst_heading_anchors = 4
myst_linkify_fuzzy_links = False

# API pages
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
maximum_signature_line_length = 76
add_module_names = False
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
numpydoc_validation_checks: set[str] = set()
toc_object_entries = False

# The gallery: every example runs when the site is built
sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples" / "gallery")],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/show_",
    "ignore_pattern": "|".join([r"__init__\.py", *missing_for(ROOT / "examples" / "gallery")]),
    "within_subsection_order": "FileNameSortKey",
    "subsection_order": "website.gallery.part_order",
    "backreferences_dir": "api/used",
    "doc_module": ("levywalk",),
    "inspect_global_variables": False,
    "download_all_examples": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10**6,  # times of one machine say little to a reader
    "write_computation_times": False,
    "image_scrapers": ("matplotlib",),
    "image_srcset": ["2x"],
    "thumbnail_size": (440, 300),
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "plot_gallery": os.environ.get("GALLERY", "run") != "skip",
    "capture_repr": ("_repr_html_", "__repr__"),
    "ignore_repr_types": r"matplotlib\.|'tuple'|'list'",  # what a last line of drawing returns
    "first_notebook_cell": None,
    "nested_sections": False,
}
warnings.filterwarnings("ignore", message=".*is non-interactive, and thus cannot be shown")

# The page
html_theme = "pydata_sphinx_theme"
html_title = "levywalk"
html_static_path = [str(ROOT / "website" / "static")]
html_css_files = ["site.css"]
html_favicon = str(ROOT / "website" / "static" / "logo.svg")
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_last_updated_fmt = None
html_extra_path = [str(path) for path in [ROOT / "build" / "site" / "extra"] if path.exists()]
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_sidebars = {"index": [], "changelog": []}
html_theme_options = {
    "logo": {
        "text": "levywalk",
        "image_light": str(ROOT / "website" / "static" / "logo.svg"),
        "image_dark": str(ROOT / "website" / "static" / "logo.svg"),
        "alt_text": "levywalk: to the first page",
    },
    "icon_links": [
        {"name": "Source code", "url": project_address(ROOT), "icon": "fa-solid fa-code-branch"}
    ],
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "show_prev_next": True,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "search_bar_text": "Search the documentation",
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "back_to_top_button": True,
}

# Formulas: MathJax from a file beside the pages, or as they were typed where it is not installed
MATHJAX = ROOT / "build" / "mathjax" / "node_modules" / "mathjax" / "es5" / "tex-svg.js"
if MATHJAX.exists():
    extensions.append("sphinx.ext.mathjax")
    html_math_renderer = "mathjax"  # Sphinx would prefer the other one
    html_static_path.append(str(MATHJAX))
    mathjax_path = "tex-svg.js"
    mathjax3_config = {"options": {"enableMenu": False}}
else:
    html_math_renderer = "plain"
