"""One target in a process of its own: ``python -m tests.fuzz.drive TARGET [libFuzzer's arguments]``.

Modules are instrumented as they are imported, so nothing of hoptrio may be imported before.
"""

import sys

import atheris

with atheris.instrument_imports(include=["hoptrio", "h11"]):
    from tests.fuzz.targets import TARGETS

name, *arguments = sys.argv[1:]
atheris.Setup(["fuzz", *arguments], TARGETS[name].one)
atheris.Fuzz()
