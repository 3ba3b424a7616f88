-- Amounts (..._nanos) are integers in billionths of the currency unit, times (..._at_ms) milliseconds since 1970 in UTC.

CREATE TABLE accounts (
    id            TEXT PRIMARY KEY,
    name          TEXT NOT NULL UNIQUE,
    balance_nanos INTEGER NOT NULL DEFAULT 0,
    held_nanos    INTEGER NOT NULL DEFAULT 0,
    disabled      INTEGER NOT NULL DEFAULT 0,
    created_at_ms INTEGER NOT NULL,
    -- No transaction that would break this can commit, whatever the code does.
    CHECK (0 <= held_nanos AND held_nanos <= balance_nanos)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
    id            TEXT PRIMARY KEY,
    account_id    TEXT NOT NULL,
    secret_hash   TEXT NOT NULL UNIQUE,  -- SHA-256 of the secret; the secret itself is nowhere
    contract      TEXT,
    max_streams   INTEGER,
    rpm           INTEGER,
    budget_nanos  INTEGER,
    budget_per    TEXT CHECK (budget_per IN ('day', 'month')),
    expires_at_ms INTEGER,
    models        TEXT NOT NULL DEFAULT '[]',
    revoked       INTEGER NOT NULL DEFAULT 0,
    created_at_ms INTEGER NOT NULL,
    -- What was captured in the period so named (2026-11-30 or 2026-11); kept for keys with a budget.
    spent_period  TEXT NOT NULL DEFAULT '',
    spent_nanos   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE INDEX api_keys_of_account ON api_keys (account_id);

CREATE TABLE holds (
    id                  TEXT PRIMARY KEY,
    request_id          TEXT NOT NULL,
    account_id          TEXT NOT NULL,
    key_id              TEXT NOT NULL,
    amount_nanos        INTEGER NOT NULL CHECK (amount_nanos >= 0),
    prices              TEXT NOT NULL,  -- the price tables pinned at the hold, JSON
    owner               TEXT NOT NULL,
    supplier            TEXT NOT NULL,
    revenue_share_nanos INTEGER NOT NULL,
    state               TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'captured', 'released')),
    reason              TEXT,
    charge_nanos        INTEGER NOT NULL DEFAULT 0 CHECK (0 <= charge_nanos AND charge_nanos <= amount_nanos),
    late                INTEGER NOT NULL DEFAULT 0,
    created_at_ms       INTEGER NOT NULL,
    resolved_at_ms      INTEGER
) STRICT, WITHOUT ROWID;

-- These hold the open holds only, so they stay small however long the history is.
CREATE INDEX holds_open_of_key ON holds (key_id, amount_nanos) WHERE state = 'open';
CREATE INDEX holds_open_of_owner ON holds (owner) WHERE state = 'open';

CREATE TRIGGER holds_are_kept BEFORE DELETE ON holds
BEGIN SELECT RAISE(ABORT, 'holds are never deleted'); END;

CREATE TRIGGER holds_resolve_once BEFORE UPDATE OF state, amount_nanos ON holds
WHEN OLD.amount_nanos <> NEW.amount_nanos OR (OLD.state <> 'open' AND OLD.state <> NEW.state)
BEGIN SELECT RAISE(ABORT, 'a hold is resolved once'); END;

CREATE TABLE entries (
    seq          INTEGER PRIMARY KEY,
    at_ms        INTEGER NOT NULL,
    account_id   TEXT NOT NULL,
    kind         TEXT NOT NULL CHECK (kind IN ('deposit', 'adjust', 'capture', 'release', 'late_capture', 'uncollected', 'share')),
    amount_nanos INTEGER NOT NULL,            -- signed change of the balance
    memo_nanos   INTEGER NOT NULL DEFAULT 0,  -- moves no balance: what returned, or could not be collected
    hold_id      TEXT,
    why          TEXT NOT NULL DEFAULT '',
    ref          TEXT UNIQUE
) STRICT;

CREATE INDEX entries_of_account ON entries (account_id, seq);

-- Double settlement is impossible here, whatever the code does.
CREATE UNIQUE INDEX entries_resolve_once ON entries (hold_id) WHERE kind IN ('capture', 'release');
CREATE UNIQUE INDEX entries_late_once ON entries (hold_id) WHERE kind = 'late_capture';

CREATE TRIGGER entries_are_not_changed BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

CREATE TRIGGER entries_are_kept BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'entries are append-only'); END;

CREATE TABLE requests (
    id                TEXT PRIMARY KEY,
    account_id        TEXT NOT NULL,
    key_id            TEXT NOT NULL,
    created_at_ms     INTEGER NOT NULL,
    protocol          TEXT NOT NULL,
    model             TEXT NOT NULL,
    contract          TEXT NOT NULL,
    stream            INTEGER NOT NULL,
    channel           TEXT,
    client_request_id TEXT,
    state             TEXT NOT NULL,
    reason            TEXT,
    evidence          TEXT NOT NULL,
    usage             TEXT NOT NULL,
    raw_usage         TEXT NOT NULL,
    hold_nanos        INTEGER NOT NULL,
    charge_nanos      INTEGER,
    flags             TEXT NOT NULL,
    attempts          INTEGER NOT NULL,
    timeline          TEXT NOT NULL,
    provider_ids      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX requests_by_time ON requests (created_at_ms);
CREATE INDEX requests_of_account ON requests (account_id, created_at_ms);
CREATE INDEX requests_by_client_id ON requests (client_request_id) WHERE client_request_id IS NOT NULL;

-- Provider-side ids and whose request they came from.
CREATE TABLE provider_ids (
    id         TEXT PRIMARY KEY,
    request_id TEXT NOT NULL,
    account_id TEXT NOT NULL,
    channel    TEXT
) STRICT, WITHOUT ROWID;

-- Gateway processes that place holds; a lease that stands still is a dead one.
CREATE TABLE owners (
    id            TEXT PRIMARY KEY,
    beat          INTEGER NOT NULL,
    renewed_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE channel_model_usage_evidence (
    channel        TEXT NOT NULL,
    model          TEXT NOT NULL,
    kind           TEXT NOT NULL,   -- sse_terminal
    evidence       TEXT NOT NULL,   -- the usage object as received, JSON
    observed_at_ms INTEGER NOT NULL,
    probe          TEXT NOT NULL,   -- which probe saw it
    expires_at_ms  INTEGER,
    PRIMARY KEY (channel, model, kind)
) STRICT, WITHOUT ROWID;
