"""Configuration of Sphinx; `make docs` builds the site."""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from faces import FOLDERS, ROOT, entries
from jupyter_client.manager import KernelManager
from pages import write_site
from sphinx.domains.python import PythonDomain
from sphinx.ext.napoleon.docstring import NumpyDocstring

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.config import Config
    from sphinx.domains.python import ObjectEntry
    from sphinx.environment import BuildEnvironment

project = "goodalloc"
author = "the authors of goodalloc"
version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
release = version

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb"}
# Tables that other pages include.
exclude_patterns = ["start/tables/*", "results/list.md"]

# Single backticks in docstrings are names of goodalloc or code; what is no name is shown as code.
default_role = "py:obj"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 80
add_module_names = False
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
# Notebooks run in folders of their own; a cell that fails, or takes too long, fails the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_timeout = 120
nb_merge_streams = True
# Kernels complain about plain text otherwise.
KernelManager.transport_encryption.default_value = "auto"

# MathJax comes with the site, so that equations are shown without a network.
MATHJAX = importlib.metadata.distribution("sphinx-mathjax-offline")
html_static_path = [str(MATHJAX.locate_file("sphinx-mathjax-offline/static"))]
mathjax_path = "mathjax/tex-chtml.js"

html_theme = "pydata_sphinx_theme"
html_title = "goodalloc"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_nav_level": 1,
    "header_links_before_dropdown": 8,
}
copybutton_exclude = ".linenos, .gp, .go"


def sources_digest() -> str:
    """What the code is: when it changes, all pages and notebooks are made anew."""
    digest = hashlib.sha256()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def write_pages(app: Sphinx, config: Config) -> None:
    """Put the pages of the repository, and those written from its code, where Sphinx reads."""
    write_site(Path(app.srcdir))


class CarefulPythonDomain(PythonDomain):  # type: ignore[misc]  # read without its types
    """Python's names; a name that could be several is no link."""

    def find_obj(self, *arguments: Any, **options: Any) -> list[tuple[str, ObjectEntry]]:
        """The objects of a name, none where there are several of their own."""
        found = super().find_obj(*arguments, **options)
        return [] if sum(not entry.aliased for _, entry in found) > 1 else found


def find_by_bare_name(
    app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.Element
) -> nodes.Element | None:
    """Lead a name to the room where it is documented, see `entries`."""
    if node.get("refdomain") != "py":
        return None
    target = str(node.get("reftarget", ""))
    head, dot, member = target.rpartition(".")
    for name, rest in ((target, ""), (head, f"{dot}{member}")):
        if name in entries():
            full, domain = entries()[name] + rest, env.domains["py"]
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", full, node, content)
    return None


def skip_fields_of_tuples(
    app: Sphinx, what: str, name: str, value: object, skip: bool, options: object
) -> bool | None:
    """Leave out the fields of named tuples that say only which field they are."""
    return True if (getattr(value, "__doc__", "") or "").startswith("Alias for field") else None


#: Docstrings of attributes as they are written.
written: dict[str, list[str]] = {}


def keep_as_written(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Note a docstring before napoleon takes what is left of a colon for a type."""
    if what in ("attribute", "data", "property"):
        written[name] = list(lines)


def undo_types(
    app: Sphinx, what: str, name: str, value: object, options: object, lines: list[str]
) -> None:
    """Read the docstring of an attribute as any other."""
    if name in written:
        lines[:] = NumpyDocstring(written.pop(name), app.config, app).lines()


def setup(app: Sphinx) -> None:
    """Register what is done besides."""
    app.add_config_value("goodalloc_sources", sources_digest(), "env")
    app.add_domain(CarefulPythonDomain, override=True)
    app.connect("config-inited", write_pages)
    app.connect("autodoc-skip-member", skip_fields_of_tuples)
    app.connect("autodoc-process-docstring", keep_as_written, priority=400)
    app.connect("autodoc-process-docstring", undo_types, priority=600)
    app.connect("missing-reference", find_by_bare_name)
