-- Requests a minute of a key, and when there is room for one more: its newest holds.
CREATE INDEX holds_of_key ON holds (key_id, created_at_ms);
