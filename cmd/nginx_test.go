package cmd

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// nginxConfig is a server that answers every path with the same file, so often a
// second. It has no directory beside its own.
const nginxConfig = `daemon off;
master_process off;
pid %[1]s/pid;
error_log %[1]s/error.log;
events { worker_connections 256; }
http {
  access_log %[1]s/access.log;
  client_body_temp_path %[1]s/t1; proxy_temp_path %[1]s/t2; fastcgi_temp_path %[1]s/t3; uwsgi_temp_path %[1]s/t4; scgi_temp_path %[1]s/t5;
  limit_req_zone $binary_remote_addr zone=all:1m rate=%[3]sr/s;
  limit_req_status 429;
  server { listen %[2]s; location / { limit_req zone=all burst=%[4]s nodelay; root %[1]s; try_files /ok =500; } }
}
`

// nginxCommand runs nginx for a script and names it in $API.
func nginxCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: nginx RATE BURST")
	}
	dir := filepath.Join(ts.Getenv("WORK"), "nginx")
	ts.Check(os.Mkdir(dir, 0o700))
	ts.Check(os.WriteFile(filepath.Join(dir, "ok"), []byte("ok\n"), 0o600))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	address := l.Addr().String()
	ts.Check(l.Close())
	config := filepath.Join(dir, "nginx.conf")
	ts.Check(os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, address, args[0], args[1]), 0o600))
	var said strings.Builder
	c := exec.Command("nginx", "-p", dir, "-c", config)
	c.Stderr = &said
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	ts.Check(c.Start())
	ended := make(chan struct{})
	go func() { _ = c.Wait(); close(ended) }()
	ts.Defer(func() {
		_ = c.Process.Kill() // it may have ended
		<-ended
	})
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if conn, err := net.Dial("tcp", address); err == nil {
			ts.Check(conn.Close())
			break
		}
		select {
		case <-ended:
			ts.Fatalf("nginx has ended: %s", said.String())
		default:
		}
		if time.Now().After(end) {
			ts.Fatalf("nginx takes no connection")
		}
	}
	ts.Setenv("API", "http://"+address)
}
