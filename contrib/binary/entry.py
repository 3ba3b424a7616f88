"""Where the standalone binary begins: the console script, by another way in."""

from hoptrio.cli.main import main

main()
