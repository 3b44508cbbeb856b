-- Who ends the tenancies of others must have renewed its own all the while: else the server was away, and they may be about to come back.
ALTER TABLE beats ADD COLUMN since timestamptz NOT NULL DEFAULT now(); -- since when the tenancy has been renewed without a gap
