"""Values as people see them on a terminal: a name, a model or a reason may be a stranger's text, and a terminal obeys
control characters in it. They are shown, never sent. ``--json`` does not pass here: JSON escapes what is needed.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["cell", "printable"]

#: C0, DEL and C1, of which terminals make commands, and what turns the direction of all that follows (UAX #9).
_COMMANDS = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""One line in which every control character is written out, as ``\n`` or ``\x1b``; all else is as it was."""
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def cell(value: Any) -> Text:
    """A value as rich prints it, in a table or alone: no control characters, no markup. Nothing is ``-``."""
    from rich.text import Text

    if value is None:
        return Text("-")
    if isinstance(value, list | tuple):
        return Text(printable(", ".join(str(each) for each in value)))
    return Text(printable(str(value)))
