package handler

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"batchq/jobs"
)

// serve is a real server; what it can't log is of no interest here.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// asks is an attempt to send a request.
func asks(r jobs.Request) Attempt { return attempt(jobs.Handler{HTTP: &r}) }

func send(t *testing.T, a Attempt) jobs.Result {
	t.Helper()
	return sendBy(t, newRunner(t), a)
}

func sendBy(t *testing.T, r *Runner, a Attempt) jobs.Result {
	t.Helper()
	result, printed := r.Run(t.Context(), context.Background(), a)
	printed.Close()
	for _, note := range printed.Notes {
		t.Errorf("note: %s", note)
	}
	return result
}

// answers makes each kind of answer by the path that is asked for.
func answers(w http.ResponseWriter, r *http.Request) {
	var code int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &code); err == nil {
		w.Header().Set("Content-Type", "text/plain")
		for _, name := range []string{"Retry-After", "Location"} {
			if v := r.URL.Query().Get(name); v != "" {
				w.Header().Set(name, v)
			}
		}
		w.WriteHeader(code)
		fmt.Fprintf(w, "first\nlast of %d\n", code)
	}
}

// Each answer is one fact, and Judge makes a class of it.
func TestHTTP_Answers(t *testing.T) {
	s := serve(t, answers)
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for _, c := range []struct {
		path  string
		class jobs.Class
		after time.Duration // the least; 0: none
		said  string
	}{
		{"/200", jobs.ClassDone, 0, ""},
		{"/201", jobs.ClassDone, 0, ""},
		{"/204", jobs.ClassDone, 0, ""},
		{"/301", jobs.ClassPermanent, 0, "HTTP 301 Moved Permanently: it says not where to"},
		{"/304", jobs.ClassPermanent, 0, "HTTP 304 Not Modified"},
		{"/400", jobs.ClassPermanent, 0, "HTTP 400 Bad Request: last of 400"},
		{"/404", jobs.ClassPermanent, 0, "HTTP 404 Not Found: last of 404"},
		{"/409", jobs.ClassPermanent, 0, "HTTP 409 Conflict: last of 409"},
		{"/408", jobs.ClassRetry, 0, "HTTP 408 Request Timeout: last of 408"},
		{"/425", jobs.ClassRetry, 0, "HTTP 425 Too Early: last of 425"},
		{"/429", jobs.ClassThrottled, 0, "HTTP 429 Too Many Requests: last of 429"},
		{"/429?Retry-After=30", jobs.ClassThrottled, 30 * time.Second, ""},
		{"/429?Retry-After=" + url.QueryEscape(in(time.Minute)), jobs.ClassThrottled, 50 * time.Second, ""},
		{"/429?Retry-After=" + url.QueryEscape(in(-time.Minute)), jobs.ClassThrottled, 0, ""},
		{"/429?Retry-After=-5", jobs.ClassThrottled, 0, ""},
		{"/429?Retry-After=soon", jobs.ClassThrottled, 0, ""},
		{"/429?Retry-After=99999999999999999999", jobs.ClassThrottled, time.Hour, ""},
		{"/500", jobs.ClassRetry, 0, "HTTP 500 Internal Server Error: last of 500"},
		{"/503", jobs.ClassRetry, 0, "HTTP 503 Service Unavailable: last of 503"},
		{"/503?Retry-After=30", jobs.ClassThrottled, 30 * time.Second, ""},
	} {
		t.Run(c.path, func(t *testing.T) {
			a := asks(jobs.Request{URL: s.URL + c.path})
			r := send(t, a)
			v := a.Spec.Policy.Judge(a.Item, r, func() float64 { return 0 })
			if v.Class != c.class || c.said != "" && v.Reason != c.said {
				t.Errorf("%+v of %+v", v, r)
			}
			if r.RetryAfter < c.after || c.after == 0 && r.RetryAfter != 0 {
				t.Errorf("Retry-After %s, want %s", r.RetryAfter, c.after)
			}
			if head := string(r.Output.Head); !strings.HasPrefix(head, "HTTP/1.1 "+c.path[1:4]+" ") {
				t.Errorf("kept %q", head)
			}
		})
	}
}

