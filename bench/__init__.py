"""The benchmark: what a gateway costs a stream, next to a byte relay of a few lines, measured in the same run."""
