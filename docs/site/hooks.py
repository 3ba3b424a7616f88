"""MkDocs's hooks: what stands outside of docs/ is a page or a file of the site, too, and links to it lead there.

A page keeps the links that are right where the repository is read; here they are turned into the site's own.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
#: Pages that a reader of the repository expects at its top.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
    "CHANGELOG.md": "changelog.md",
}
#: Whatever else is linked to is served as it is, below this folder.
FILES = "files"
_LINK = re.compile(r"(?<=\]\()(?!https?://|mailto:|#)([^)#\s]+)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the top level, and every file that a page links to outside of docs/."""
    for source, name in PAGES.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    for name in sorted(_linked(files)):
        files.append(File.generated(config, f"{FILES}/{name}", abs_src_path=str(ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn the links of a page into the site's."""
    del config, files
    here = posixpath.dirname(page.file.src_uri)
    source = _source(page.file)
    return _LINK.sub(lambda link: posixpath.relpath(_place(source, link[1]), here or "."), markdown)


def _linked(files: Files) -> set[str]:
    """What pages link to outside of docs/, from the top of the repository."""
    found = set()
    for file in files.documentation_pages():
        source = _source(file)
        text = (ROOT / source).read_text(encoding="utf-8")
        targets = {_target(source, link) for link in _LINK.findall(text)}
        found |= {each for each in targets if not each.startswith("docs/") and each not in PAGES}
    return {each for each in found if (ROOT / each).is_file()}


def _source(file: File) -> str:
    """Where a page lies in the repository."""
    return Path(str(file.abs_src_path)).relative_to(ROOT).as_posix()


def _target(source: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), link))


def _place(source: str, link: str) -> str:
    """Where the target of a link is on the site."""
    target = _target(source, link)
    if target in PAGES:
        return PAGES[target]
    return target.removeprefix("docs/") if target.startswith("docs/") else f"{FILES}/{target}"


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Name the page in its own markup, for what site.css has for some of them."""
    del config, files
    return f'<div class="page-{posixpath.basename(page.file.name).lower()}">{html}</div>'
