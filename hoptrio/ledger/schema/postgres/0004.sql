-- Channels that an operator has taken out of service, for every process and over restarts.
CREATE TABLE channel_pauses (
    channel  text COLLATE "C" PRIMARY KEY,
    since_ms bigint NOT NULL,
    why      text NOT NULL
);
