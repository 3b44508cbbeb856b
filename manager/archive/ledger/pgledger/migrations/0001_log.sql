-- The archive's ledger: a log of its writes, and the heads of the logs.
--
-- A log has one writer at a time, and rests on one thing: its head moves by compare-and-swap of epoch and seq. part is for archives that are split
-- by host; there is one, 0.
CREATE TABLE heads (
	part       smallint PRIMARY KEY,
	archive    bytea    NOT NULL,           -- its ID, 8 bytes
	first      bigint   NOT NULL,           -- number of the first entry of its feeds
	network    bytea,                       -- root public key; null: not claimed
	epoch      bigint   NOT NULL DEFAULT 0, -- of the present writer
	seq        bigint   NOT NULL DEFAULT 0, -- of the last entry
	key        bytea    NOT NULL,           -- of that entry, random, 16 bytes
	base       bigint   NOT NULL DEFAULT 0, -- entries up to this one are in the snapshot, and may be gone from the log
	snapshot   text     NOT NULL DEFAULT '',-- object that holds all records as they were at base; empty: there were none
	size       bigint   NOT NULL DEFAULT 0, -- bytes of the snapshot
	grown      bigint   NOT NULL DEFAULT 0, -- bytes of the entries behind base
	looked     timestamptz
) WITH (fillfactor = 50);

CREATE TABLE log (
	part smallint NOT NULL,
	seq  bigint   NOT NULL,
	key  bytea    NOT NULL,
	body bytea    NOT NULL, -- zstd of the writes
	PRIMARY KEY (part, seq)
);
ALTER TABLE log ALTER COLUMN body SET STORAGE EXTERNAL; -- it is packed already
