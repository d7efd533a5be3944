package report

// Initialized is what init has made: the document of `init --json`.
type Initialized struct {
	SchemaVersion   int    `json:"schema_version"`
	Config          string `json:"config"` // as it was named
	Database        string `json:"database"`
	DatabaseSource  string `json:"database_source"`  // who named it
	DatabaseCreated bool   `json:"database_created"` // false: it was there already
}

// NewInitialized tells of a configuration that was written, and the database
// that it leads to.
func NewInitialized(path, database, source string, created bool) Initialized {
	return Initialized{SchemaVersion: SchemaVersion, Config: escapeInvalid(path), Database: escapeInvalid(database),
		DatabaseSource: escapeInvalid(source), DatabaseCreated: created}
}

// Lines are what a person reads of it.
func (i Initialized) Lines() []string {
	database := "made the database " + i.Database
	if !i.DatabaseCreated {
		database = "the database is there already: " + i.Database
	}
	return []string{"wrote " + i.Config + " (mode 0600)", database}
}
