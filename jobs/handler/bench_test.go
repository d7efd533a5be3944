package handler

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"batchq/jobs"
)

// inParallel runs f b.N times in n goroutines, as the slots of a lane do.
func inParallel(b *testing.B, n int, f func() error) {
	b.ReportAllocs()
	work := make(chan struct{})
	var done sync.WaitGroup
	for range n {
		done.Go(func() {
			for range work {
				if err := f(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	done.Wait()
}

func BenchmarkRun_True(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
	}{{"1", 1}, {"2", 2}, {"4", 4}} {
		b.Run(c.name, func(b *testing.B) {
			r := newRunner(b)
			spec := &jobs.Spec{Name: "j", Handler: jobs.Handler{Command: []string{"/bin/true"}}, Policy: jobs.DefaultPolicy()}
			item := &jobs.Item{ID: 7, Job: "j", Key: []byte("key"), Attempt: 1}
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			kill, cancelKill := context.WithCancel(context.Background())
			defer cancelKill()
			inParallel(b, c.n, func() error {
				r.Run(ctx, kill, Attempt{Item: item, Spec: spec, Mark: "bench", Started: func(int, uint64) {}})
				return nil
			})
		})
	}
}

func BenchmarkBareExec(b *testing.B) {
	for _, c := range []struct {
		name string
		n    int
	}{{"1", 1}, {"2", 2}, {"4", 4}} {
		b.Run(c.name, func(b *testing.B) {
			inParallel(b, c.n, func() error {
				_, err := exec.Command("/bin/true").CombinedOutput()
				return err
			})
		})
	}
}

// BenchmarkStream is what our side of a stream costs: the handler is this very
// program, which answers at once (see answerAll).
func BenchmarkStream(b *testing.B) {
	for _, window := range []int{1, 100} {
		b.Run(strconv.Itoa(window), func(b *testing.B) {
			self, err := os.Executable()
			if err != nil {
				b.Fatal(err)
			}
			b.Setenv(answering, "1")
			spec := &jobs.Spec{Name: "j", Handler: jobs.Handler{Stream: []string{self}}, Policy: jobs.DefaultPolicy()}
			ended := make(chan struct{})
			p, failed, ok := newRunner(b).OpenStream(b.Context(), b.Context(), StreamStart{Spec: spec, Mark: newMark(), Ended: func(StreamEnd) { close(ended) }})
			if !ok {
				b.Fatalf("%+v", failed)
			}
			b.ReportAllocs()
			room := make(chan struct{}, window)
			for id := int64(1); b.Loop(); id++ {
				room <- struct{}{}
				a := Attempt{Item: &jobs.Item{ID: id, Job: "j", Key: []byte("key"), Attempt: 1}, Spec: spec, Claim: 7, IdempotencyKey: "0123456789abcdef0123456789abcdef"}
				p.Send(a, func(r jobs.Result, _ Printed) {
					if r.Answer == nil {
						b.Errorf("%+v", r)
					}
					<-room
				})
			}
			p.Close()
			<-ended
		})
	}
}

func BenchmarkSurvivors(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Survivors([]Orphan{{Mark: "nobody's"}}); err != nil {
			b.Fatal(err)
		}
	}
}
