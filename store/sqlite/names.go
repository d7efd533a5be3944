package sqlite

import (
	"encoding/json"
	"fmt"
)

// jobID returns the id of the job called name, making a row where there is none.
func (t *tx) jobID(name string) (int64, error) {
	return t.nameID(t.db.jobs, &t.newly.jobs, name,
		"SELECT id FROM job WHERE name = ?", "INSERT INTO job (name) VALUES (?) RETURNING id")
}

// scopeID returns the id of the scope called name, making a row where there is none.
func (t *tx) scopeID(name string) (int64, error) {
	return t.nameID(t.db.scopes, &t.newly.scopes, name,
		"SELECT id FROM scope WHERE name = ?", "INSERT INTO scope (name) VALUES (?) RETURNING id")
}

func (t *tx) nameID(known names, newly *names, name, find, add string) (int64, error) {
	if id, ok := known[name]; ok {
		return id, nil
	}
	if id, ok := (*newly)[name]; ok {
		return id, nil
	}
	var id int64
	none, err := missing(t.row(find, []any{name}, &id))
	if err != nil {
		return 0, err
	}
	if none {
		if err := t.row(add, []any{name}, &id); err != nil {
			return 0, fmt.Errorf("name %q: %w", name, err)
		}
	}
	if *newly == nil {
		*newly = names{}
	}
	(*newly)[name] = id
	return id, nil
}

// scopeFilter is a scope's id as a bound value: nil for every scope, and 0,
// which no row has, for a scope that nobody has used yet.
func (t *tx) scopeFilter(scope *string) (any, error) {
	if scope == nil {
		return nil, nil
	}
	var id int64
	none, err := missing(t.row("SELECT id FROM scope WHERE name = ?", []any{*scope}, &id))
	if err != nil {
		return nil, err
	}
	if none {
		return int64(0), nil
	}
	return id, nil
}

// idList binds ids as one JSON array, for IN (SELECT value FROM json_each(?)):
// one statement for any number of them, and no limit on variables.
func idList(ids []int64) string {
	b, err := json.Marshal(ids)
	if err != nil {
		panic(err) // numbers always marshal
	}
	return string(b)
}

// nameList is the same for names.
func nameList(names []string) string {
	b, err := json.Marshal(names)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(b)
}
