-- Channels that an operator has taken out of service, for every process and over restarts.
CREATE TABLE channel_pauses (
    channel  TEXT PRIMARY KEY,
    since_ms INTEGER NOT NULL,
    why      TEXT NOT NULL
) STRICT, WITHOUT ROWID;
