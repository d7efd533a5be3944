package config

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"batchq/jobs"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// kind is a type of value: its name in documents, and how a node of it is read
// into its place. What is no such value is a fault of r.
type kind struct {
	name string
	read func(r *reading, t *target, n *node)
}

// maxCount bounds counts, so that no product of two can overflow; far above
// what one machine could hold.
const maxCount = 1_000_000

// scalar makes a kind of what one function can tell from a node: the value, or
// the reason why it is none.
func scalar[T any](name string, field func(*target) *T, parse func(*node) (v T, reason string)) kind {
	return kind{name, func(r *reading, t *target, n *node) {
		v, reason := parse(n)
		if reason != "" {
			r.fault(n, "%s", reason)
			return
		}
		*field(t) = v
	}}
}

// stringAt reads any string. Fields with types of their own are checked by
// jobs.Policy.Validate, which knows the words.
func stringAt[T ~string](field func(*target) *T) kind {
	return scalar("string", field, func(n *node) (T, string) {
		s, reason := stringOf(n)
		if reason == "" && s == "" {
			reason = "is empty"
		}
		return T(s), reason
	})
}

func nameAt(field func(*target) *string) kind {
	return scalar("name", field, func(n *node) (string, string) {
		s, reason := stringOf(n)
		if reason == "" {
			if err := CheckName(s); err != nil {
				reason = err.Error()
			}
		}
		return s, reason
	})
}

func scopeAt(field func(*target) *string) kind {
	return scalar("scope", field, func(n *node) (string, string) {
		s, reason := stringOf(n)
		if reason == "" {
			// Any time will do: only the words are looked at here.
			if _, err := ExpandScope(s, time.Time{}); err != nil {
				reason = err.Error()
			}
		}
		return s, reason
	})
}

func wordAt(field func(*target) *string, words ...string) kind {
	return scalar("word", field, func(n *node) (string, string) {
		s, reason := stringOf(n)
		if reason == "" && !slices.Contains(words, s) {
			reason = fmt.Sprintf("%s: want %s%s", show(s), quotedOr(words), didYouMean(s, words))
		}
		return s, reason
	})
}

// pathAt reads a path, made absolute from the file's directory.
func pathAt(field func(*target) *string) kind {
	return kind{"path", func(r *reading, t *target, n *node) {
		s, reason := stringOf(n)
		switch {
		case reason != "":
		case s == "":
			reason = "is empty"
		case s == "~" || strings.HasPrefix(s, "~/"):
			// Only a shell expands it; taken as it stands, the path would be
			// one that nobody meant.
			reason = fmt.Sprintf("%s: ~ is not expanded here: write the whole path", show(s))
		}
		if reason != "" {
			r.fault(n, "%s", reason)
			return
		}
		if !filepath.IsAbs(s) {
			s = filepath.Join(r.dir, s)
		}
		*field(t) = filepath.Clean(s)
	}}
}

func countAt(field func(*target) *int) kind {
	k := integerAt(1, maxCount, field)
	k.name = "count"
	return k
}

// numberAt reads a whole number whose least value jobs.Policy.Validate knows.
func numberAt(field func(*target) *int) kind { return integerAt(math.MinInt, maxCount, field) }

func integerAt(least, most int, field func(*target) *int) kind {
	return scalar("number", field, func(n *node) (int, string) { return intOf(n, least, most) })
}

// durationAt reads any length of time; jobs.Policy.Validate knows the limits.
func durationAt(field func(*target) *time.Duration) kind {
	return scalar("duration", field, durationOf)
}

// positiveAt reads a length of time above 0.
func positiveAt(field func(*target) *time.Duration) kind { return above0(field, durationOf) }

// ageAt reads how long something is kept, above 0.
func ageAt(field func(*target) *time.Duration) kind { return above0(field, ageOf) }

func above0(field func(*target) *time.Duration, parse func(*node) (time.Duration, string)) kind {
	return scalar("duration", field, func(n *node) (time.Duration, string) {
		d, reason := parse(n)
		if reason == "" && d <= 0 {
			reason = show(n.text) + " is not longer than 0"
		}
		return d, reason
	})
}

// rateAt reads how many attempts may start within a time.
func rateAt(field func(*target) *jobs.Rate) kind {
	return scalar("rate", field, rateOf)
}

// argvAt reads a program and its arguments.
func argvAt(field func(*target) *[]string) kind {
	return kind{"array of strings", func(r *reading, t *target, n *node) {
		var args []string
		sound := true
		for i, item := range r.items(n) {
			s, reason := stringOf(item)
			if reason != "" {
				r.fault(item, "item %d %s", i+1, reason)
				sound = false
			}
			args = append(args, s)
		}
		if n.kind == unstable.Array && sound && (len(args) == 0 || args[0] == "") {
			r.fault(n, "has no program: its first string must name one")
		}
		*field(t) = args
	}}
}

// numbersAt reads a list that replaces the list it overrides.
func numbersAt(field func(*target) *[]int) kind {
	return kind{"array of numbers", func(r *reading, t *target, n *node) {
		var list []int
		for i, item := range r.items(n) {
			v, reason := intOf(item, math.MinInt, math.MaxInt)
			if reason != "" {
				r.fault(item, "item %d %s", i+1, reason)
				continue
			}
			list = append(list, v)
		}
		*field(t) = list
	}}
}

