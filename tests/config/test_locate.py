from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from hoptrio.config.locate import locate

if TYPE_CHECKING:
    from hoptrio.config.problem import Key


def test_keys_and_tables_stand_where_they_are_written() -> None:
    text = '# first\na = 1\n\n[b."c.d"]\ne.f = 2\n'
    assert locate(text) == {("a",): 2, ("b", "c.d"): 4, ("b", "c.d", "e"): 5, ("b", "c.d", "e", "f"): 5}


def test_items_of_an_array_have_lines_of_their_own() -> None:
    text = 'a = [\n  "x", # ] , {\n\n  { b = 1 },\n]\nc = 2\n'
    lines = locate(text)
    assert (lines["a", 0], lines["a", 1], lines["a", 1, "b"], lines[("c",)]) == (2, 4, 4, 6)


def test_strings_hide_what_looks_like_toml() -> None:
    text = 'a = """\n[x]\nb = "1"\\"""" # "\nc = \'\'\'\n[y]\'\'\'\nd = "[z] # \\" "\ne = 1\n'
    assert set(tomllib.loads(text)) == {"a", "c", "d", "e"}
    assert locate(text) == {("a",): 1, ("c",): 4, ("d",): 6, ("e",): 7}


def test_tables_in_arrays_are_counted() -> None:
    text = "[[a]]\nb = 1\n[[a]]\nb = 2\n[a.c]\nd = 3\n"
    lines = locate(text)
    assert (lines["a", 0, "b"], lines["a", 1], lines["a", 1, "c", "d"]) == (2, 3, 6)


def test_quoted_and_spaced_keys_are_read_as_toml_reads_them() -> None:
    text = "[ \"a\\u0062\" . 'c' ]\n\t'd e' = {f.g = [1, [2]], h = 1979-05-27 07:32:00}\n"
    assert locate(text)["ab", "c", "d e", "f", "g", 1, 0] == 2
    assert locate(text)["ab", "c", "d e", "h"] == 2


def keys_of(value: Any, above: Key = ()) -> set[Key]:
    """Every key of a parsed document."""
    if isinstance(value, dict):
        members: list[tuple[str | int, Any]] = list(value.items())
    elif isinstance(value, list):
        members = list(enumerate(value))
    else:
        return set()
    below = [keys_of(member, (*above, name)) for name, member in members]
    return {(*above, name) for name, _ in members}.union(*below)


SCALARS = st.sampled_from(
    ["1", "-2.5e3", "true", '"x"', '"a ] } # \\" b"', "'c \\'", '"""\nd = [1]\n"""', "'''e\n\n# '''", "07:32:00"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[\n" + ", # ,]\n".join(items) + "]")
        | st.lists(inner, max_size=3).map(
            lambda items: "{" + ", ".join(f'"k{n} ." = {item}' for n, item in enumerate(items)) + "}"
        )
    ),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=5))
def test_every_key_that_tomllib_reads_has_a_line(values: list[str]) -> None:
    text = "".join(f"[t{n}]  # [\nx.'y' = {value}\r\n" for n, value in enumerate(values))
    raw = tomllib.loads(text)
    assert keys_of(raw) <= locate(text).keys()
