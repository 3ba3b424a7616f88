"""The simulated world: the whole gateway over nodes and workers, among clients, providers, operators and faults, in
virtual time. A seed decides everything; ``python -m bench.world`` lives as many streams as it is told."""
