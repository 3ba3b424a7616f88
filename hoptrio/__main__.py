"""``python -m hoptrio`` is the console script."""

from hoptrio.cli.main import main

main()
