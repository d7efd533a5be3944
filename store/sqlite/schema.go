package sqlite

// Schema is the number of the schema that this engine writes.
func Schema() int { return schemaVersion }
