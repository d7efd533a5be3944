package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"batchq/store"
)

// runColumns reads who a run (r) is, into runRow. file is the one that we have
// open: a run of another file is foreign. An older file knows neither file nor
// session.
func runColumns(schema int, file inode) string {
	session, foreign := "r.session", fmt.Sprintf("r.file NOT IN ('', '%s')", file)
	if schema < 3 {
		session, foreign = "-1", "0"
	}
	return "r.id, r.token, r.pid, r.pid_start, r.boot, r.pid_ns, r.host, r.command, r.started, r.ended, " + session + ", " + foreign
}

// runRow is a run of an outer join: all of it may be NULL.
type runRow struct {
	id, pid, pidStart, started, ended, session sql.NullInt64
	token, boot, ns, host, command             sql.NullString
	foreign                                    sql.NullBool
}

func (r *runRow) dest(more ...any) []any {
	return append([]any{&r.id, &r.token, &r.pid, &r.pidStart, &r.boot, &r.ns, &r.host, &r.command, &r.started, &r.ended, &r.session, &r.foreign}, more...)
}

// info is the zero RunInfo, of an unknown session, where there is no run.
func (r *runRow) info() (store.RunInfo, error) {
	if !r.id.Valid {
		return store.RunInfo{Session: -1}, nil
	}
	i := store.RunInfo{ID: r.id.Int64, Token: r.token.String, PID: int(r.pid.Int64), PIDStart: uint64(r.pidStart.Int64),
		BootID: r.boot.String, PIDNS: r.ns.String, Session: int(r.session.Int64), Host: r.host.String, Foreign: r.foreign.Bool,
		Started: time.UnixMilli(r.started.Int64).UTC(), Ended: instant(r.ended)}
	return i, json.Unmarshal([]byte(r.command.String), &i.Command)
}
