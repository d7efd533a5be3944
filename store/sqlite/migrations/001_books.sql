-- Times are integer milliseconds since 1970 UTC. Keys, payloads and output are
-- BLOBs: bytes survive as they came. CHECKs carry the invariants, so that a
-- fault in the code is refused by the file and not found a year later.

-- One row: who this database is and the last ids it gave out. Ids are never
-- used again, also not after pruning, because a person may have written one down.
CREATE TABLE book (
    one        INTEGER PRIMARY KEY CHECK (one = 1),
    identity   TEXT    NOT NULL,           -- random; part of idempotency keys
    last_item  INTEGER NOT NULL DEFAULT 0,
    last_claim INTEGER NOT NULL DEFAULT 0  -- the fencing token's last value
) STRICT;

CREATE TABLE job (
    id     INTEGER PRIMARY KEY,
    name   TEXT    NOT NULL UNIQUE,
    served INTEGER NOT NULL DEFAULT 0,     -- its last claim: who was served longest ago comes first
    lane   TEXT    NOT NULL DEFAULT '',    -- where it was last worked; '' when never
    spec   TEXT    NOT NULL DEFAULT '',    -- JSON: how it was last worked, for show and rescue
    -- bounds of the priorities it has ever had: whether some items have none
    low    INTEGER,
    high   INTEGER,
    CHECK (low <= high)
) STRICT;

CREATE TABLE scope (
    id   INTEGER PRIMARY KEY,
    name TEXT    NOT NULL UNIQUE
) STRICT;

CREATE TABLE run (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    token     TEXT    NOT NULL UNIQUE,     -- random: names its lock file, marks its children
    pid       INTEGER NOT NULL,
    pid_start INTEGER NOT NULL,            -- clock ticks since boot
    boot      TEXT    NOT NULL,
    pid_ns    TEXT    NOT NULL,
    host      TEXT    NOT NULL,
    schema    INTEGER NOT NULL,
    command   TEXT    NOT NULL,            -- JSON array
    started   INTEGER NOT NULL,
    ended     INTEGER,
    outcome   TEXT    NOT NULL DEFAULT '',
    batches   INTEGER NOT NULL DEFAULT 0,
    peak      INTEGER NOT NULL DEFAULT 0,  -- bytes, of its largest child
    freed     INTEGER NOT NULL DEFAULT 0,  -- unstarted items taken back from it after its death
    orphans   INTEGER NOT NULL DEFAULT 0   -- started ones: what a person may want to look at again
) STRICT;
CREATE INDEX run_live ON run (id) WHERE ended IS NULL;

-- What a rescuer needs to know of a job as this run worked it.
CREATE TABLE policy (
    run  INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    job  INTEGER NOT NULL REFERENCES job (id),
    spec TEXT    NOT NULL,                 -- JSON
    PRIMARY KEY (run, job)
) STRICT, WITHOUT ROWID;

-- The lease belongs to the claim: renewing is one small update however many
-- items are held.
CREATE TABLE claim (
    id      INTEGER PRIMARY KEY,
    run     INTEGER NOT NULL REFERENCES run (id),
    lane    TEXT    NOT NULL,
    created INTEGER NOT NULL,
    until   INTEGER NOT NULL,
    lease   INTEGER NOT NULL CHECK (lease > 0),
    lapsed  INTEGER                        -- first look that found it run out
) STRICT;
CREATE INDEX claim_run ON claim (run);

CREATE TABLE item (
    id         INTEGER PRIMARY KEY,
    job        INTEGER NOT NULL REFERENCES job (id),
    scope      INTEGER NOT NULL REFERENCES scope (id),
    key        BLOB    NOT NULL CHECK (length(key) > 0),
    state      INTEGER NOT NULL CHECK (state BETWEEN 0 AND 6),
    priority   INTEGER NOT NULL DEFAULT 0,
    rank       INTEGER NOT NULL,           -- due - priority * 60000: the one order within a job
    due        INTEGER NOT NULL,
    created    INTEGER NOT NULL,
    generation INTEGER NOT NULL DEFAULT 1,
    attempt    INTEGER NOT NULL DEFAULT 0,
    failures   INTEGER NOT NULL DEFAULT 0,
    crashes    INTEGER NOT NULL DEFAULT 0,
    defers     INTEGER NOT NULL DEFAULT 0,
    claim      INTEGER REFERENCES claim (id),
    started    INTEGER,                    -- of the last attempt
    finished   INTEGER,                    -- when it was settled for good
    class      TEXT,                       -- of the last attempt that did not succeed
    reason     TEXT,
    -- BETWEEN, not IN: a list of three would be built anew for each row
    CHECK ((claim IS NOT NULL) = (state BETWEEN 2 AND 3)),
    CHECK ((finished IS NOT NULL) = (state BETWEEN 4 AND 6))
) STRICT;
-- A dropped item frees its key and stays in the books.
CREATE UNIQUE INDEX item_key ON item (job, scope, key) WHERE state <> 6;
-- One index a state that is searched, so that neither a million done rows nor
-- 200,000 future ones slow a claim, and what waits of other jobs neither. id stands before scope so that the index
-- yields (rank, id) in order; scope and priority so that neither --scope nor
-- the search for the oldest needs a look at the row.
CREATE INDEX item_ready ON item (job, rank, id, scope, priority) WHERE state = 0;
-- The order of rank is not that of age where priorities differ: the oldest of
-- those that have one. Most items have none and are not in it.
CREATE INDEX item_apart ON item (job, due) WHERE state = 0 AND priority <> 0;
CREATE INDEX item_delayed ON item (job, due, scope) WHERE state = 1;
CREATE INDEX item_held ON item (claim) WHERE claim IS NOT NULL;
CREATE INDEX item_dead ON item (finished) WHERE state = 5;

