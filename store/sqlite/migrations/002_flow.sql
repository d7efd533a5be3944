-- What holds work back, seen by every run: pauses, breakers, rates, and pools
-- that are kept free for a job which found no room in them.

CREATE TABLE pause (
    kind   TEXT    NOT NULL CHECK (kind IN ('all', 'lane', 'job')),
    name   TEXT    NOT NULL CHECK ((name = '') = (kind = 'all')),
    since  INTEGER NOT NULL,
    by     TEXT    NOT NULL,               -- the user who said so
    reason TEXT    NOT NULL,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

-- A job whose items failed in a row. It has a row from the first failure to the
-- next success.
CREATE TABLE breaker (
    job    INTEGER PRIMARY KEY REFERENCES job (id),
    failed INTEGER NOT NULL,               -- different items in a row, while it is closed
    times  INTEGER NOT NULL DEFAULT 0,     -- how often it opened since the last success
    opened INTEGER,                        -- NULL: closed
    until  INTEGER,                        -- when one item is tried again
    reason TEXT    NOT NULL,               -- of the last failure
    CHECK ((opened IS NULL) = (until IS NULL)),
    CHECK ((opened IS NULL) = (times = 0))
) STRICT;

-- The different items behind breaker.failed.
CREATE TABLE streak (
    job  INTEGER NOT NULL REFERENCES breaker (job) ON DELETE CASCADE,
    item INTEGER NOT NULL,
    PRIMARY KEY (job, item)
) STRICT, WITHOUT ROWID;

-- Where a job's rate stands: when the next start would be due at an even pace,
-- in microseconds since 1970 UTC (the generic cell rate algorithm, ITU-T I.371).
CREATE TABLE pace (
    job  INTEGER PRIMARY KEY REFERENCES job (id),
    next INTEGER NOT NULL
) STRICT;

-- Jobs that are passed over for a full pool: since when, and until when that is
-- taken to be so still; since when, and for how long, the pool is kept for them.
CREATE TABLE squeeze (
    job   INTEGER PRIMARY KEY REFERENCES job (id),
    lane  TEXT    NOT NULL,
    uses  TEXT    NOT NULL,                -- JSON object pool -> amount
    since INTEGER NOT NULL,
    until INTEGER NOT NULL,
    kept  INTEGER NOT NULL DEFAULT 0,      -- 0: not yet
    span  INTEGER NOT NULL DEFAULT 0
) STRICT;

-- What a run's death left running, for the list of runs.
CREATE INDEX attempt_crash ON attempt (run) WHERE class = 'crash';
