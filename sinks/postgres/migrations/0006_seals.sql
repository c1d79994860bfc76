ALTER TABLE traces ADD COLUMN seal text; -- of the row in the gateway's store, which the gateway verifies
