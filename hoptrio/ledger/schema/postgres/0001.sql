-- Amounts (..._nanos) are integers in billionths of the currency unit, times (..._at_ms) milliseconds since 1970 in UTC.
-- Ids and names compare by their bytes (COLLATE "C"), as in the other engines. Tables whose rows change often leave room
-- in their pages, so that a change need not touch the indexes.

-- The one clock of the ledger: every node asks it, so that no two of them are ever compared.
CREATE FUNCTION ledger_now_ms() RETURNS bigint LANGUAGE sql VOLATILE
    RETURN (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

CREATE TABLE schema_version (
    number        integer PRIMARY KEY,
    applied_at_ms bigint NOT NULL
);

CREATE TABLE accounts (
    id            text COLLATE "C" PRIMARY KEY,
    name          text COLLATE "C" NOT NULL CONSTRAINT accounts_one_name UNIQUE,
    balance_nanos bigint NOT NULL DEFAULT 0,
    held_nanos    bigint NOT NULL DEFAULT 0,
    disabled      boolean NOT NULL DEFAULT false,
    created_at_ms bigint NOT NULL,
    -- No transaction that would break this can commit, whatever the code does.
    CONSTRAINT accounts_are_covered CHECK (0 <= held_nanos AND held_nanos <= balance_nanos)
) WITH (fillfactor = 50);

CREATE TABLE api_keys (
    id            text COLLATE "C" PRIMARY KEY,
    account_id    text COLLATE "C" NOT NULL,
    secret_hash   text COLLATE "C" NOT NULL CONSTRAINT api_keys_one_secret UNIQUE,  -- SHA-256; the secret is nowhere
    contract      text,
    max_streams   bigint,
    rpm           bigint,
    budget_nanos  bigint,
    budget_per    text CHECK (budget_per IN ('day', 'month')),
    expires_at_ms bigint,
    models        text NOT NULL DEFAULT '[]',
    revoked       boolean NOT NULL DEFAULT false,
    created_at_ms bigint NOT NULL,
    -- What was captured in the period so named (2026-11-30 or 2026-11); kept for keys with a budget.
    spent_period  text NOT NULL DEFAULT '',
    spent_nanos   bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE INDEX api_keys_of_account ON api_keys (account_id);

CREATE TABLE holds (
    id                  text COLLATE "C" PRIMARY KEY,
    request_id          text COLLATE "C" NOT NULL,
    account_id          text COLLATE "C" NOT NULL,
    key_id              text COLLATE "C" NOT NULL,
    amount_nanos        bigint NOT NULL CHECK (amount_nanos >= 0),
    prices              text NOT NULL,  -- the price tables pinned at the hold, JSON
    owner               text COLLATE "C" NOT NULL,
    supplier            text COLLATE "C" NOT NULL,
    revenue_share_nanos bigint NOT NULL,
    state               text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'captured', 'released')),
    reason              text,
    charge_nanos        bigint NOT NULL DEFAULT 0 CHECK (0 <= charge_nanos AND charge_nanos <= amount_nanos),
    late                boolean NOT NULL DEFAULT false,
    created_at_ms       bigint NOT NULL,
    resolved_at_ms      bigint
);

-- These hold the open holds only, so they stay small however long the history is.
CREATE INDEX holds_open_of_key ON holds (key_id, amount_nanos) WHERE state = 'open';
CREATE INDEX holds_open_of_owner ON holds (owner) WHERE state = 'open';

CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'integrity_constraint_violation', MESSAGE = TG_ARGV[0];
END $$;

CREATE TRIGGER holds_are_kept BEFORE DELETE ON holds
    FOR EACH ROW EXECUTE FUNCTION refuse('holds are never deleted');
CREATE TRIGGER holds_resolve_once BEFORE UPDATE OF state, amount_nanos ON holds
    FOR EACH ROW WHEN (OLD.amount_nanos <> NEW.amount_nanos OR (OLD.state <> 'open' AND OLD.state <> NEW.state))
    EXECUTE FUNCTION refuse('a hold is resolved once');

