-- When next_visit was said, so that it is not believed where that was by a clock that was ahead.
ALTER TABLE hosts ADD COLUMN said bigint NOT NULL DEFAULT 0; -- microseconds since 1970, 0: not known
