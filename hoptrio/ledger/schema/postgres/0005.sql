-- Requests with an Idempotency-Key: one stands for all with the same key of an API key. Both keys are in `name`, hashed;
-- what was asked is in `digest`, hashed too. Rows are replaced by the next request under the name, and forgotten in time.
-- A row is read and written under the lock of its key's account.
CREATE TABLE claims (
    name       text COLLATE "C" PRIMARY KEY,
    hold_id    text COLLATE "C" NOT NULL,
    digest     text NOT NULL,
    made_at_ms bigint NOT NULL
) WITH (fillfactor = 60);

CREATE INDEX claims_by_time ON claims (made_at_ms);
