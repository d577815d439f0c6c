"""How the documentation is built: ``make docs``, then open out/docs/index.html."""

import warnings

from docutils import nodes

import lumberjack

warnings.filterwarnings("ignore", "Unknown section Formal Guarantees")  # see _formal_guarantees

project = "Lumberjack"
author = "The Lumberjack developers"
copyright = author  # noqa: A001
release = version = lumberjack.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "matplotlib.sphinxext.plot_directive",
]
nitpicky = True  # a link that leads nowhere is an error
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]

numpydoc_show_class_members = False
autodoc_typehints = "none"
autosummary_generate = False

plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("svg", 96)]
plot_rcparams = {"figure.figsize": (6.4, 4.2), "svg.fonttype": "none"}

html_theme = "pydata_sphinx_theme"
html_title = "Lumberjack"
html_theme_options = {
    "show_toc_level": 2,
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["lumberjack.css"]


def _formal_guarantees(app, what, name, obj, options, lines):
    """numpydoc knows no section of that name: show it as a note, instead of dropping it."""
    for i, line in enumerate(lines[:-1]):
        if line.strip() == "Formal guarantees" and lines[i + 1].startswith("---"):
            lines[i : i + 2] = ["Notes", "-----", "**Formal guarantees.**", ""]
            break


def _trim(app, doctree):
    """A doctest ends with an empty line, which a reader need not see."""
    for block in list(doctree.findall(nodes.literal_block)):
        text = block.astext().rstrip()
        block.rawsource, block.children = text, [nodes.Text(text)]


def setup(app):
    """Connect the two; the first must run before numpydoc does."""
    app.connect("autodoc-process-docstring", _formal_guarantees, priority=100)
    app.connect("doctree-read", _trim)
