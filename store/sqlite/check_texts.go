package sqlite

import (
	"fmt"

	"batchq/store"
)

// textsShown is how many texts of one column are named.
const textsShown = 10

// texts looks at the columns that hold JSON, which is all that no CHECK sees.
func (s *snapshot) texts(h *store.Health) error {
	for _, c := range []struct {
		table, row, column, kind string
		optional                 bool // '' is none
		since                    int  // the schema that has the table
	}{
		{"job", "'job ' || name", "spec", "object", true, 1},
		{"policy", "'run ' || run || ', job ' || job", "spec", "object", false, 1},
		{"slot", "'slot ' || id || ', item ' || coalesce(item, 'none')", "uses", "object", true, 1},
		{"run", "'run ' || id", "command", "array", false, 1},
		{"squeeze", "'job ' || job", "uses", "object", true, 2},
	} {
		if s.schema < c.since {
			continue
		}
		wrong := fmt.Sprintf("CASE WHEN json_valid(%[1]s) THEN json_type(%[1]s) NOT IN ('%[2]s', 'null') ELSE 1 END", c.column, c.kind)
		if c.optional {
			wrong = c.column + " <> '' AND " + wrong
		}
		n := 0
		err := s.rows(fmt.Sprintf("SELECT %s FROM %s WHERE %s LIMIT ?", c.row, c.table, wrong), []any{textsShown + 1}, func(scan func(...any) error) error {
			var row string
			if err := scan(&row); err != nil {
				return err
			}
			if n++; n > textsShown {
				h.Faults = append(h.Faults, fmt.Sprintf("and more of %s.%s", c.table, c.column))
				return nil
			}
			h.Faults = append(h.Faults, fmt.Sprintf("%s.%s is no JSON %s: %s", c.table, c.column, c.kind, row))
			return nil
		})
		if err := unread(h, "the texts of "+c.table, err); err != nil {
			return err
		}
	}
	return nil
}
