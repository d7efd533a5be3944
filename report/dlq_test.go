package report

import (
	"bytes"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// In how many pieces the list comes makes no difference to the document.
func TestDeadLettersJSON_Pieces(t *testing.T) {
	var rows []store.ItemRow
	items := []DeadLetter{}
	for id := range int64(5) {
		rows = append(rows, store.ItemRow{Item: jobs.Item{ID: id, Job: "j", Key: []byte("\xff\n<")}, Reason: "\u202e", Finished: time.Unix(id, 0)})
		items = append(items, deadLetter(&rows[id]))
	}
	for _, sizes := range [][]int{{0}, {5}, {1, 4}, {2, 0, 3}, {1, 1, 1, 1, 1}, {}} {
		var got, want bytes.Buffer
		var d DeadLettersJSON
		n := 0
		for _, size := range sizes {
			if err := d.Items(&got, rows[n:n+size]); err != nil {
				t.Fatal(err)
			}
			n += size
		}
		if err := d.End(&got, 7); err != nil {
			t.Fatal(err)
		}
		err := WriteJSON(&want, struct {
			SchemaVersion int          `json:"schema_version"`
			Items         []DeadLetter `json:"items"`
			More          int          `json:"more"`
		}{SchemaVersion, items[:n], 7})
		if err != nil || got.String() != want.String() {
			t.Errorf("pieces of %v: %v\n%s\nwant\n%s", sizes, err, got.String(), want.String())
		}
	}
}
