-- For how long a host is left alone, so that next_visit is not believed where it was said by a clock that was ahead.
ALTER TABLE hosts ADD COLUMN rest bigint NOT NULL DEFAULT 0; -- microseconds from when next_visit was said, 0: not known
