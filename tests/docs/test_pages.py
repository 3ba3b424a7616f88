"""What pages say within their lines: commands, keys, metrics, tests and links that they name are there."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from urllib.parse import urlsplit

import click
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from bench.__main__ import compare
from hoptrio.cli import main as cli
from hoptrio.control.figures import Figures
from hoptrio.control.metrics import metrics
from hoptrio.errors import HoptrioError
from hoptrio.exchange.routes import find
from hoptrio.exchange.unserved import unserved
from tests.control.test_metrics import Board, Told, counted
from tests.fuzz.targets import TARGETS
from tests.support.blocks import ROOT, code_of, pages, prose_of
from tests.support.controlling import controlling
from tests.support.pages import DOCS, PAGES, made_of
from tests.support.pages.config import TABLES

SITE = yaml.unsafe_load((ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8"))
#: Options that pages name and that are other programs'.
OTHERS = {"--retry"}


@pytest.mark.parametrize("name", PAGES)
def test_what_is_made_of_the_code_is_as_the_code_is(name):
    """`python -m tests.support.pages` writes it; a key or an option without a description is an error there."""
    assert (DOCS / name).read_text(encoding="utf-8") == made_of(name)


def test_every_key_of_the_config_says_what_it_does():
    silent = [
        f"{title} {name}"
        for title, table in TABLES.items()
        for name, field in table.model_fields.items()
        if not field.description
    ]
    assert not silent


# -- commands ---------------------------------------------------------------------------------------------------------


def options_of(command):
    """Every spelling of an option, of the command and of those below it."""
    found = {name for each in command.params if isinstance(each, click.Option) for name in (*each.opts, "--help")}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found |= options_of(command.get_command(context, name))
    return found


@cache
def known_options():
    return options_of(cli.root) | options_of(compare) | OTHERS


def wrong_with(code):
    """What is wrong with a call of hoptrio as a page names it, "" for nothing. Words in capitals are a reader's own."""
    command, words = cli.root, code.split()[1:]
    while words and isinstance(command, click.Group) and not words[0].startswith(("-", "[")) and words[0].islower():
        chosen = command.get_command(click.Context(command), words.pop(0))
        if chosen is None:
            return f"{code}: there is no such command"
        command = chosen
    unknown = set(re.findall(r"--[a-z][a-z-]*", " ".join(words))) - options_of(command) - options_of(cli.root)
    return f"{code}: {unknown} is not there" if unknown else ""


@pytest.mark.parametrize("page", pages())
def test_commands_and_options_that_a_page_names_are_there(page):
    wrong = []
    for code in code_of(page):
        if re.match(r"hoptrio [a-z]+( |$)", code):
            wrong.append(wrong_with(code))
        elif option := re.match(r"(--[a-z][a-z-]+)", code):
            wrong.append("" if option[1] in known_options() else f"{code}: there is no such option")
        elif target := re.match(r"make ([a-z-]+)", code):
            makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
            there = re.search(rf"^{target[1]}:", makefile, re.MULTILINE)
            wrong.append("" if there else f"{code}: there is no such target")
        elif module := re.match(r"python -m ([\w.]+)", code):
            wrong.append("" if importlib.util.find_spec(module[1]) else f"{code}: there is no such module")
    assert [each for each in wrong if each] == []


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("hoptrio route MODEL [--protocol P] [--key ID]", False),
        ("hoptrio --control URL account list", False),
        ("hoptrio acount list", True),
        ("hoptrio key create --acount acme", True),
    ],
)
def test_a_call_that_is_wrong_is_found(code, wrong):
    assert bool(wrong_with(code)) is wrong


# -- keys, endpoints, metrics, tests ----------------------------------------------------------------------------------


@pytest.mark.parametrize("page", pages())
def test_keys_of_the_config_that_a_page_names_are_there(page):
    tables = {title.strip("[]"): table.model_fields.keys() for title, table in TABLES.items()}
    named = {
        match[0]
        for code in code_of(page)
        for match in re.finditer(r"\b(server|control|ledger|certification)\.([a-z_]+)\b(?!\.|/|\()", code)
    }
    # Rooms and modules of the program have these names, too.
    rooms = {path.stem for path in (ROOT / "hoptrio").rglob("*.py")} | {"dashboard", "db", "md", "toml"}
    unknown = {each for each in named for table, key in [each.split(".")] if key not in tables[table] | rooms}
    assert unknown == set()


@pytest.mark.parametrize("page", pages())
def test_endpoints_that_a_page_names_are_served_or_known_not_to_be(page):
    wrong = []
    for code in code_of(page):
        for method, path in re.findall(r"\b(GET|POST|DELETE) (/(?:v1|healthz|readyz)[^\s`·]*)", code):
            path = path.partition("?")[0]
            try:
                find(method, path, {})
            except HoptrioError as error:
                if unserved(path, {}) is None and error.code != "endpoint_not_served":
                    wrong.append(f"{code}: {error}")
    assert wrong == []


