package cmd

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// realData is where input lies that is too large for the repository.
const realData = "../../shared/data"

// realFile is the absolute path of a file of real data; the test is skipped
// where there is none.
func realFile(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(realData, name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Skipf("no real data here: %v", err)
	}
	return path
}

// settleOrder sums one order's lines to four decimals and appends one statement.
const settleOrder = logged + `say start
amount=$(awk -F, -v order="$key" '$1 == order { sum += $3 * $4 * (1 - $5) } END { printf "%.4f", sum }' "$DETAILS")
echo "$key $amount" >>statements
say end
`

// All 830 Northwind orders are settled though the worker is killed at least
// 20 times at random moments and started again with the same command line:
// 830 distinct statements that add up to the cent, at most as many repetitions
// as were in flight at the kills, none beside itself, and nothing again that
// was recorded as done.
func TestCrash_Northwind(t *testing.T) {
	t.Parallel()
	orders, details := realFile(t, "northwind-orders.csv"), realFile(t, "northwind-order-details.csv")
	s := setup(t)
	s.write("settle.sh", settleOrder)
	ids := firstColumn(t, orders)
	if len(ids) != 830 {
		t.Fatalf("%d orders", len(ids))
	}
	s.enqueue("settlement", ids, "--scope", "1998")

	const width = 4
	wantKills := 20
	if testing.Short() {
		wantKills = 6
	}
	line := []string{"work", "settlement", "--scope", "1998", "--lane", "parallel", "-j", strconv.Itoa(width), "--", "./settle.sh", "{}"}
	kills := 0
	var before []finished
	for {
		c := s.command(line...)
		c.Env = append(c.Env, "DETAILS="+details)
		p := s.start(c)
		// On average half as many lines are logged before a kill: all kills
		// come before the end.
		if kills == wantKills+5 || s.killAtRandom(p, len(s.lines("log")), 2*len(ids)/(wantKills+5)) {
			s.expect(p.wait(), 0, line...)
			break
		}
		kills++
		before = append(before, s.settledBefore())
	}
	if kills < wantKills {
		t.Errorf("only %d kills", kills)
	}

	events := s.log()
	s.notBeside(events)
	s.notAgain(events, before)
	starts := 0
	for _, n := range runs(events, "start") {
		starts += n
	}
	t.Logf("%d kills, %d repetitions", kills, starts-len(ids))
	if starts-len(ids) > kills*width {
		t.Errorf("%d repetitions after %d kills of %d in flight", starts-len(ids), kills, width)
	}
	statements, total := s.statements()
	if statements != len(ids) || math.Round(total*100) != 126579304 {
		t.Errorf("%d statements of %.4f together; want %d of 1265793.04", statements, total, len(ids))
	}
	s.wantTotals(map[string]int{"done": len(ids)})
	s.tidy()
}

// killAtRandom kills a run at a random moment: some right away, most after a
// random number of new lines in the log and a random moment more. It says
// whether the run has ended by itself before.
func (s *site) killAtRandom(p *started, lines, most int) (ended bool) {
	s.Helper()
	moment := time.Duration(s.rand.Int64N(int64(20 * time.Millisecond)))
	if s.rand.IntN(5) > 0 {
		want := lines + s.rand.IntN(most) // two an item
		s.until("something is logged", func() bool { return p.ended() || len(s.lines("log")) >= want })
	}
	time.Sleep(moment)
	if p.ended() {
		return true
	}
	p.kill()
	return false
}

// statements are the different statements and their sum. Two statements of one
// order must say the same.
func (s *site) statements() (n int, total float64) {
	s.Helper()
	amounts := map[string]float64{}
	for _, line := range s.lines("statements") {
		var order string
		var amount float64
		if _, err := fmt.Sscan(line, &order, &amount); err != nil {
			s.Fatalf("statement %q: %v", line, err)
		}
		if old, again := amounts[order]; again && old != amount {
			s.Errorf("order %s: %v and %v", order, old, amount)
		}
		amounts[order] = amount
	}
	for _, amount := range amounts {
		total += amount
	}
	return len(amounts), total
}

func firstColumn(t *testing.T, path string) (column []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		first, _, _ := strings.Cut(line, ",")
		column = append(column, first)
	}
	return column[1:]
}

// As csv, 176 rows of the orders have a comma too many and are rejected by
// line; the rest goes in.
func TestNorthwind_CSV(t *testing.T) {
	t.Parallel()
	s := setup(t)
	r := s.want(3, "enqueue", "orders", realFile(t, "northwind-orders.csv"), "--key", "orderID")
	if r.stdout != "added 654, duplicate 0, conflict 0, dead 0, rejected 176\n" {
		t.Error(r)
	}
	if !strings.Contains(r.stderr, "batchq: and 166 more rejected\n") {
		t.Error(r)
	}
	s.wantTotals(map[string]int{"ready": 654})
	s.tidy()
}

// 34,032 cities by their id: all added, and all duplicates the second time.
func TestWorldCities(t *testing.T) {
	t.Parallel()
	s := setup(t)
	path := realFile(t, "world-cities.csv")
	r := s.want(0, "enqueue", "cities", path, "--key", "geonameid")
	if r.stdout != "added 34032, duplicate 0, conflict 0, dead 0, rejected 0\n" {
		t.Error(r)
	}
	r = s.want(0, "enqueue", "cities", path, "--key", "geonameid")
	if r.stdout != "added 0, duplicate 34032, conflict 0, dead 0, rejected 0\n" {
		t.Error(r)
	}
	// By name 32,173 are distinct; the others are other cities of the same
	// name, so their payload differs.
	r = s.want(3, "enqueue", "names", path, "--key", "name")
	if r.stdout != "added 32173, duplicate 0, conflict 1859, dead 0, rejected 0\n" {
		t.Error(r)
	}
	s.wantTotals(map[string]int{"ready": 34032 + 32173})
	s.tidy()
}
