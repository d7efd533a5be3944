package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"batchq/jobs"
)

// streamed is a stream process under test, and what came of its items.
type streamed struct {
	testing.TB
	*StreamProcess
	mark    string
	spec    *jobs.Spec
	stop    context.CancelCauseFunc
	kill    context.CancelFunc
	results chan landed
	end     chan StreamEnd
}

type landed struct {
	id int64
	jobs.Result
}

// reader begins every handler here: it sets $id for each line that it reads.
const reader = `answer() { echo "{\"id\":$1,\"class\":\"done\"}"; }
next() { read -r line && { id=${line#*\"id\":}; id=${id%%,*}; }; }
`

// stream opens a handler written in sh.
func stream(t testing.TB, text string, change ...func(*jobs.Policy)) *streamed {
	t.Helper()
	policy := jobs.DefaultPolicy()
	policy.Timeout = 2 * patience
	for _, f := range change {
		f(&policy)
	}
	s := &streamed{TB: t, mark: newMark(), results: make(chan landed, 1000), end: make(chan StreamEnd, 1)}
	s.spec = &jobs.Spec{Name: "j", Handler: jobs.Handler{Stream: []string{"sh", "-c", reader + text}}, Policy: policy}
	ctx, stop := context.WithCancelCause(context.Background())
	hard, kill := context.WithCancel(context.Background())
	s.stop, s.kill = stop, kill
	var failed jobs.Result
	var ok bool
	s.StreamProcess, failed, ok = newRunner(t).OpenStream(ctx, hard, StreamStart{Spec: s.spec, Mark: s.mark, Ended: func(e StreamEnd) { s.end <- e }})
	if !ok {
		t.Fatalf("%+v", failed)
	}
	t.Cleanup(kill)
	return s
}

func (s *streamed) send(ids ...int64) {
	for _, id := range ids {
		a := Attempt{Item: &jobs.Item{ID: id, Job: "j", Key: fmt.Appendf(nil, "k%d", id), Attempt: 1}, Spec: s.spec, Claim: 99, IdempotencyKey: "idem"}
		s.Send(a, func(r jobs.Result, p Printed) { p.Close(); s.results <- landed{id, r} })
	}
}

// landed waits for n results.
func (s *streamed) landed(n int) map[int64]jobs.Result {
	s.Helper()
	all := map[int64]jobs.Result{}
	for range n {
		select {
		case l := <-s.results:
			if _, twice := all[l.id]; twice {
				s.Errorf("item %d has two results", l.id)
			}
			all[l.id] = l.Result
		case <-time.After(patience):
			s.Fatalf("only %d of %d results: %v", len(all), n, all)
		}
	}
	return all
}

// ended waits for the end, after which nothing of the process is there.
func (s *streamed) ended() StreamEnd {
	s.Helper()
	select {
	case e := <-s.end:
		if left, err := Survivors([]Orphan{{Mark: s.mark}}); err != nil || len(left) > 0 {
			s.Errorf("%v %v is left", err, left)
		}
		if n := s.InTheAir(); n != 0 || len(s.results) != 0 {
			s.Errorf("%d are in the air, %d more results", n, len(s.results))
		}
		return e
	case <-time.After(patience):
		s.Fatal("it does not end")
	}
	return StreamEnd{}
}

func sequence(from, to int64) (ids []int64) {
	for id := from; id <= to; id++ {
		ids = append(ids, id)
	}
	return ids
}

func TestStream_AnswersAll(t *testing.T) {
	s := stream(t, `while next; do answer $id; done`)
	s.send(sequence(1, 500)...)
	for id, r := range s.landed(500) {
		if r.Ending != jobs.Exited || r.Answer == nil || r.Answer.Class != jobs.ClassDone || r.Duration <= 0 {
			t.Fatalf("item %d: %+v", id, r)
		}
	}
	s.Close()
	if e := s.ended(); e.Answered != 500 || e.Result.Ending != jobs.Exited || e.Result.ExitCode != 0 || len(e.Notes) > 0 {
		t.Errorf("%+v", e)
	}
	// What comes too late was never sent.
	s.send(501)
	if r := s.landed(1)[501]; r.Ending != jobs.Undelivered {
		t.Errorf("%+v", r)
	}
}

