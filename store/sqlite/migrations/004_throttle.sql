-- A job whose server has said that it is too much (HTTP 429, or 503 with
-- Retry-After). It has a row until it goes as fast as it can again.
CREATE TABLE throttle (
    job    INTEGER PRIMARY KEY REFERENCES job (id),
    since  INTEGER NOT NULL,               -- when the last hold began: what had started by then is the same wave
    until  INTEGER NOT NULL,               -- when one item is tried again
    proven INTEGER NOT NULL,               -- 1: the server has taken one since
    gap    INTEGER NOT NULL,               -- microseconds from one start to the next
    steady INTEGER NOT NULL,               -- the gap down to which it shrinks fast; 0: any
    next   INTEGER NOT NULL,               -- when the next start is due, microseconds since 1970 UTC
    reason TEXT    NOT NULL,               -- of the last answer
    CHECK (proven IN (0, 1)),
    CHECK (gap > 0 AND steady >= 0)
) STRICT;

-- How often a server has said so, by day.
ALTER TABLE daily ADD COLUMN throttled INTEGER NOT NULL DEFAULT 0;
