"""The clients that people use, for real (``make clients``): agents finish a turn with a tool call against a gateway, on
channels of every protocol, and the guides of agents and frameworks are followed.

`packages` installs them, `agents` says how each is run, `turns` runs them and looks at everything, `outside` is all
that they see of the network.
"""
