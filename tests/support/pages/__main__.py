"""`python -m tests.support.pages`: write the generated parts of all pages."""

from tests.support.pages import DOCS, PAGES, made_of

for name in PAGES:
    (DOCS / name).write_text(made_of(name), encoding="utf-8")
