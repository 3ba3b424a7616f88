"""Settlement: accounts, holds and append-only entries, behind one store interface."""
