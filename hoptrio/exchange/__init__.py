"""One request from its route to its end: composes downstream, protocols, admission, upstream, stream and ledger."""
