package sqlite

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"batchq/jobs"
	"batchq/store"
)

// A pause that fails is none: whoever was told so must not find the job held.
func TestPause_WholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "batchq.db")
	noError(t, createAndAdd(path, "first"))
	db, ctx := openAt(t, path), context.Background()
	run, err := db.Register(ctx, store.RunInfo{Token: "r"})
	noError(t, err)
	spec := &jobs.Spec{Name: "pos", Lane: jobs.Serial}
	c, err := db.Claim(ctx, store.ClaimRequest{Run: run, Lane: jobs.Serial, Jobs: []*jobs.Spec{spec}, Max: 1, Lease: time.Minute})
	if err != nil || len(c.Items) != 1 {
		t.Fatalf("claimed %d items, %v", len(c.Items), err)
	}
	execute(t, raw(t, path), "CREATE TRIGGER no BEFORE UPDATE OF state ON item BEGIN SELECT RAISE(ABORT, 'no room'); END")
	if err := db.Pause(ctx, []store.Target{{Job: "pos"}}, "ann", "why"); err == nil {
		t.Fatal("it did not fail")
	}
	st, err := db.Stats(ctx)
	noError(t, err)
	if len(st.Pauses) != 0 {
		t.Errorf("it failed, and there is %v", st.Pauses)
	}
	execute(t, raw(t, path), "DROP TRIGGER no")
	noError(t, db.Pause(ctx, []store.Target{{Job: "pos"}}, "ann", "why"))
	in, err := db.InHand(ctx, store.Target{})
	noError(t, err)
	if in.Claimed != 0 {
		t.Errorf("%d are claimed after it", in.Claimed)
	}
}
