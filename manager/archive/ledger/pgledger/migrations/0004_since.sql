-- Who shuts silent writers out must have been heard of all the while itself: else the server was away, and they may be about to come back.
ALTER TABLE writers ADD COLUMN since timestamptz NOT NULL DEFAULT now(); -- since when the writer has been heard of without a gap
ALTER TABLE writers ADD COLUMN first bigint NOT NULL DEFAULT 0;          -- it writes to no segment with an ID up to this one