// What is sent is what the job says, and what every request bears.
func TestHTTP_Sends(t *testing.T) {
	t.Setenv("HTTP_TEST_TOKEN", "Bearer s3cret")
	var got *http.Request
	var body []byte
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	})
	a := asks(jobs.Request{URL: s.URL + "/o/{key}?s={scope}", Method: "PUT", Body: `{"k":"{key}"}`, Headers: map[string]string{"authorization": "env:HTTP_TEST_TOKEN", "Host": "api.example"}})
	a.Item.Key = []byte("a/b")
	if r := send(t, a); r.Status != 200 {
		t.Fatalf("%+v", r)
	}
	if got.Method != "PUT" || got.RequestURI != "/o/a%2Fb?s=s1" || got.Host != "api.example" || string(body) != `{"k":"a/b"}` {
		t.Errorf("%s %s to %s: %s", got.Method, got.RequestURI, got.Host, body)
	}
	for name, want := range map[string]string{"Authorization": "Bearer s3cret", "Idempotency-Key": "idem", "Content-Type": "application/json", "User-Agent": "batchq", "Accept-Encoding": ""} {
		if h := got.Header.Get(name); h != want {
			t.Errorf("%s: %q, want %q", name, h, want)
		}
	}
}

// A secret that is not there breaks the job, and no one is asked.
func TestHTTP_NoSecret(t *testing.T) {
	s := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("asked") })
	r := send(t, asks(jobs.Request{URL: s.URL, Headers: map[string]string{"X": "env:HTTP_TEST_NONE"}}))
	if r.Ending != jobs.CantExec || !strings.Contains(r.Error, "HTTP_TEST_NONE is not set") {
		t.Errorf("%+v", r)
	}
}

func TestHTTP_Redirects(t *testing.T) {
	t.Setenv("HTTP_TEST_TOKEN", "s3cret")
	var mu sync.Mutex
	var seen []string
	note := func(who string, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		b, _ := io.ReadAll(r.Body)
		seen = append(seen, fmt.Sprintf("%s %s %s %s key=%s auth=%s cookie=%s", who, r.Method, r.URL.Path, b, r.Header.Get("X-Api-Key"), r.Header.Get("Authorization"), r.Header.Get("Cookie")))
	}
	var other, s *httptest.Server
	other = serve(t, func(w http.ResponseWriter, r *http.Request) {
		note("other", r)
		if r.URL.Path == "/back" {
			http.Redirect(w, r, s.URL+"/end", http.StatusTemporaryRedirect)
		}
	})
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		note("own", r)
		to := map[string]string{"/away": other.URL + "/end", "/return": other.URL + "/back", "/loop": "/loop", "/here": "/end", "/ftp": "ftp://h/x"}[r.URL.Path]
		if to != "" {
			var code int
			fmt.Sscan(r.Header.Get("Code"), &code)
			w.Header().Set("Location", to)
			w.WriteHeader(code)
		}
	})
	ask := func(method, path, code string) (jobs.Result, []string) {
		seen = nil
		r := send(t, asks(jobs.Request{URL: s.URL + path, Method: method, Body: map[string]string{"POST": "b"}[method],
			Headers: map[string]string{"Code": code, "X-Api-Key": "env:HTTP_TEST_TOKEN", "Authorization": "literal", "Cookie": "c=1"}}))
		return r, seen
	}
	const own = "key=s3cret auth=literal cookie=c=1"
	const stripped = "key= auth= cookie="
	for _, code := range []string{"301", "302", "303", "307", "308"} {
		r, seen := ask("GET", "/here", code)
		if r.Status != 200 || len(seen) != 2 || seen[1] != "own GET /end  "+own {
			t.Errorf("GET %s: %+v %q", code, r, seen)
		}
		r, seen = ask("GET", "/away", code)
		if r.Status != 200 || len(seen) != 2 || seen[1] != "other GET /end  "+stripped {
			t.Errorf("GET %s to another host: %+v %q", code, r, seen)
		}
		r, seen = ask("POST", "/here", code)
		if repeats := code == "307" || code == "308"; repeats {
			if r.Status != 200 || len(seen) != 2 || seen[1] != "own POST /end b "+own {
				t.Errorf("POST %s: %+v %q", code, r, seen)
			}
			continue
		}
		v := jobs.DefaultPolicy().Judge(&jobs.Item{}, r, nil)
		if len(seen) != 1 || v.Class != jobs.ClassPermanent || !strings.Contains(v.Reason, "would become a GET (to /end)") {
			t.Errorf("POST %s: %+v %q", code, v, seen)
		}
	}
	if r, seen := ask("POST", "/return", "307"); r.Status != 200 || len(seen) != 3 || seen[1] != "other POST /back b "+stripped || seen[2] != "own POST /end b "+stripped {
		t.Errorf("away and back: %+v %q", r, seen)
	}
	if r, seen := ask("GET", "/loop", "302"); len(seen) != 11 || r.Status != 302 || !strings.Contains(r.Error, "more than 10 redirects") {
		t.Errorf("a loop: %+v %q", r, seen)
	}
	if r, _ := ask("GET", "/ftp", "302"); r.Status != 302 || !strings.Contains(r.Error, "not followed: to ftp://h/x") {
		t.Errorf("to another scheme: %+v", r)
	}
}

