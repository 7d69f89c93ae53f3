//! Tables of a run's database. `docs/tune.md` and `docs/evolve.md` describe them for those who read them by other means.
//!
//! Version 1 had no search over source. A run of it is read as it is, and gets what is new when somebody works on it.

/// Says that a database is a run's: `R3ev`.
pub(super) const APPLICATION: i32 = 0x5233_6576;

/// Version of the tables that this R3 writes.
pub(super) const VERSION: i32 = 2;

/// The oldest version that it reads.
pub(super) const OLDEST: i32 = 1;

pub(super) const TABLES: &str = "
CREATE TABLE run (
    key TEXT PRIMARY KEY NOT NULL,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE candidates (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    candidate TEXT NOT NULL,
    point TEXT
) STRICT;

CREATE TABLE parents (
    child INTEGER NOT NULL REFERENCES candidates (number),
    parent INTEGER NOT NULL REFERENCES candidates (number),
    role TEXT NOT NULL,
    PRIMARY KEY (child, parent, role)
) STRICT, WITHOUT ROWID;

CREATE TABLE evaluations (
    evaluation INTEGER PRIMARY KEY,
    candidate INTEGER NOT NULL REFERENCES candidates (number),
    phase TEXT NOT NULL,
    round INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    reason TEXT NOT NULL,
    point TEXT,
    plan TEXT NOT NULL,
    same_as INTEGER REFERENCES evaluations (evaluation),
    state TEXT NOT NULL,
    asked_at REAL NOT NULL,
    done_at REAL,
    told INTEGER UNIQUE,
    verdict TEXT,
    ratio REAL,
    low REAL,
    high REAL,
    image TEXT,
    outcome TEXT
) STRICT;

CREATE INDEX evaluations_by_candidate ON evaluations (candidate);

CREATE TABLE samples (
    evaluation INTEGER NOT NULL REFERENCES evaluations (evaluation),
    launch INTEGER NOT NULL,
    role TEXT NOT NULL,
    regime TEXT NOT NULL,
    place INTEGER NOT NULL,
    original REAL NOT NULL,
    candidate REAL NOT NULL,
    candidate_first INTEGER NOT NULL,
    sm_clock_mhz INTEGER,
    PRIMARY KEY (evaluation, launch, role, regime, place)
) STRICT, WITHOUT ROWID;

CREATE TABLE events (
    event INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    kind TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT;
";

/// What version 2 has on top of version 1. A new run has these, too.
pub(super) const SINCE_1: &str = "
ALTER TABLE candidates ADD COLUMN variant INTEGER;
ALTER TABLE evaluations ADD COLUMN slot INTEGER;
ALTER TABLE evaluations ADD COLUMN step INTEGER;

CREATE TABLE slots (
    slot INTEGER PRIMARY KEY,
    island INTEGER NOT NULL,
    after INTEGER NOT NULL,
    models INTEGER NOT NULL,
    opening TEXT NOT NULL,
    opened_at REAL NOT NULL,
    told INTEGER UNIQUE,
    told_at REAL,
    closing TEXT
) STRICT;

CREATE TABLE requests (
    slot INTEGER NOT NULL REFERENCES slots (slot),
    turn INTEGER NOT NULL,
    model TEXT NOT NULL,
    messages TEXT NOT NULL,
    shared INTEGER NOT NULL,
    asked_at REAL NOT NULL,
    done_at REAL,
    answer TEXT,
    PRIMARY KEY (slot, turn)
) STRICT, WITHOUT ROWID;

CREATE TABLE variants (
    variant INTEGER PRIMARY KEY,
    slot INTEGER NOT NULL REFERENCES slots (slot),
    turn INTEGER NOT NULL,
    text TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    launch TEXT NOT NULL,
    lineage TEXT NOT NULL,
    made_at REAL NOT NULL,
    embedding TEXT,
    UNIQUE (slot, turn)
) STRICT;

CREATE UNIQUE INDEX evaluations_by_slot ON evaluations (slot, step);
CREATE INDEX candidates_by_variant ON candidates (variant);
";
