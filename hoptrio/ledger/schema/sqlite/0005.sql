-- Requests with an Idempotency-Key: one stands for all with the same key of an API key. Both keys are in `name`, hashed;
-- what was asked is in `digest`, hashed too. Rows are replaced by the next request under the name, and forgotten in time.
CREATE TABLE claims (
    name       TEXT PRIMARY KEY,
    hold_id    TEXT NOT NULL,
    digest     TEXT NOT NULL,
    made_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX claims_by_time ON claims (made_at_ms);
