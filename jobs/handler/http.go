package handler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"batchq/jobs"
)

const (
	// connectTimeout is apart from the total: a host that is not there is found
	// out long before a slow answer is given up.
	connectTimeout = 10 * time.Second
	// readBody is what is read of a body to have its connection again; after it
	// a new connection costs less.
	readBody = 1 << 20
	// wholeBody is the most that is read where a person asked for all of it.
	wholeBody = 64 << 20
	// maxRedirects is how far a request is led, as by curl -L and browsers.
	maxRedirects = 10
	// shownHeader bounds one line of the head that is kept.
	shownHeader = 200
)

// errTimeout is the cause with which a request is cancelled at its timeout.
var errTimeout = errors.New("timeout")

// clients are the connections of a run. Both are made at the first request.
type clients struct {
	kept *http.Transport
	// once opens a connection for each request. What must not be repeated is sent
	// by it: net/http sends a request with an Idempotency-Key a second time when
	// a connection that was kept turns out to be dead.
	once *http.Transport
}

// Connections bounds the connections of later requests: at most n to a host,
// which is what can be in flight. It is for who begins or reloads a run.
func (r *Runner) Connections(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.width == n {
		return
	}
	r.width = n
	r.clients.close()
	r.clients = clients{}
}

func (c *clients) close() {
	for _, t := range []*http.Transport{c.kept, c.once} {
		if t != nil {
			t.CloseIdleConnections()
		}
	}
}

func (r *Runner) transport(spec *jobs.Spec) *http.Transport {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clients.kept == nil {
		r.clients.kept = newTransport(r.width)
		r.clients.once = newTransport(r.width)
		r.clients.once.DisableKeepAlives = true
	}
	if spec.Policy.OnCrash == jobs.CrashDead {
		return r.clients.once
	}
	return r.clients.kept
}

func newTransport(width int) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout:   connectTimeout,
		ExpectContinueTimeout: time.Second,
		IdleConnTimeout:       90 * time.Second, // as net/http's own default
		MaxConnsPerHost:       width,
		MaxIdleConnsPerHost:   width,
		ForceAttemptHTTP2:     true,
		// Nothing is unpacked: a small answer can't become a large one.
		DisableCompression: true,
	}
}

// exchange is one attempt of an HTTP job under way.
type exchange struct {
	*Runner
	*Attempt
	ctx       context.Context
	message   *message
	transport *http.Transport
	// connected: a request may be on its way. It is set by goroutines of net/http.
	connected atomic.Bool

	out, body mixed // all of it, and the body alone
	log       *os.File
	result    jobs.Result
	printed   Printed
}

// request executes one attempt of an HTTP job.
func (r *Runner) request(ctx, kill context.Context, a Attempt) (jobs.Result, Printed) {
	begin := time.Now()
	x := &exchange{Runner: r, Attempt: &a}
	var err error
	if x.message, err = compose(&a, r.lookupEnv); err != nil {
		x.result.Ending, x.result.Error = jobs.Unresolved, err.Error()
		if errors.As(err, new(brokenJob)) {
			x.result.Ending = jobs.CantExec
		}
		return x.result, x.printed
	}
	x.transport = r.transport(a.Spec)
	asked, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(kill, func() { cancel(context.Cause(kill)) })()
	if timeout := a.Spec.Policy.Timeout; timeout > 0 {
		timer := time.AfterFunc(timeout, func() { cancel(errTimeout) })
		defer timer.Stop()
	}
	x.ctx = httptrace.WithClientTrace(asked, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { x.connected.Store(true) }})
	x.openLog()
	if err := x.exchange(); err != nil {
		x.failed(kill, err)
	}
	x.close()
	x.result.Output = x.out.output()
	x.result.Duration = time.Since(begin)
	return x.result, x.printed
}

// exchange sends the request, goes where it is led, and takes the answer.
func (x *exchange) exchange() error {
	to, err := url.Parse(x.message.url)
	if err != nil {
		return err // compose has parsed it
	}
	first, headers := to, x.message.headers
	for hops := 0; ; hops++ {
		answer, err := x.send(to, headers, hostOf(to) == hostOf(first))
		if err != nil {
			return err
		}
		next, why := x.leads(answer, hops)
		if next == nil {
			x.result.Error = why
			return x.take(answer)
		}
		x.skip(answer)
		// Once it has been elsewhere it has no secrets any more: who leads it
		// back chooses where to.
		if hostOf(next) != hostOf(first) || to.Scheme == "https" && next.Scheme == "http" {
			headers = x.message.elsewhere()
		}
		to = next
	}
}

func (x *exchange) send(to *url.URL, headers http.Header, own bool) (*http.Response, error) {
	var body io.Reader
	if x.message.body != "" {
		body = strings.NewReader(x.message.body)
	}
	req, err := http.NewRequestWithContext(x.ctx, x.message.method, to.String(), body)
	if err != nil {
		return nil, err
	}
	req.Header = headers.Clone() // a transport may keep it
	if own {
		req.Host = x.message.host
	}
	return x.transport.RoundTrip(req)
}

// leads says where an answer leads; nil where it is the last, and then perhaps
// why it is not followed.
func (x *exchange) leads(answer *http.Response, hops int) (next *url.URL, why string) {
	switch answer.StatusCode {
	case 307, 308: // the same request once more
	case 301, 302, 303:
		if m := x.message.method; m != "GET" && m != "HEAD" {
			// Browsers make a GET of it. The work would not be done, and look so.
			return nil, fmt.Sprintf("a %s is not led on by it: it would become a GET (to %s)", m, x.location(answer))
		}
	default:
		return nil, ""
	}
	if answer.Header.Get("Location") == "" {
		return nil, "it says not where to"
	}
	next, err := answer.Location()
	switch {
	case err != nil:
		return nil, "its Location is no URL"
	case next.Scheme != "http" && next.Scheme != "https":
		return nil, "not followed: to " + x.location(answer)
	case hops == maxRedirects:
		return nil, fmt.Sprintf("more than %d redirects, the last to %s", maxRedirects, x.location(answer))
	}
	next.User = nil // a server's own idea of credentials
	return next, ""
}

