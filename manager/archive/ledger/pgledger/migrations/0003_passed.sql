-- Work that drops records waits until each writer has read that it does, and has stored what it was making before.
ALTER TABLE writers ADD COLUMN passed bytea; -- which wait the writer has answered last