// A large answer is not read to its end, nor waited for.
func TestHTTP_AGigabyte(t *testing.T) {
	wrote := make(chan int64, 1)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n, chunk := int64(0), bytes.Repeat([]byte("x"), 1<<20)
		for range 1 << 10 {
			m, err := w.Write(chunk)
			if n += int64(m); err != nil {
				break
			}
		}
		wrote <- n
	})
	r := send(t, asks(jobs.Request{URL: s.URL}))
	if r.Status != 200 || r.Ending != jobs.Answered || len(r.Output.Head)+len(r.Output.Tail) > keptHead+keptTail {
		t.Errorf("%+v", r)
	}
	if n := <-wrote; n > 64<<20 {
		t.Errorf("%d bytes were taken", n)
	}
}

// What is packed stays so: a small answer can't become a large one.
func TestHTTP_NotUnpacked(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write([]byte("no gzip at all"))
	})
	if r := send(t, asks(jobs.Request{URL: s.URL})); r.Status != 200 || !strings.HasSuffix(text(r.Output), "no gzip at all") {
		t.Errorf("%+v", r)
	}
}

// hijack takes a connection from its server.
func hijack(t *testing.T, w http.ResponseWriter) net.Conn {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		t.Error(err)
		return nil
	}
	return c
}

func TestHTTP_Connections(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + free.Addr().String()
	free.Close()
	dropped := serve(t, func(w http.ResponseWriter, _ *http.Request) { hijack(t, w).Close() })
	reset := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		c := hijack(t, w)
		_ = c.(*net.TCPConn).SetLinger(0)
		c.Close()
	})
	short := func(code string) *httptest.Server {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			c := hijack(t, w)
			fmt.Fprintf(c, "HTTP/1.1 %s X\r\nContent-Length: 100\r\n\r\nhalf", code)
			c.Close()
		})
	}
	rubbish := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		c := hijack(t, w)
		fmt.Fprint(c, "SSH-2.0-x\r\n")
		c.Close()
	})
	plain := strings.Replace(dropped.URL, "http://", "https://", 1)
	for _, c := range []struct {
		name, url string
		ending    jobs.Ending
		said      string
	}{
		{"Refused", refused, jobs.Unreached, "connection refused by 127.0.0.1:"},
		{"NoHost", "http://no-such-host.invalid/", jobs.Unreached, "(DNS)"},
		{"NoTLS", plain, jobs.Unreached, "TLS: the server does not speak it"},
		{"Dropped", dropped.URL, jobs.Severed, "the server closed the connection without a whole answer"},
		{"Reset", reset.URL, jobs.Severed, "connection reset by the server"},
		{"HalfA200", short("200").URL, jobs.Severed, "without a whole answer"},
		{"HalfA404", short("404").URL, jobs.Answered, ""},
		{"Rubbish", rubbish.URL, jobs.Severed, "malformed HTTP"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := send(t, asks(jobs.Request{URL: c.url, Method: "POST", Body: "b"}))
			if r.Ending != c.ending || !strings.Contains(r.Error, c.said) || r.Unsent != (c.ending == jobs.Unreached) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// hangs is a server that never answers, and says when it was asked.
func hangs(t *testing.T) (s *httptest.Server, asked chan struct{}) {
	asked, end := make(chan struct{}, 9), make(chan struct{})
	s = serve(t, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-end:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(end) }) // before the server is closed, which waits
	return s, asked
}

func TestHTTP_Timeout(t *testing.T) {
	s, _ := hangs(t)
	a := asks(jobs.Request{URL: s.URL})
	a.Spec.Policy.Timeout = 50 * time.Millisecond
	if r := send(t, a); r.Ending != jobs.TimedOut || r.Unsent {
		t.Errorf("%+v", r)
	}
	// A body that never ends is no answer either.
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("begun"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	a = asks(jobs.Request{URL: slow.URL})
	a.Spec.Policy.Timeout = 50 * time.Millisecond
	if r := send(t, a); r.Ending != jobs.TimedOut || !strings.HasSuffix(text(r.Output), "begun") {
		t.Errorf("%+v", r)
	}
}

func TestHTTP_Stop(t *testing.T) {
	for _, c := range []struct {
		name string
		ctx  error
		kill bool
		want jobs.Ending
	}{{"Stop", ErrStopped, false, jobs.Stopped}, {"Lost", ErrLost, false, jobs.Lost}, {"Kill", nil, true, jobs.Stopped}} {
		t.Run(c.name, func(t *testing.T) {
			s, asked := hangs(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			kill, killed := context.WithCancel(context.Background())
			defer killed()
			go func() {
				<-asked
				if c.kill {
					killed()
				} else {
					cancel(c.ctx)
				}
			}()
			r, p := newRunner(t).Run(ctx, kill, asks(jobs.Request{URL: s.URL}))
			p.Close()
			cancel(nil)
			if r.Ending != c.want || r.Unsent {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TLS errors say which of them it is.
func TestHTTP_TLS(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(answers))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	known := func(r *Runner) {
		pool := x509.NewCertPool()
		pool.AddCert(s.Certificate())
		r.transport(&jobs.Spec{}).TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	r := newRunner(t)
	if got := sendBy(t, r, asks(jobs.Request{URL: s.URL + "/200"})); got.Ending != jobs.Unreached || got.Error != "TLS: the certificate is signed by an unknown authority" {
		t.Errorf("%+v", got)
	}
	r = newRunner(t)
	known(r)
	if got := sendBy(t, r, asks(jobs.Request{URL: s.URL + "/200"})); got.Status != 200 {
		t.Errorf("%+v", got)
	}
	r = newRunner(t)
	known(r)
	r.clients.kept.TLSClientConfig.ServerName = "other.example.org"
	if got := sendBy(t, r, asks(jobs.Request{URL: s.URL + "/200"})); got.Ending != jobs.Unreached || !strings.HasPrefix(got.Error, "TLS: wrong host: ") {
		t.Errorf("%+v", got)
	}
	r = newRunner(t)
	known(r)
	r.clients.kept.TLSClientConfig.Time = func() time.Time { return s.Certificate().NotAfter.Add(time.Hour) }
	if got := sendBy(t, r, asks(jobs.Request{URL: s.URL + "/200"})); got.Ending != jobs.Unreached || !strings.HasPrefix(got.Error, "TLS: the certificate has expired") {
		t.Errorf("%+v", got)
	}
}

// Connections are used again, and never more of them than can be in flight.
func TestHTTP_KeptAlive(t *testing.T) {
	const width = 4
	var mu sync.Mutex
	opened, open, most := 0, 0, 0
	// All of them are in the air together, each time.
	arrived, together := 0, make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		others := together
		if arrived++; arrived == width {
			arrived, together = 0, make(chan struct{})
			close(others)
		}
		mu.Unlock()
		<-others
		answers(w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		mu.Lock()
		defer mu.Unlock()
		switch state {
		case http.StateNew:
			opened, open = opened+1, open+1
			most = max(most, open)
		case http.StateClosed:
			open--
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	r := newRunner(t)
	r.Connections(width)
	var all sync.WaitGroup
	for range width {
		all.Go(func() {
			for range 50 {
				if got := sendBy(t, r, asks(jobs.Request{URL: s.URL + "/404"})); got.Status != 404 {
					t.Errorf("%+v", got)
				}
			}
		})
	}
	all.Wait()
	mu.Lock()
	defer mu.Unlock()
	if most > width || opened > 2*width {
		t.Errorf("%d opened, %d at once", opened, most)
	}
}

// What must not be repeated is never sent a second time by net/http itself,
// which does so where a kept connection breaks and the request has a key.
func TestHTTP_OnCrashDeadIsSentOnce(t *testing.T) {
	var asked atomic.Int64
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 1 {
			hijack(t, w).Close()
		}
	})
	a := asks(jobs.Request{URL: s.URL, Method: "POST", Body: "b"})
	a.Spec.Policy.OnCrash = jobs.CrashDead
	r := newRunner(t)
	sendBy(t, r, a)
	if got := sendBy(t, r, a); got.Ending != jobs.Severed || asked.Load() != 2 {
		t.Errorf("asked %d times: %+v", asked.Load(), got)
	}
}

func TestHTTP_PrintAndLog(t *testing.T) {
	s := serve(t, answers)
	a := asks(jobs.Request{URL: s.URL + "/404"})
	a.Print, a.LogDir = true, t.TempDir()
	_, p := newRunner(t).Run(t.Context(), context.Background(), a)
	defer p.Close()
	var b bytes.Buffer
	if _, err := p.Stdout.WriteTo(&b); err != nil || b.String() != "first\nlast of 404\n" {
		t.Errorf("printed %q, %v", b.String(), err)
	}
	logged, err := os.ReadFile(filepath.Join(a.LogDir, "j", "7-2.log"))
	if err != nil || !strings.HasPrefix(string(logged), "HTTP/1.1 404 Not Found\n") || !strings.HasSuffix(string(logged), "last of 404\n") {
		t.Errorf("logged %q, %v", logged, err)
	}
}

func TestConnectionError(t *testing.T) {
	for want, err := range map[string]error{
		"the name h could not be looked up (DNS): i/o timeout": &net.DNSError{Name: "h", Err: "i/o timeout", IsTimeout: true},
		"something else": errors.New("something else"),
	} {
		if got := connectionError(fmt.Errorf("x: %w", err)); got != want && got != "x: "+want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
