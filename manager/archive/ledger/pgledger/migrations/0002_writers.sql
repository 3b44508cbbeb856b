-- Several writers of one log. Each has a row while it may append, and appends under the lock of the head: who finds no row of its own there has
-- been shut out.
CREATE TABLE writers (
	part  smallint    NOT NULL,
	token text        NOT NULL,           -- random, of one start of a program
	at    timestamptz NOT NULL DEFAULT now(), -- when it was last heard of
	PRIMARY KEY (part, token)
) WITH (fillfactor = 50);

ALTER TABLE heads ADD COLUMN segments bigint NOT NULL DEFAULT 0; -- highest ID of a segment that was given to one of several writers
