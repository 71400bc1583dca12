//! The tables of the store, and the numbers that identify their schema.

/// Schema that this version writes, stored as SQLite's user version.
pub const STORE_SCHEMA: i64 = 2;
/// "plmb", stored as SQLite's application ID.
pub(super) const APPLICATION_ID: i64 = 0x706c_6d62;

/// SQL that creates the tables.
pub(super) const TABLES: &str = "
    CREATE TABLE word(id INTEGER PRIMARY KEY, text BLOB NOT NULL UNIQUE);
    CREATE TABLE transfer(
        id INTEGER PRIMARY KEY, record_id BLOB NOT NULL UNIQUE, start_unix_ns INTEGER,
        host INTEGER NOT NULL, user INTEGER NOT NULL, role INTEGER NOT NULL,
        command INTEGER NOT NULL, representation INTEGER NOT NULL, byte_size INTEGER NOT NULL,
        outcome INTEGER NOT NULL, bits INTEGER, real_ns INTEGER, cpu_ns INTEGER,
        limited INTEGER NOT NULL);
    CREATE INDEX transfer_start ON transfer(start_unix_ns);
    CREATE TABLE detail(id INTEGER PRIMARY KEY, record BLOB NOT NULL);
    CREATE TABLE rollup(view INTEGER, key BLOB, tally BLOB NOT NULL, PRIMARY KEY(view, key))
        WITHOUT ROWID;
    CREATE TABLE segment(number INTEGER PRIMARY KEY, head BLOB NOT NULL, end INTEGER NOT NULL);";
