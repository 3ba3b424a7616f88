"""The simulated provider: scripted streams in four protocols, for the demo, the tests and the bench.

Reading order: `script` (what a request may ask for), `prompt` (what is read of a request), `answer` (what is said),
`chat`, `responses`, `messages`, `gemini` (how each protocol says it), `play` (when, and how it fails), `steps` (the
result: a list of timed steps, pure), `server` (the driver), `replay` (recorded streams instead).
"""
