"""The documentation site: Sphinx, the PyData theme, Markdown by MyST.

`make docs` lays the sources out in `build/site/source` (see build.py) and runs Sphinx on them with
this file; warnings are errors, and nothing is fetched, neither now nor when a page is looked at.
"""

import os
import sys
from importlib.metadata import version as installed
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


def setup(app):
    """Leave out the methods that scikit-learn adds for metadata routing."""
    app.connect(
        "autodoc-skip-member",
        lambda _app, _what, name, _value, skip, _options: skip or name.endswith("_request"),
    )


project = "polyad"
author = "the polyad developers"
copyright = f"2025-2026, {author}"  # noqa: A001 - the name that Sphinx wants
version = release = installed("polyad")

extensions = [
    "mathml",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["results/records", "results/maps"]

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist", "attrs_inline"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types stand in the docstrings, in words
napoleon_google_docstring = False
napoleon_use_ivar = True
default_role = "code"  # `name` in a docstring
html_math_renderer = "mathml"

# What a reader pastes has no prompts; nor has what the docstrings show once it is copied
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parents[1] / "examples/gallery"),
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "copyfile_regex": r"never",
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 0,
    "write_computation_times": False,  # a page of times, with scripts from elsewhere
    "show_signature": False,
    "remove_config_comments": True,
    "plot_gallery": os.environ.get("POLYAD_GALLERY", "run") == "run",
    "abort_on_example_error": True,
    "within_subsection_order": "ExampleTitleSortKey",
    "image_scrapers": ("matplotlib",),
    "thumbnail_size": (400, 280),
}

html_theme = "pydata_sphinx_theme"
html_title = "polyad"
html_logo = html_favicon = str(HERE.parents[1] / "src/polyad/app/static/icon.svg")
html_static_path = [str(HERE / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {"text": "polyad"},
    "navbar_align": "left",
    "header_links_before_dropdown": 7,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
