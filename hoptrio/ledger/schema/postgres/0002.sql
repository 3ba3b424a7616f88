-- A channel may report usage in one of its protocols and not in another, so evidence is kept for each; nothing wrote
-- this table before. A row holds for the address and the provider's name of the model that were probed (`target`).
DROP TABLE channel_model_usage_evidence;

CREATE TABLE channel_model_usage_evidence (
    channel        text COLLATE "C" NOT NULL,
    model          text COLLATE "C" NOT NULL,
    protocol       text COLLATE "C" NOT NULL,  -- the channel's own
    kind           text COLLATE "C" NOT NULL,  -- sse_terminal
    target         text NOT NULL,              -- what was probed: base URL and the provider's own name of the model
    evidence       text NOT NULL,              -- the usage object as received, JSON
    observed_at_ms bigint NOT NULL,
    probe          text NOT NULL,              -- which probe saw it
    expires_at_ms  bigint NOT NULL,
    PRIMARY KEY (channel, model, protocol, kind)
);

-- The last probe of each channel, model and protocol: how often one may be probed, and what was found.
CREATE TABLE probes (
    channel     text COLLATE "C" NOT NULL,
    model       text COLLATE "C" NOT NULL,
    protocol    text COLLATE "C" NOT NULL,
    probe       text NOT NULL,
    owner       text NOT NULL,                 -- the process that probes
    setup       text NOT NULL,                 -- digest of the channel's config: a changed one is probed again at once
    began_at_ms bigint NOT NULL,
    ended_at_ms bigint,                        -- NULL while it runs
    finding     text NOT NULL DEFAULT '',
    detail      text NOT NULL DEFAULT '',
    PRIMARY KEY (channel, model, protocol)
);
