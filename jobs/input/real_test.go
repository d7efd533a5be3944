package input_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"batchq/jobs/input"
)

// realData is where the sample files lie when the checkout has them beside it.
const realData = "../../../shared/data"

// Facts that are known of real files have to come out. The orders are not
// well-formed CSV: 176 of the 830 have an address with a comma and no quotes
// around it, and no reader can know which comma is one too many.
func TestReader_RealData(t *testing.T) {
	for _, c := range []struct {
		name, file string
		key        []string
		rows, keys int
		commas     int // keys that hold one
		rejected   int
	}{
		{"Cities", "world-cities.csv", []string{"geonameid"}, 34032, 34032, 0, 0},
		{"CitiesByName", "world-cities.csv", []string{"name"}, 34032, 32173, 3, 0},
		{"Orders", "northwind-orders.csv", []string{"orderID"}, 654, 654, 0, 176},
		{"OrderDetails", "northwind-order-details.csv", []string{"orderID", "productID"}, 2155, 2155, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := openReal(t, c.file)
			r, err := input.NewReader(f, input.Options{Format: input.FormatOf(c.file), Key: c.key, Name: c.file})
			if err != nil {
				t.Fatal(err)
			}
			rows, commas, rejected, keys := 0, 0, 0, map[string]bool{}
			for {
				rec, err := r.Next()
				if err == io.EOF {
					break
				}
				if bad, ok := errors.AsType[*input.Rejected](err); ok {
					rejected++
					if !strings.HasPrefix(bad.Reason, "got 15 fields, want 14") {
						t.Fatal(bad)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				rows++
				keys[string(rec.Key)] = true
				if bytes.IndexByte(rec.Key, ',') >= 0 {
					commas++
				}
				var row map[string]string
				if err := json.Unmarshal(rec.Payload, &row); err != nil {
					t.Fatalf("line %d: %v", rec.Line, err)
				}
				if want := expectedKey(c.key, row); want != string(rec.Key) {
					t.Fatalf("line %d: key %q, want %q", rec.Line, rec.Key, want)
				}
			}
			got, want := [4]int{rows, len(keys), commas, rejected}, [4]int{c.rows, c.keys, c.commas, c.rejected}
			if got != want {
				t.Errorf("rows, keys, keys with a comma, rejected: got %v, want %v", got, want)
			}
		})
	}
}

func openReal(t *testing.T, name string) *os.File {
	t.Helper()
	path := filepath.Join(realData, name)
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		t.Skipf("no %s: the sample files are not part of the repository", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
