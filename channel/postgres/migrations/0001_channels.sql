-- Channels and what belongs to them. Names are compared by their bytes (COLLATE "C"), so that every server orders them alike.

CREATE TABLE tenure (                 -- one row: who owns the channels
  one    smallint PRIMARY KEY CHECK (one = 1),
  epoch  bigint   NOT NULL,
  network bytea,                      -- root public key; NULL: no network opened the database yet
  found  bigint   NOT NULL DEFAULT 0  -- number of candidates
);
INSERT INTO tenure (one, epoch) VALUES (1, 0);

CREATE TABLE writers (                -- one row a connection that writes: the number of its last committed write
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  n  bigint NOT NULL,
  at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

CREATE SEQUENCE channel_ids;

CREATE TABLE channels (
  id    bigint  PRIMARY KEY,
  scope bytea   NOT NULL UNIQUE,      -- SHA-256 of Scope.Key
  host  text    COLLATE "C" NOT NULL, -- name and port
  tls   boolean NOT NULL,             -- whether the host's scheme is https
  dir   text    COLLATE "C" NOT NULL, -- "/" for a whole host; of a set the first directory
  many  boolean NOT NULL,             -- whether the channel is a set of directories
  body  bytea   NOT NULL              -- scope, seeds, settings: channelpb.Channel
);
CREATE UNIQUE INDEX channels_by_host ON channels (host, tls, dir, many, id);

CREATE TABLE set_dirs (               -- the directories of sets
  host text    COLLATE "C" NOT NULL,
  tls  boolean NOT NULL,
  dir  text    COLLATE "C" NOT NULL,
  id   bigint  NOT NULL,
  PRIMARY KEY (host, tls, dir, id)
);
CREATE INDEX set_dirs_by_id ON set_dirs (id);

CREATE TABLE hot (                    -- what a manager reads of every channel when it starts
  id        bigint   PRIMARY KEY,
  host_key  bigint   NOT NULL,
  state     smallint NOT NULL,
  weight    real     NOT NULL,
  grp       smallint NOT NULL,
  links     integer  NOT NULL,
  gen       bigint   NOT NULL DEFAULT 0,
  submitted bigint   NOT NULL DEFAULT 0, -- microseconds since 1970, 0: never
  lease     bytea,
  facts     bytea
) WITH (fillfactor = 70);

CREATE TABLE learnt (
  id     bigint PRIMARY KEY,
  reason text   NOT NULL,
  body   bytea  NOT NULL              -- channelpb.Learnt
) WITH (fillfactor = 70);

CREATE TABLE pending (                -- inter-site URLs that wait for the next crawl
  id    bigint   PRIMARY KEY,
  found bigint[] NOT NULL,            -- microseconds since 1970
  urls  text[]   NOT NULL
);

CREATE TABLE hosts (
  name        text   COLLATE "C" PRIMARY KEY,
  next_visit  bigint NOT NULL,        -- microseconds since 1970, 0: none
  crawl_delay bigint NOT NULL,        -- microseconds
  blocked     text   NOT NULL,
  place       bytea                   -- where it is: channelpb.Host with Record alone; NULL: not known
) WITH (fillfactor = 70);

CREATE TABLE candidates (
  host  text    COLLATE "C" PRIMARY KEY,
  links integer NOT NULL,
  first bigint  NOT NULL,
  last  bigint  NOT NULL,
  source bigint NOT NULL,             -- the channel whose crawl found it first
  seeds text[]  NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE cursors  (feed text COLLATE "C" PRIMARY KEY, at text   NOT NULL) WITH (fillfactor = 50);
CREATE TABLE counters (name text COLLATE "C" PRIMARY KEY, n  bigint NOT NULL) WITH (fillfactor = 50);
CREATE TABLE states   (name text COLLATE "C" PRIMARY KEY, body bytea NOT NULL);
