// Command batchq makes background work recoverable: see README.md.
package main

import (
	"os"

	"batchq/cmd"
)

func main() {
	os.Exit(cmd.Main(os.Args[1:]))
}