// What a handler reads: one line for each item, with every byte of it.
func TestStream_Line(t *testing.T) {
	for _, c := range []struct {
		scope, key, payload, want string
	}{
		{"s", "k", "", `{"id":7,"job":"j","scope":"s","key":"k","attempt":2,"claim":99,"idempotency_key":"idem"}`},
		{"", "a\"\n<&>", `{"a":1}`, `{"id":7,"job":"j","scope":"","key":"a\"\n<&>","payload":"{\"a\":1}","attempt":2,"claim":99,"idempotency_key":"idem"}`},
		{"s", "k\xff", "\x00\xfe", `{"id":7,"job":"j","scope":"s","key_base64":"a/8=","payload_base64":"AP4=","attempt":2,"claim":99,"idempotency_key":"idem"}`},
	} {
		a := attempt(jobs.Handler{})
		a.Item.Scope, a.Item.Key = c.scope, []byte(c.key)
		if c.payload != "" {
			a.Item.Payload = []byte(c.payload)
		}
		if got := string(appendLine(nil, &a)); got != c.want+"\n" {
			t.Errorf("got  %swant %s", got, c.want)
		}
	}
	a := attempt(jobs.Handler{Stdin: jobs.StdinNone})
	a.Item.Payload = []byte("p")
	if got := appendLine(nil, &a); bytes.Contains(got, []byte("payload")) {
		t.Errorf("%s", got)
	}
}

// Answers come in any order, with the id as a number or as text, a part of a
// line at a time, and say what $BATCHQ_RESULT can say.
func TestStream_Answers(t *testing.T) {
	s := stream(t, `next; next; next; next
echo "{\"id\":\"4\",\"class\":\"retry\",\"after\":\"30s\",\"error\":\"busy\"}"
printf '{"id":3,'; sleep 0.01; echo '"class":"permanent","error":"bad","more":[1]}'
echo; echo looking at 2 >&2; echo '{"class":"defer","id":2}'
echo '{"id":1,"class":"perhaps"}'; cat >/dev/null`)
	s.send(1, 2, 3, 4)
	got := s.landed(4)
	if a := got[4].Answer; a == nil || a.Class != jobs.ClassRetry || a.After != 30*time.Second || a.Error != "busy" {
		t.Errorf("%+v", got[4])
	}
	if a := got[3].Answer; a == nil || a.Class != jobs.ClassPermanent || a.Error != "bad" {
		t.Errorf("%+v", got[3])
	}
	if a := got[2].Answer; a == nil || a.Class != jobs.ClassDefer || text(got[2].Output) != "looking at 2\n" {
		t.Errorf("%+v, output %q", got[2], text(got[2].Output))
	}
	if r := got[1]; r.Ending != jobs.Unanswered || r.Error != `its stream's answer: class "perhaps": want done, retry, permanent or defer` {
		t.Errorf("%+v", r)
	}
	s.Close()
	if e := s.ended(); e.Answered != 4 {
		t.Errorf("%+v", e)
	}
}

// A handler that breaks the protocol is ended, in whatever way it does.
func TestStream_Broken(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"rubbish":   {`next; echo loading; cat`, `it printed a line that is no answer: "loading" (what is meant for people belongs on standard error)`},
		"no object": {`next; echo null; cat`, `it printed an answer without "id": "null"`},
		"odd id":    {`next; echo '{"id":true}'; cat`, `it printed an answer whose id "true" is no item's`},
		"unknown":   {`next; answer 9; cat`, `it answered to id 9, which it was not asked`},
		"twice":     {`next; answer 2; answer 2; cat`, `it answered twice to id 2`},
		"endless":   {`next; head -c 1000000 /dev/zero | tr '\0' x; cat`, `it printed a line of more than 65536 bytes`},
		"last word": {`next; echo bye; exit 3`, `it printed a line that is no answer: "bye" (what is meant for people belongs on standard error)`},
	} {
		t.Run(name, func(t *testing.T) {
			s := stream(t, `trap "" PIPE; `+c.text)
			if name == "twice" {
				s.send(2)
			}
			s.send(1)
			n := 1
			if name == "twice" {
				n = 2
			}
			r := s.landed(n)[1]
			if r.Ending == jobs.Undelivered && name == "twice" {
				r.Ending, r.Error = jobs.Unanswered, "its stream was ended: "+c.want
			}
			if r.Ending != jobs.Unanswered || r.Error != "its stream was ended: "+c.want {
				t.Errorf("%d %q", r.Ending, r.Error)
			}
			if e := s.ended(); e.Result.Error != c.want {
				t.Errorf("%q", e.Result.Error)
			}
		})
	}
}

