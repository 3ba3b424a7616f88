-- A channel may report usage in one of its protocols and not in another, so evidence is kept for each; nothing wrote
-- this table before. A row holds for the address and the provider's name of the model that were probed (`target`).
DROP TABLE channel_model_usage_evidence;

CREATE TABLE channel_model_usage_evidence (
    channel        TEXT NOT NULL,
    model          TEXT NOT NULL,
    protocol       TEXT NOT NULL,   -- the channel's own
    kind           TEXT NOT NULL,   -- sse_terminal
    target         TEXT NOT NULL,   -- what was probed: base URL and the provider's own name of the model
    evidence       TEXT NOT NULL,   -- the usage object as received, JSON
    observed_at_ms INTEGER NOT NULL,
    probe          TEXT NOT NULL,   -- which probe saw it
    expires_at_ms  INTEGER NOT NULL,
    PRIMARY KEY (channel, model, protocol, kind)
) STRICT, WITHOUT ROWID;

-- The last probe of each channel, model and protocol: how often one may be probed, and what was found.
CREATE TABLE probes (
    channel     TEXT NOT NULL,
    model       TEXT NOT NULL,
    protocol    TEXT NOT NULL,
    probe       TEXT NOT NULL,
    owner       TEXT NOT NULL,      -- the process that probes
    setup       TEXT NOT NULL,      -- digest of the channel's config: a changed one is probed again at once
    began_at_ms INTEGER NOT NULL,
    ended_at_ms INTEGER,            -- NULL while it runs
    finding     TEXT NOT NULL DEFAULT '',
    detail      TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (channel, model, protocol)
) STRICT, WITHOUT ROWID;