// amountsAt reads a table of pools. It replaces the one it overrides as a whole:
// merged, a job could not be freed of a pool that [defaults] uses.
func amountsAt(field func(*target) *map[string]int) kind {
	return kind{"table of counts", func(r *reading, t *target, n *node) {
		m := map[string]int{}
		for _, entry := range r.entries(n) {
			v, reason := intOf(entry, 1, maxCount)
			size, known := r.cfg.Pools[entry.key]
			switch {
			case reason != "":
			case !known && len(r.cfg.Pools) == 0:
				reason = fmt.Sprintf("no pool is declared: write %s = SIZE under [pools]", keyText(entry.key))
			case !known:
				reason = fmt.Sprintf("no pool is called %s%s", show(entry.key), didYouMean(entry.key, slices.Sorted(maps.Keys(r.cfg.Pools))))
			case size > 0 && v > size: // 0: the pool's own size is a fault
				reason = fmt.Sprintf("%d is more than the pool holds (%d)", v, size)
			}
			if reason != "" {
				r.fault(entry, "%s", reason)
			}
			m[entry.key] = v
		}
		*field(t) = m
	}}
}

// variablesAt reads a table of environment variables. It adds to the one it
// overrides, name by name; set to "", a variable is empty.
func variablesAt(field func(*target) *map[string]string) kind {
	return kind{"table of strings", func(r *reading, t *target, n *node) {
		m := field(t)
		for _, entry := range r.entries(n) {
			s, reason := stringOf(entry)
			switch {
			case reason != "":
			case entry.key == "" || strings.ContainsAny(entry.key, "= \t\r\n\x00"):
				reason = "is no name for a variable (empty, or has a blank, = or a NUL byte)"
			case strings.HasPrefix(entry.key, "BATCHQ_"):
				reason = "names that begin with BATCHQ_ are set by batchq itself"
			}
			if reason != "" {
				r.fault(entry, "%s", reason)
				continue
			}
			if *m == nil {
				*m = map[string]string{}
			}
			(*m)[entry.key] = s
		}
	}}
}

// kindNames says what a value is, in the words of TOML.
var kindNames = map[unstable.Kind]string{
	unstable.Table: "a table", unstable.Array: "an array", unstable.String: "a string", unstable.Bool: "a boolean",
	unstable.Float: "a float", unstable.Integer: "an integer",
}

// wrongType is the reason of a value that is not what is wanted.
func wrongType(n *node, want string) string {
	is := kindNames[n.kind]
	if is == "" {
		is = "a date or time"
	}
	return fmt.Sprintf("is %s: want %s", is, want)
}

func stringOf(n *node) (s, reason string) {
	switch {
	case n.kind != unstable.String:
		return "", wrongType(n, "a string")
	case strings.Contains(n.text, "\x00"):
		return "", "has a NUL byte, which no argument, path or variable can hold"
	}
	return n.text, ""
}

func intOf(n *node, least, most int) (v int, reason string) {
	if n.kind != unstable.Integer {
		return 0, wrongType(n, "an integer")
	}
	// TOML's integers have signs, underscores and three more bases: the
	// library knows them.
	var number struct{ V int }
	if err := toml.Unmarshal([]byte("V = "+n.text), &number); err != nil {
		return 0, show(n.text) + " is no integer, or too large a one"
	}
	switch v = number.V; {
	case v < least:
		return 0, fmt.Sprintf("%d is less than %d", v, least)
	case v > most:
		return 0, fmt.Sprintf("%d is more than %d", v, most)
	}
	return v, ""
}

func durationOf(n *node) (time.Duration, string) { return lengthOf(n, "s", ParseDuration) }

func ageOf(n *node) (time.Duration, string) { return lengthOf(n, "d", ParseAge) }

// lengthOf reads a length of time; unit is what is most likely meant by a number
// without one.
func lengthOf(n *node, unit string, parse func(string) (time.Duration, error)) (d time.Duration, reason string) {
	if n.kind == unstable.Integer {
		if v, reason := intOf(n, math.MinInt, math.MaxInt); reason == "" {
			return 0, fmt.Sprintf(`%d has no unit: write a string like "%d%s"`, v, v, unit)
		}
	}
	s, reason := stringOf(n)
	if reason != "" {
		return 0, reason
	}
	d, err := parse(s)
	if err != nil {
		return 0, err.Error()
	}
	return d, ""
}

func rateOf(n *node) (rate jobs.Rate, reason string) {
	if n.kind == unstable.Integer {
		if v, reason := intOf(n, 1, maxCount); reason == "" {
			return rate, fmt.Sprintf(`%d of what time: write a string like "%d/s"`, v, v)
		}
	}
	s, reason := stringOf(n)
	if reason != "" {
		return rate, reason
	}
	if len(s) > maxShown {
		return rate, show(s) + " is no rate" // whose own error would repeat it all
	}
	rate, err := jobs.ParseRate(s)
	if err != nil {
		return rate, err.Error()
	}
	return rate, ""
}

// quotedOr lists words for a sentence: "a", "b" or "c".
func quotedOr(words []string) string {
	var b strings.Builder
	for i, w := range words {
		switch {
		case i > 0 && i == len(words)-1:
			b.WriteString(" or ")
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", w)
	}
	return b.String()
}
