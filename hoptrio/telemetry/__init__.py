"""What a process counts of itself, and how the processes of a machine tell each other. Knows nothing of streams.

Reading order: `tally` (counting), `snapshot` (the value that is told), `board` (the memory that they share).
"""
