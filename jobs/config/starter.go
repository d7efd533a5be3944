package config

import (
	"bytes"
	_ "embed"
	"fmt"
	"strings"
)

//go:embed starter.toml
var starter []byte

// starterDatabase is the line of the starter that another database takes.
const starterDatabase = `database = "batchq.db" `

// Starter is the text of a first batchq.toml, with comments that teach: sound
// as it stands, and good for its first job once one line is changed. database
// is what it names as the database; "" for one beside it. It must be UTF-8.
func Starter(database string) []byte {
	if database == "" {
		return bytes.Clone(starter)
	}
	return bytes.Replace(starter, []byte(starterDatabase), []byte("database = "+tomlString(database)+" "), 1)
}

// StarterJob is the job that the starter declares, and StarterLine counts to
// the line of it that a person has to change, from 1.
const StarterJob = "first"

// StarterLine finds the line with the command of StarterJob.
func StarterLine() int {
	before, _, _ := bytes.Cut(starter, []byte("\ncommand = "))
	return bytes.Count(before, []byte("\n")) + 2
}

// tomlString is s as a basic string of TOML.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < 0x20 || c == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
