"""The reference of the command line, made of its commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from hoptrio.cli.main import COMMANDS, root
from hoptrio.cli.options import Command, shared_options
from tests.support.pages.table import head, line

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["every_command", "render"]

#: Said once, in front of the commands.
SHARED = {option.name for option in shared_options()}


def every_command() -> Iterator[tuple[str, click.Command]]:
    """Each command that does something, by its words, in the order of ``--help``."""
    context = click.Context(root, info_name="hoptrio")
    for name, lazy in COMMANDS.items():
        command = root.get_command(context, name)
        assert command is not None, lazy
        if isinstance(command, click.Group):
            yield from ((f"{name} {each}", member) for each, member in command.commands.items())
        else:
            yield name, command


def render() -> str:
    """What most commands share, and a section for each that is shown."""
    *alone, last = (f"`{name}`" for name, lazy in COMMANDS.items() if lazy.standalone)
    taken = f"Every command but {', '.join(alone)} and {last} takes these, before or after its other arguments."
    shared = [_option(option, click.Context(root)) for option in shared_options()]
    sections = [_section(words, command) for words, command in every_command() if not command.hidden]
    return "\n".join(["## Options of every command", "", taken, "", *head("option", "is"), *shared, "", *sections])


def _section(words: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"hoptrio {words}")
    pieces = _pieces(command, context)
    lines = [f"## `hoptrio {words}`", ""]
    lines += [f"`{' '.join([f'hoptrio {words}', *pieces])}`", ""] if pieces else []
    lines += [_prose(command.help or "", words), ""]
    shared = SHARED if isinstance(command, Command) else set()
    options = [each for each in command.params if isinstance(each, click.Option) and each.name not in shared]
    if options:
        lines += [*head("option", "is"), *(_option(each, context) for each in options), ""]
    if command.epilog:
        lines += ["```text", _unwrapped(command.epilog), "```", ""]
    return "\n".join(lines)


def _pieces(command: click.Command, context: click.Context) -> list[str]:
    """The arguments, and the options that must be there."""
    pieces = []
    for each in command.params:
        if isinstance(each, click.Argument):
            pieces.append(each.make_metavar(context))
        elif isinstance(each, click.Option) and each.required:
            pieces.append(f"{each.opts[0]} {_metavar(each, context)}")
    return pieces


def _option(option: click.Option, context: click.Context) -> str:
    if not option.help:
        raise ValueError(f"{option.opts[0]} of {context.info_name} has no help")
    name = option.opts[0] if option.is_flag else f"{option.opts[0]} {_metavar(option, context)}"
    extra = option.get_help_extra(context)
    notes = [", ".join(f"`{each}`" for each in option.type.choices)] if isinstance(option.type, click.Choice) else []
    notes += [_range(option.type)] if isinstance(option.type, click.IntRange) else []
    notes += [f"default `{extra['default']}`"] if "default" in extra else []
    notes += ["required"] if option.required else []
    return line(f"`{name}`", _prose(option.help, name) + (f" ({'; '.join(notes)})" if notes else ""))


def _metavar(option: click.Option, context: click.Context) -> str:
    if isinstance(option.type, click.IntRange):
        return "N"
    return "WORD" if isinstance(option.type, click.Choice) else option.make_metavar(context)


def _range(kind: click.IntRange) -> str:
    return f"at least {kind.min}" if kind.max is None else f"{kind.min} to {kind.max:,}"


def _prose(text: str, where: str) -> str:
    """Words of a help text as Markdown: what is code there is code here."""
    if "<" in text or "*" in text:
        raise ValueError(f"{where}: this would be read as Markdown: {text}")
    joined = "\n\n".join(" ".join(part.split()) for part in text.replace("\b", "").split("\n\n"))
    return re.sub(r"(?<![`\w-])(--[a-z][a-z-]+)", r"`\1`", joined)


def _unwrapped(epilog: str) -> str:
    return "\n".join(each.rstrip() for each in epilog.replace("\b\n", "").strip("\n").splitlines())
