package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	lib "modernc.org/sqlite/lib"

	"batchq/store"
)

// object is something of a schema: a table, an index, a trigger or a view.
type object struct {
	kind, name, table string
	sql               string // as it was written
}

func (o object) String() string {
	if o.kind == "index" || o.kind == "trigger" {
		return fmt.Sprintf("the %s %s of %s", o.kind, o.name, o.table)
	}
	return "the " + o.kind + " " + o.name
}

// same says whether two objects mean the same: remarks and white space are not
// what counts.
func (o object) same(other object) bool {
	return o.kind == other.kind && bare(o.sql) == bare(other.sql)
}

// harmful says whether an object that is not ours gets into the way of ours.
func (o object) harmful() bool {
	return o.kind == "trigger" || o.kind == "index" && strings.HasPrefix(strings.ToUpper(bare(o.sql)), "CREATE UNIQUE")
}

// bare is a statement without remarks, with single blanks, and without the
// quotes that the engine gives to a name when it was changed.
func bare(sql string) string {
	var words []string
	for line := range strings.Lines(sql) {
		line, _, _ = strings.Cut(line, "--") // none of ours has two dashes in a text
		words = append(words, strings.Fields(line)...)
	}
	text := strings.ReplaceAll(strings.Join(words, " "), `"`, "")
	for _, mark := range []string{"(", ")", ","} {
		text = strings.ReplaceAll(strings.ReplaceAll(text, " "+mark, mark), mark+" ", mark)
	}
	return text
}

// objects reads a schema, by name. What the engine makes for itself (the
// indexes of keys, statistics) can't be changed by hand and is not in it.
const objects = `SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`

type schema map[string]object

func readSchema(rows func(query string, args []any, each func(scan func(...any) error) error) error) (schema, error) {
	all := schema{}
	err := rows(objects, nil, func(scan func(...any) error) error {
		var o object
		err := scan(&o.kind, &o.name, &o.table, &o.sql)
		all[o.name] = o
		return err
	})
	return all, err
}

// versions are the schemas that the migrations make, by their number; that of 0
// is empty.
var versions = sync.OnceValues(func() (all []schema, err error) {
	pool, err := sql.Open("sqlite", "file::memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	pool.SetMaxOpenConns(1) // each connection has a memory of its own
	all = []schema{{}}
	for _, m := range migrations() {
		if _, err := pool.ExecContext(context.Background(), m.sql); err != nil {
			return nil, err
		}
		made, err := readSchema(func(query string, args []any, each func(scan func(...any) error) error) error {
			r, err := pool.QueryContext(context.Background(), query, args...)
			if err != nil {
				return err
			}
			return drain(r, each)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, made)
	}
	return all, nil
})

// difference is one thing in which a file's schema is not that of its version.
type difference struct {
	want *object // nil: it is nothing of ours
	have *object // nil: it is missing
}

func (d difference) String() string {
	switch {
	case d.have == nil:
		return d.want.String() + " is missing"
	case d.want == nil:
		return d.have.String() + " is none of batchq's"
	}
	return d.want.String() + " is not as batchq makes it"
}

func (have schema) differences(want schema) (all []difference) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w := want[name]
		h, there := have[name]
		switch {
		case !there:
			all = append(all, difference{want: &w})
		case !w.same(h):
			all = append(all, difference{want: &w, have: &h})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, ours := want[name]; !ours {
			h := have[name]
			all = append(all, difference{have: &h})
		}
	}
	return all
}

// version is the highest one of which a table is there that is new or changed in
// it: what the file must have been brought to, whatever it says.
func (have schema) version(all []schema) int {
	for v := len(all) - 1; v > 0; v-- {
		for name, o := range all[v] {
			before, known := all[v-1][name]
			if o.kind == "table" && (!known || !before.same(o)) && have[name].same(o) {
				return v
			}
		}
	}
	return 0
}

// shape compares the file's schema with the one that its number promises.
func (s *snapshot) shape(h *store.Health) error {
	known, err := versions()
	if err != nil {
		return err
	}
	have, err := readSchema(s.rows)
	if err != nil {
		return err
	}
	version := have.version(known)
	if version > s.schema {
		h.Faults = append(h.Faults, fmt.Sprintf("the file says that its schema is %d, and its tables are those of %d: nothing can be changed in it", s.schema, version))
	}
	// What is looked at next is what is there.
	s.schema = max(s.schema, version)
	h.Schema = s.schema
	for _, d := range have.differences(known[s.schema]) {
		if d.want == nil && !d.have.harmful() {
			h.Notes = append(h.Notes, d.String())
			continue
		}
		h.Faults = append(h.Faults, d.String())
	}
	return nil
}

// RepairSchema mends what of the schema holds no data: its number, and indexes
// and triggers that are missing or changed. A database must be opened for it
// without Migrate, which needs the number.
func (db *DB) RepairSchema(ctx context.Context) (mended []string, err error) {
	known, err := versions()
	if err != nil {
		return nil, err
	}
	var said int
	look := func(rows func(string, []any, func(func(...any) error) error) error) (version int, all []difference, err error) {
		have, err := readSchema(rows)
		version = max(have.version(known), said)
		return version, have.differences(known[version]), err
	}
	var version int
	var wrong []difference
	err = db.read(ctx, "repair", func(s *snapshot) (err error) {
		said = s.schema
		version, wrong, err = look(s.rows)
		return err
	})
	if err != nil || version == 0 {
		return nil, err
	}
	tables := slices.ContainsFunc(wrong, func(d difference) bool { return d.want != nil && d.want.kind == "table" })
	if said < version && !tables {
		err := db.write(ctx, "repair", synced, func(t *tx) error {
			now, wrong, err := look(t.rows)
			if err != nil || now != version || slices.ContainsFunc(wrong, func(d difference) bool { return d.want != nil && d.want.kind == "table" }) {
				return err
			}
			return t.exec(fmt.Sprintf("PRAGMA user_version = %d", version))
		})
		if err != nil {
			return nil, err
		}
		mended = append(mended, fmt.Sprintf("the number of the schema is %d again", version))
	}
	for _, d := range wrong {
		if d.want == nil || d.want.kind != "index" && d.want.kind != "trigger" {
			continue
		}
		done, refused := false, error(nil)
		err := db.write(ctx, "repair", synced, func(t *tx) error {
			_, now, err := look(t.rows)
			if err != nil || !slices.ContainsFunc(now, func(n difference) bool { return n.String() == d.String() }) {
				return err // somebody else was faster
			}
			if d.have != nil {
				if err := t.exec("DROP " + d.have.kind + " " + quoted(d.have.name)); err != nil {
					return err
				}
			}
			refused = t.exec(d.want.sql)
			done = refused == nil
			return refused
		})
		switch {
		case code(refused) == lib.SQLITE_CONSTRAINT: // two items of one key: nobody can say which is to go
		case err != nil:
			return mended, err
		case done:
			mended = append(mended, d.want.String()+" made anew")
		}
	}
	return mended, nil
}

// quoted is a name for a statement.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
