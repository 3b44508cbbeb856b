-- Several managers on one database. A write of a manager locks its tenancy for share; that row changes only when it ends. What changes often is apart.

CREATE TABLE tenancies (              -- one row a start of a manager
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  ended  boolean NOT NULL DEFAULT false, -- for good
  node   text    NOT NULL,
  writer text    NOT NULL,
  gave   bigint  NOT NULL DEFAULT 0, -- how often it gave partitions up
  at     timestamptz NOT NULL DEFAULT now() -- of its beginning, or its end
);

CREATE TABLE beats (                  -- of tenancies that have not ended
  id      bigint PRIMARY KEY,
  until   timestamptz NOT NULL,       -- when others may end it
  leaving boolean NOT NULL DEFAULT false,
  about   bytea NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE partitions (
  part   smallint PRIMARY KEY,
  owner  bigint   NOT NULL DEFAULT 0, -- tenancy; 0: none
  epoch  bigint   NOT NULL DEFAULT 0, -- number of its owners so far
  cursor text     NOT NULL,           -- up to where its last owner has taken in the feed, unless joined
  joined boolean  NOT NULL DEFAULT false -- it goes with its owner's own cursor
) WITH (fillfactor = 50);

CREATE INDEX hot_by_part ON hot (((host_key >> 56) & 255), id);

CREATE TABLE notes (                  -- what managers tell each other
  n       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenancy bigint NOT NULL,
  at      timestamptz NOT NULL DEFAULT now(),
  what    text   NOT NULL,
  body    bytea  NOT NULL
);