// Only what was alone in the air is to blame for the death of its handler.
func TestStream_Dies(t *testing.T) {
	const poisoned = `while next; do [ $id = 3 ] && { next; next; echo poison >&2; kill -SEGV $$; }; answer $id; done`
	s := stream(t, poisoned)
	s.send(1, 2, 3, 4, 5)
	got := s.landed(5)
	for _, id := range []int64{3, 4, 5} {
		if r := got[id]; r.Ending != jobs.Abandoned || r.Error != "its stream ended with 3 items in the air, killed by SIGSEGV: each is sent alone next" || r.Streamed {
			t.Errorf("item %d: %+v", id, r)
		}
	}
	if got[1].Answer == nil || got[2].Answer == nil {
		t.Errorf("%+v", got)
	}
	if e := s.ended(); e.Result.SignalName != "SIGSEGV" || e.Answered != 2 || !strings.HasSuffix(text(e.Result.Output), "poison\n") {
		t.Errorf("%+v", e)
	}

	for script, want := range map[string]jobs.Result{
		`next; exit 65`:                    {ExitCode: 65},
		`next; exit 0`:                     {ExitCode: 0},
		`next; kill -KILL $$`:              {Signal: 9, SignalName: "SIGKILL"},
		`next; sleep 1000 & kill -ABRT $$`: {Signal: 6, SignalName: "SIGABRT"},
	} {
		s := stream(t, script)
		s.send(1)
		r := s.landed(1)[1]
		if !r.Streamed || r.Ending != jobs.Exited || r.ExitCode != want.ExitCode || r.Signal != want.Signal || r.SignalName != want.SignalName {
			t.Errorf("%s: %+v", script, r)
		}
		s.ended()
	}
}

// What a handler reads no more was never sent; what it has read it may answer.
func TestStream_ClosesItsInput(t *testing.T) {
	dir := t.TempDir()
	s := stream(t, `next; exec 0<&-; : >`+dir+`/closed; until [ -e `+dir+`/go ]; do sleep 0.01; done; answer $id`)
	s.send(1)
	until(t, "its input is closed", func() bool { _, err := os.Stat(dir + "/closed"); return err == nil })
	s.send(2)
	if r := s.landed(1)[2]; r.Ending != jobs.Undelivered {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile(dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := s.landed(1)[1]; r.Answer == nil {
		t.Errorf("%+v", r)
	}
	if e := s.ended(); e.Answered != 1 {
		t.Errorf("%+v", e)
	}
}

// A handler that is silent for too long is ended, and only an item that was
// alone has timed out.
func TestStream_TimesOut(t *testing.T) {
	const timeout = 300 * time.Millisecond
	for n, want := range map[int]jobs.Result{
		1: {Ending: jobs.TimedOut, Error: "no answer at all; does it flush its output after each line?"},
		2: {Ending: jobs.Abandoned, Error: "its stream ended with 2 items in the air, because one of them timed out (no answer at all: does it flush its output after each line?): each is sent alone next"},
	} {
		s := stream(t, `trap "" TERM; while :; do sleep 0.05; done`, func(p *jobs.Policy) { p.Timeout, p.KillAfter = timeout, 50*time.Millisecond })
		s.send(sequence(1, int64(n))...)
		for id, r := range s.landed(n) {
			if r.Ending != want.Ending || r.Error != want.Error || r.Duration < timeout {
				t.Errorf("item %d of %d: %+v", id, n, r)
			}
		}
		if e := s.ended(); e.Result.Signal == 0 {
			t.Errorf("%+v", e)
		}
	}
}

// A handler that works one at a time has a timeout for each item, counted from
// the answer before; one that works several at once can't keep one for ever.
func TestStream_Deadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &StreamProcess{air: map[int64]*flight{}, start: StreamStart{Spec: &jobs.Spec{Policy: jobs.Policy{Timeout: time.Minute}}}}
		p.more, p.told = sync.NewCond(&p.mu), make(chan struct{}, 1)
		begin := time.Now()
		want := func(minutes ...float64) {
			t.Helper()
			var got []float64
			for _, f := range p.order {
				if f.gone {
					continue
				}
				got = append(got, f.deadline.Sub(begin).Minutes())
			}
			if !slices.Equal(got, minutes) {
				t.Errorf("deadlines %v, want %v", got, minutes)
			}
		}
		for id := range int64(4) {
			p.Send(Attempt{Item: &jobs.Item{ID: id + 1}, Spec: p.start.Spec}, nil)
		}
		want(1, 2, 3, 4)
		time.Sleep(30 * time.Second)
		p.land(p.air[1])
		p.progressed()
		want(1.5, 2.5, 3.5)
		time.Sleep(30 * time.Second)
		p.land(p.air[4]) // out of turn: it moves nobody's deadline away
		p.progressed()
		want(1.5, 2.5)
		if next, late := p.overdue(time.Now()); late || next.Sub(begin) != 90*time.Second {
			t.Errorf("%v %v", next.Sub(begin), late)
		}
		time.Sleep(30 * time.Second)
		if _, late := p.overdue(time.Now()); !late {
			t.Error("not late")
		}
	})
}

