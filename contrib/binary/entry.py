"""Where the standalone binary begins: the console script, by another way in.

What one starts, and kills, is PyInstaller's bootloader, whose child this is: it must not stay behind when that is
killed in a way that cannot be passed on. Workers have the supervisor for a parent, and a pipe that tells them.
"""

import ctypes
import os
import signal
import sys

from hoptrio.cli.main import main

#: prctl(2): the signal that this process gets when its parent dies.
_PR_SET_PDEATHSIG = 1


def _bootloader_is_parent() -> bool:
    try:
        return os.path.samefile(f"/proc/{os.getppid()}/exe", "/proc/self/exe")
    except OSError:
        return False


if sys.argv[1:2] != ["worker"] and _bootloader_is_parent():
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
main()
