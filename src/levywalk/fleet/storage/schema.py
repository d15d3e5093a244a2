"""The database of a node's disk: its tables, its settings, and the version of both."""

from __future__ import annotations

from levywalk.fleet.storage.codec import MEASURED, VISITS

SCHEMA = 3  # 1 had longer lines and no index of those that are not visits; 2 had no starts
OLDER = (1, 2)  # schemas that are read, and brought up to date when the node starts
APPLICATION = 0x6C77666C  # the application id of our databases
NOT_VISITS = "substr(value, 2, 1) NOT IN ({})".format(
    ", ".join(f"x'{number:02x}'" for number in VISITS)
)  # by the second byte of a line, as `codec` numbers them; the same words as in the index
MEASURES = f"substr(value, 2, 1) = x'{MEASURED:02x}'"  # metrics, the same words as in their index
SETTINGS: dict[str, tuple[object, object]] = {  # the wanted value, and how SQLite reports it
    "journal_mode": ("WAL", "wal"),
    "synchronous": ("FULL", 2),
    "fullfsync": ("ON", 1),
    "checkpoint_fullfsync": ("ON", 1),
    "locking_mode": ("NORMAL", "normal"),
    # Pages: the store empties the log earlier, while nobody waits for it (`NodeStore.tidy`).
    "wal_autocheckpoint": (1000, 1000),
    "foreign_keys": ("ON", 1),
    "trusted_schema": ("OFF", 0),
    "cell_size_check": ("ON", 1),
    "temp_store": ("MEMORY", 2),
}
TABLES = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE slots (name TEXT PRIMARY KEY, value BLOB NOT NULL, models BLOB NOT NULL, sum "
    "BLOB NOT NULL)",
    "CREATE TABLE lines (number INTEGER PRIMARY KEY, value BLOB NOT NULL, models BLOB NOT NULL, "
    "sum BLOB NOT NULL)",
    "CREATE INDEX lines_with_models ON lines (number) WHERE models <> x''",
)
INDEX = f"CREATE INDEX lines_not_visits ON lines (number) WHERE {NOT_VISITS}"
# Older stores get it when their node starts. Their schema stays: those who do not know it need not.
MEASURES_INDEX = f"CREATE INDEX IF NOT EXISTS lines_measured ON lines (number) WHERE {MEASURES}"
MARKS = "CREATE TABLE marks (number INTEGER PRIMARY KEY, time REAL NOT NULL)"
PUT_SLOT = (
    "INSERT INTO slots VALUES (?, ?, ?, ?) ON CONFLICT (name) "
    "DO UPDATE SET value = excluded.value, models = excluded.models, sum = excluded.sum"
)
ADD_LINE = "INSERT INTO lines VALUES (?, ?, ?, ?)"