-- `seq` grows in the order of an account's commits: an entry is made under the lock of its account's row.
CREATE TABLE entries (
    seq          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms        bigint NOT NULL,
    account_id   text COLLATE "C" NOT NULL,
    kind         text NOT NULL
        CHECK (kind IN ('deposit', 'adjust', 'capture', 'release', 'late_capture', 'uncollected', 'share')),
    amount_nanos bigint NOT NULL,            -- signed change of the balance
    memo_nanos   bigint NOT NULL DEFAULT 0,  -- moves no balance: what returned, or could not be collected
    hold_id      text COLLATE "C",
    why          text NOT NULL DEFAULT '',
    ref          text COLLATE "C" UNIQUE
);

CREATE INDEX entries_of_account ON entries (account_id, seq);

-- Double settlement is impossible here, whatever the code does.
CREATE UNIQUE INDEX entries_resolve_once ON entries (hold_id) WHERE kind IN ('capture', 'release');
CREATE UNIQUE INDEX entries_late_once ON entries (hold_id) WHERE kind = 'late_capture';

CREATE TRIGGER entries_are_not_changed BEFORE UPDATE ON entries
    FOR EACH ROW EXECUTE FUNCTION refuse('entries are append-only');
CREATE TRIGGER entries_are_kept BEFORE DELETE ON entries
    FOR EACH ROW EXECUTE FUNCTION refuse('entries are append-only');
CREATE TRIGGER holds_are_not_emptied BEFORE TRUNCATE ON holds
    EXECUTE FUNCTION refuse('holds are never deleted');
CREATE TRIGGER entries_are_not_emptied BEFORE TRUNCATE ON entries
    EXECUTE FUNCTION refuse('entries are append-only');

CREATE TABLE requests (
    id                text COLLATE "C" PRIMARY KEY,
    account_id        text COLLATE "C" NOT NULL,
    key_id            text COLLATE "C" NOT NULL,
    created_at_ms     bigint NOT NULL,
    protocol          text NOT NULL,
    model             text NOT NULL,
    contract          text NOT NULL,
    stream            boolean NOT NULL,
    channel           text,
    client_request_id text,
    state             text NOT NULL,
    reason            text,
    evidence          text NOT NULL,
    usage             text NOT NULL,
    raw_usage         text NOT NULL,
    hold_nanos        bigint NOT NULL,
    charge_nanos      bigint,
    flags             text NOT NULL,
    attempts          bigint NOT NULL,
    timeline          text NOT NULL,
    provider_ids      text NOT NULL
) WITH (fillfactor = 60);

CREATE INDEX requests_by_time ON requests (created_at_ms, id);
CREATE INDEX requests_of_account ON requests (account_id, created_at_ms, id);
CREATE INDEX requests_by_client_id ON requests (client_request_id) WHERE client_request_id IS NOT NULL;

-- Provider-side ids (of a long one its hash) and whose request they came from.
CREATE TABLE provider_ids (
    id         text COLLATE "C" PRIMARY KEY,
    request_id text COLLATE "C" NOT NULL,
    account_id text COLLATE "C" NOT NULL,
    channel    text
);

-- Gateway processes that place holds; a lease that stands still is a dead one.
CREATE TABLE owners (
    id            text COLLATE "C" PRIMARY KEY,
    beat          bigint NOT NULL,
    renewed_at_ms bigint NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE channel_model_usage_evidence (
    channel        text COLLATE "C" NOT NULL,
    model          text COLLATE "C" NOT NULL,
    kind           text NOT NULL,   -- sse_terminal
    evidence       text NOT NULL,   -- the usage object as received, JSON
    observed_at_ms bigint NOT NULL,
    probe          text NOT NULL,   -- which probe saw it
    expires_at_ms  bigint,
    PRIMARY KEY (channel, model, kind)
);