// location is where an answer leads, for a sentence.
func (x *exchange) location(answer *http.Response) string {
	return cut(strings.ToValidUTF8(answer.Header.Get("Location"), "\ufffd"), shownHeader)
}

// skip reads what little a redirect says, so that its connection can be used.
func (x *exchange) skip(answer *http.Response) {
	_, _ = io.CopyN(io.Discard, answer.Body, keptTail)
	answer.Body.Close()
}

// take keeps an answer.
func (x *exchange) take(answer *http.Response) error {
	defer answer.Body.Close()
	r := &x.result
	r.Ending, r.Status, r.StatusText = jobs.Answered, answer.StatusCode, statusText(answer)
	r.Location = x.location(answer)
	r.RetryAfter = jobs.ParseRetryAfter(answer.Header.Get("Retry-After"), serverTime(answer))
	x.out.write(head(answer))
	if x.log != nil {
		x.logged(head(answer))
	}
	most := int64(readBody)
	if x.Print || x.log != nil {
		most = wholeBody
	}
	n, err := io.Copy(bodyWriter{x}, io.LimitReader(answer.Body, most))
	if n == most && most == wholeBody {
		x.note("only the first %d MiB of the answer were read", wholeBody>>20)
	}
	if !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/html") {
		r.Said = x.body.output().LastLine()
	}
	switch {
	case err == nil, x.ctx.Err() == nil && r.Status >= 300:
		// What the server thinks of it is known, whatever is missing.
		return nil
	default:
		return fmt.Errorf("HTTP %d, and its body broke off after %d bytes: %w", r.Status, n, err)
	}
}

// bodyWriter is where a body goes.
type bodyWriter struct{ *exchange }

func (w bodyWriter) Write(b []byte) (int, error) {
	w.out.write(b)
	w.body.write(b)
	if w.log != nil {
		w.logged(b)
	}
	if w.Print {
		w.printed.Stdout.keep(b, func() (*os.File, error) { return w.temp.file(w.uniqueName("output-")) })
	}
	return len(b), nil
}

// statusText is the server's own word for its status, as far as it is one.
func statusText(answer *http.Response) string {
	if text := http.StatusText(answer.StatusCode); text != "" {
		return text
	}
	_, text, _ := strings.Cut(answer.Status, " ")
	return cut(strings.ToValidUTF8(text, "\ufffd"), shownHeader)
}

// serverTime is the time by the clock that a date in the answer is from.
func serverTime(answer *http.Response) time.Time {
	if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		return at
	}
	return time.Now()
}

// telling are the headers of an answer that help to understand it. Others may be
// secrets, as a cookie is.
var telling = []string{"Content-Type", "Content-Encoding", "Date", "Location", "Retry-After", "Server", "Www-Authenticate", "X-Request-Id"}

// head is the status line and what of the headers is kept.
func head(answer *http.Response) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s\n", answer.Proto, answer.Status)
	for _, name := range telling {
		for _, value := range answer.Header.Values(name) {
			fmt.Fprintf(&b, "%s: %s\n", name, cut(value, shownHeader))
		}
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// failed says why there is no whole answer.
func (x *exchange) failed(kill context.Context, err error) {
	r := &x.result
	*r = jobs.Result{Ending: jobs.Severed, Unsent: !x.connected.Load()}
	told := context.Cause(x.ctx)
	switch {
	case told == nil:
		r.Error = connectionError(err)
		if r.Unsent {
			r.Ending = jobs.Unreached
		}
	case errors.Is(told, errTimeout):
		r.Ending = jobs.TimedOut
		if r.Unsent {
			r.Error = "there was no connection to " + x.host()
		}
	default:
		r.Ending, _, _ = interrupted(x.ctx, kill)
	}
}

func (x *exchange) host() string {
	u, err := url.Parse(x.message.url)
	if err != nil {
		return x.message.url
	}
	return u.Host
}

func (x *exchange) openLog() {
	if x.LogDir == "" {
		return
	}
	var err error
	if x.log, err = openLog(x.Attempt); err != nil {
		x.note("no log: %s", err)
	}
}

func (x *exchange) logged(b []byte) {
	if x.log == nil {
		return
	}
	if _, err := x.log.Write(b); err != nil {
		x.note("the log is not whole: %s", err)
		x.log.Close()
		x.log = nil
	}
}

func (x *exchange) note(format string, args ...any) {
	x.printed.Notes = append(x.printed.Notes, fmt.Sprintf(format, args...))
}

func (x *exchange) close() {
	if x.log != nil {
		if err := x.log.Close(); err != nil {
			x.note("the log is not whole: %s", err)
		}
	}
	if s := &x.printed.Stdout; s.err != nil {
		x.note("not all of the answer is kept for printing: %s", s.err)
	}
}

// lookupEnv asks the environment that the run was started with.
func (r *Runner) lookupEnv(name string) (value string, set bool) { return variable(r.base, name) }

func variable(environ []string, name string) (value string, set bool) {
	i := slices.IndexFunc(environ, func(entry string) bool { return strings.HasPrefix(entry, name+"=") })
	if i < 0 {
		return "", false
	}
	return environ[i][len(name)+1:], true
}