-- Apart from the item: an update of an item then never copies its payload.
CREATE TABLE payload (
    item INTEGER PRIMARY KEY REFERENCES item (id) ON DELETE CASCADE,
    body BLOB    NOT NULL
) STRICT;

-- What is in flight: one row an attempt (or a live stream process). Limits
-- are kept by counting these, never by the length of a queue. Lane and uses
-- are those at the start, whatever the config says later.
CREATE TABLE slot (
    id        INTEGER PRIMARY KEY,
    run       INTEGER NOT NULL REFERENCES run (id),
    item      INTEGER REFERENCES item (id),
    job       INTEGER NOT NULL REFERENCES job (id),
    lane      TEXT    NOT NULL,
    uses      TEXT    NOT NULL DEFAULT '', -- JSON object pool -> amount; '' none
    attempt   INTEGER NOT NULL,
    started   INTEGER NOT NULL,
    pid       INTEGER NOT NULL DEFAULT 0,  -- 0: not recorded yet
    pid_start INTEGER NOT NULL DEFAULT 0,
    orphan    INTEGER REFERENCES run (id)  -- the dead run that started it; NULL while its own run lives
) STRICT;

-- Attempts that did not succeed. A success leaves its times on the item.
CREATE TABLE attempt (
    item      INTEGER NOT NULL REFERENCES item (id) ON DELETE CASCADE,
    number    INTEGER NOT NULL,
    run       INTEGER NOT NULL,
    claim     INTEGER NOT NULL,
    class     TEXT    NOT NULL,
    exit_code INTEGER,
    signal    TEXT    NOT NULL DEFAULT '',
    http      INTEGER,
    reason    TEXT    NOT NULL,
    started   INTEGER NOT NULL,
    took      INTEGER NOT NULL,            -- microseconds
    head      BLOB,
    tail      BLOB,
    omitted   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (item, number)
) STRICT, WITHOUT ROWID;

-- The books, kept in the transactions that change items. The CHECK is the
-- promise that nothing is lost.
CREATE TABLE tally (
    job      INTEGER NOT NULL REFERENCES job (id),
    scope    INTEGER NOT NULL REFERENCES scope (id),
    enqueued INTEGER NOT NULL,
    ready    INTEGER NOT NULL CHECK (ready >= 0),
    delayed  INTEGER NOT NULL CHECK (delayed >= 0),
    claimed  INTEGER NOT NULL CHECK (claimed >= 0),
    running  INTEGER NOT NULL CHECK (running >= 0),
    done     INTEGER NOT NULL CHECK (done >= 0),
    dead     INTEGER NOT NULL CHECK (dead >= 0),
    dropped  INTEGER NOT NULL CHECK (dropped >= 0),
    pruned   INTEGER NOT NULL CHECK (pruned >= 0),
    PRIMARY KEY (job, scope),
    CHECK (enqueued = ready + delayed + claimed + running + done + dead + dropped + pruned)
) STRICT, WITHOUT ROWID;

-- What happened, by job, lane and UTC day (days since 1970).
CREATE TABLE daily (
    job        INTEGER NOT NULL REFERENCES job (id),
    lane       TEXT    NOT NULL,
    day        INTEGER NOT NULL,
    done       INTEGER NOT NULL DEFAULT 0,
    retries    INTEGER NOT NULL DEFAULT 0,
    timeouts   INTEGER NOT NULL DEFAULT 0,
    dead       INTEGER NOT NULL DEFAULT 0,
    crashes    INTEGER NOT NULL DEFAULT 0, -- started items taken back from a dead run
    lapses     INTEGER NOT NULL DEFAULT 0, -- likewise, from one whose lease had lapsed
    stale      INTEGER NOT NULL DEFAULT 0, -- results refused
    duplicates INTEGER NOT NULL DEFAULT 0,
    conflicts  INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (job, lane, day)
) STRICT, WITHOUT ROWID;

-- How long attempts took that succeeded: bucket b counts those of about
-- 1.08^b microseconds, so that a percentile is within 4% of exact.
CREATE TABLE latency (
    job    INTEGER NOT NULL REFERENCES job (id),
    lane   TEXT    NOT NULL,
    day    INTEGER NOT NULL,
    bucket INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    PRIMARY KEY (job, lane, day, bucket)
) STRICT, WITHOUT ROWID;