async def families():
    """The names of all metrics, without what a histogram adds to them."""
    async with controlling() as control:
        control.office.figures = Figures(Board(Told(counted(streams=1), True)))
        text = (await metrics(control.office)).decode()
    return {
        re.sub(r"_(bucket|sum|count)$", "", sample.name)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_the_page_of_metrics_names_each_of_them_and_no_other():
    named = {name for code in code_of("docs/monitoring.md") for name in re.findall(r"^hoptrio_[a-z_]+", code)}
    assert named == await families()


def test_every_alert_has_its_row_and_no_other():
    rules = yaml.safe_load((ROOT / "contrib/prometheus/alerts.yml").read_text(encoding="utf-8"))
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"]}
    assert {code for code in code_of("docs/operating.md") if re.fullmatch(r"Hoptrio[A-Z]\w+", code)} == alerts


@pytest.mark.parametrize("page", pages())
def test_tests_that_a_page_names_are_there(page):
    named = {code.partition("::") for code in code_of(page) if re.match(r"tests/\S+\.py", code)}
    absent = [
        f"{file}::{test}"
        for file, _, test in named
        if not (ROOT / file).is_file() or (test and f"def {test}(" not in (ROOT / file).read_text("utf-8"))
    ]
    assert absent == []


def test_every_target_of_the_fuzzer_has_its_invariant_and_its_row():
    section = prose_of("docs/security.md").partition("## Fuzzing")[2].partition("\n## ")[0]
    fuzzing = " ".join(section.replace("`[DONE]`", "[DONE]").split())
    for name, target in TARGETS.items():
        told = re.escape(target.invariant[0].lower() + target.invariant[1:])
        assert re.search(rf"\* `{name}`, [^:*]+: {told}", fuzzing)
    assert re.findall(r"\| `(\w+)` \|", fuzzing) == list(TARGETS)


def test_every_attack_has_a_test():
    attacks = prose_of("docs/security.md").partition("## Fuzzing")[0]
    rows = re.findall(r"^\| (?!attack|---)(.+) \|$", attacks, re.MULTILINE)
    assert [row for row in rows if "`tests/" not in row] == []


# -- links ------------------------------------------------------------------------------------------------------------

LINK = re.compile(r"\]\(([^)\s]+)\)")


@cache
def anchors_of(page):
    """The anchors that a code host makes of a page's headings."""
    seen = []
    text = (ROOT / page).read_text(encoding="utf-8")
    for heading in re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        seen.append(f"{slug}-{seen.count(slug)}" if slug in seen else slug)
    return seen


@pytest.mark.parametrize("page", pages())
def test_links_with_an_anchor_lead_to_a_heading(page):
    """The site's own anchors are held by its strict build; these are those of whoever reads the repository."""
    wrong = []
    for link in LINK.findall(prose_of(page)):
        path, hash_, anchor = link.partition("#")
        if hash_ and not urlsplit(link).scheme:
            target = (ROOT / page).parent / path if path else ROOT / page
            if anchor not in anchors_of(target.resolve().relative_to(ROOT).as_posix()):
                wrong.append(link)
    assert wrong == []


@pytest.mark.parametrize("page", pages())
def test_links_to_other_hosts_are_whole(page):
    """Only their form is looked at: tests ask nobody else."""
    links = [urlsplit(link) for link in LINK.findall(prose_of(page)) if ":" in link.partition("#")[0]]
    wrong = [each.geturl() for each in links if each.scheme != "https" or "." not in (each.hostname or "")]
    assert wrong == []


def test_every_page_has_its_place_on_the_site_and_one_title():
    def places(nav):
        for each in nav:
            if isinstance(each, str):
                yield each
            elif isinstance(each, dict):
                for value in each.values():
                    yield from places([value] if isinstance(value, str) else value)

    tops = {
        "index.md": "README.md",
        "contributing.md": "CONTRIBUTING.md",
        "changelog.md": "CHANGELOG.md",
        "security-policy.md": "SECURITY.md",
    }
    there = {tops.get(place, f"docs/{place}") for place in places(SITE["nav"])}
    assert there == set(pages())
    for page in pages():
        text = "\n".join(line for line in prose_of(page).splitlines() if re.match(r"# \S", line))
        assert text.count("\n") == 0, page
        assert text, page


def test_the_site_asks_no_other_host():
    assert SITE["theme"]["font"] is False
    assert not [each for key in ("extra_css", "extra_javascript") for each in SITE.get(key, []) if "//" in str(each)]
    assert "analytics" not in SITE["extra"]


def test_pictures_are_drawings_without_scripts_that_any_page_can_show():
    pictures = [*(DOCS / "pictures").glob("*.svg")]
    assert pictures
    for picture in pictures:
        text = picture.read_text(encoding="utf-8")
        assert not re.search(r"<script|<foreignObject|\bon\w+=|href=", text), picture
        assert text.count("http") == text.count("http://www.w3.org/2000/svg"), picture
