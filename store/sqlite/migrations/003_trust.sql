-- Which file a run had open ("device:inode"): what a copy of the database says
-- of the runs of another file must touch nothing that belongs to them.
ALTER TABLE run ADD COLUMN file TEXT NOT NULL DEFAULT '';    -- '' is unknown: taken for this one
-- Where its children began, for those of which nothing else is known any more.
ALTER TABLE run ADD COLUMN session INTEGER NOT NULL DEFAULT -1; -- session id; -1 is unknown

-- The last item that retention by keep_done has looked at.
ALTER TABLE book ADD COLUMN swept INTEGER NOT NULL DEFAULT 0;
