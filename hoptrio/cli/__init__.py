"""The command line: one file per command or command group, loaded when it is called (`main.COMMANDS`)."""
