package input_test

import (
	"testing"

	"batchq/jobs/input"
)

// benchmark reads a million records an iteration.
func benchmark(b *testing.B, head, piece string, o input.Options) {
	const records = 1_000_000
	size := int64(records * len(piece))
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		read(b, endless(head, piece, size), o, records)
	}
}

func BenchmarkLines(b *testing.B) {
	benchmark(b, "", "orders/2026/11/000123\n", input.Options{})
}

func BenchmarkNUL(b *testing.B) {
	benchmark(b, "", "orders/2026/11/000123\x00", input.Options{Format: input.NUL})
}

func BenchmarkCSV(b *testing.B) {
	benchmark(b, "name,country,subcountry,id\n", "Andorra la Vella,Andorra,\"Andorra, la Vella\",3041563\n",
		input.Options{Format: input.CSV, Key: []string{"id"}})
}

func BenchmarkTSV(b *testing.B) {
	benchmark(b, "name\tcountry\tsubcountry\tid\n", "Andorra la Vella\tAndorra\tAndorra, la Vella\t3041563\n",
		input.Options{Format: input.TSV, Key: []string{"id"}})
}

func BenchmarkExport(b *testing.B) {
	benchmark(b, "", `{"job":"pos","scope":"2026-11-29","key":"3041563","payload":"{\"id\":3041563}","priority":0,"id":7,"reason":"exit 65"}`+"\n",
		input.Options{Format: input.Export, Job: "pos"})
}

func BenchmarkJSONL(b *testing.B) {
	benchmark(b, "", `{"name":"Andorra la Vella","country":"Andorra","id":3041563}`+"\n",
		input.Options{Format: input.JSONL, Key: []string{"id"}})
}