func TestStream_Stopped(t *testing.T) {
	for cause, want := range map[error]jobs.Ending{ErrStopped: jobs.Stopped, ErrLost: jobs.Lost, ErrKill: jobs.Stopped} {
		s := stream(t, `next; answer $id; next; sleep 1000 & trap "" TERM; while :; do sleep 0.05; done`, func(p *jobs.Policy) { p.KillAfter = 50 * time.Millisecond })
		s.send(1)
		s.landed(1)
		s.send(2, 3)
		s.stop(cause)
		for id, r := range s.landed(2) {
			// Written or not, nothing came of it.
			if r.Ending != want && r.Ending != jobs.Undelivered {
				t.Errorf("%v: item %d: %+v", cause, id, r)
			}
		}
		s.ended()
	}
	s := stream(t, `trap "" TERM; while :; do sleep 0.05; done`, func(p *jobs.Policy) { p.KillAfter = 10 * patience })
	s.Close()
	s.stop(ErrStopped)
	s.kill()
	s.ended()
}

// A handler that goes on after the end of its input is ended.
func TestStream_StaysAfterTheEnd(t *testing.T) {
	s := stream(t, `next; answer $id; cat >/dev/null; exec sleep 1000`, func(p *jobs.Policy) { p.KillAfter = 50 * time.Millisecond })
	s.send(1)
	s.landed(1)
	s.Close()
	if e := s.ended(); e.Result.Signal == 0 {
		t.Errorf("%+v", e)
	}
}

// What floods or holds its output open keeps nobody from going on.
func TestStream_Noise(t *testing.T) {
	s := stream(t, `head -c 100000 /dev/zero >&2; yes noise >&2 & while next; do answer $id; done`)
	s.send(sequence(1, 200)...)
	s.landed(200)
	s.Close()
	if e := s.ended(); e.Result.Output.Omitted == 0 {
		t.Errorf("%+v", e)
	}
}

// A payload that no pipe holds does not stop answers from being read.
func TestStream_LargePayloads(t *testing.T) {
	s := stream(t, `while next; do answer $id; done`)
	var wait sync.WaitGroup
	for id := range int64(4) {
		a := Attempt{Item: &jobs.Item{ID: id + 1, Job: "j", Key: []byte("k"), Payload: bytes.Repeat([]byte("x"), 256<<10)}, Spec: s.spec}
		wait.Add(1)
		s.Send(a, func(r jobs.Result, _ Printed) {
			if r.Answer == nil {
				t.Errorf("%+v", r)
			}
			wait.Done()
		})
	}
	wait.Wait()
	s.Close()
	s.ended()
}

func TestStream_CantStart(t *testing.T) {
	spec := &jobs.Spec{Name: "j", Handler: jobs.Handler{Stream: []string{"/no/such/handler"}}, Policy: jobs.DefaultPolicy()}
	_, r, ok := newRunner(t).OpenStream(t.Context(), t.Context(), StreamStart{Spec: spec, Mark: newMark()})
	if ok || r.Ending != jobs.CantExec || r.Error != "/no/such/handler: no such file" {
		t.Errorf("%+v", r)
	}
}

func FuzzParseReply(f *testing.F) {
	for _, seed := range []string{`{"id":1,"class":"done"}`, `{"id":"1","class":"retry","after":3}`, `{"id":1.5}`, `null`, `[]`, "{\"id\":1,\"class\":\"done\",\"error\":\"\xff\"}", `{"id":99999999999999999999}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		id, answer, wrong, err := parseReply(line)
		if err != nil {
			return
		}
		if (answer == nil) == (wrong == nil) {
			t.Errorf("answer %v, wrong %v", answer, wrong)
		}
		var fields map[string]json.RawMessage
		if json.Unmarshal(line, &fields) != nil || fields["id"] == nil {
			t.Errorf("id %d of what has none", id)
		}
	})
}
