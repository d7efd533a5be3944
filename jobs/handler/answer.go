package handler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"batchq/jobs"
)

const (
	// maxAnswer bounds what is read of $BATCHQ_RESULT.
	maxAnswer = 64 << 10
	// maxAnswerError bounds the sentence that is kept of an answer.
	maxAnswerError = 4 << 10
)

// ParseAnswer reads the one JSON line that a command may leave:
//
//	{"class":"done|retry|permanent|defer","after":"30s","error":"…"}
//
// after is a Go duration, or seconds (as a number or as text); a negative one
// is no wish, one beyond all bounds is the longest there is. Fields that are
// not ours are left alone. Blank text is no answer: nil and no error. An
// error says what is wrong, to follow "$BATCHQ_RESULT: ".
func ParseAnswer(text []byte) (*jobs.Answer, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	var fields map[string]json.RawMessage
	lines := json.NewDecoder(bytes.NewReader(text))
	if err := lines.Decode(&fields); err != nil || fields == nil {
		return nil, fmt.Errorf("%s is no JSON object", excerpt(text))
	}
	if err := lines.Decode(&json.RawMessage{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one answer")
	}
	var answer jobs.Answer
	class, ok := fields["class"]
	if !ok {
		return nil, errors.New(`no "class"`)
	}
	if err := json.Unmarshal(class, &answer.Class); err != nil {
		return nil, fmt.Errorf("class %s is no text", excerpt(class))
	}
	switch answer.Class {
	case jobs.ClassDone, jobs.ClassRetry, jobs.ClassPermanent, jobs.ClassDefer:
	default:
		return nil, fmt.Errorf("class %s: want done, retry, permanent or defer", excerpt([]byte(answer.Class)))
	}
	if raw, ok := fields["error"]; ok {
		if err := json.Unmarshal(raw, &answer.Error); err != nil {
			return nil, fmt.Errorf("error %s is no text", excerpt(raw))
		}
		answer.Error = cut(answer.Error, maxAnswerError)
	}
	if raw, ok := fields["after"]; ok {
		after, ok := parseAfter(raw)
		if !ok {
			return nil, fmt.Errorf(`after %s: want a duration such as "30s", or seconds`, excerpt(raw))
		}
		answer.After = after
	}
	return &answer, nil
}

func parseAfter(raw json.RawMessage) (time.Duration, bool) {
	text := string(raw)
	if text == "null" {
		return 0, true
	}
	if raw[0] == '"' {
		if json.Unmarshal(raw, &text) != nil {
			return 0, false
		}
		text = strings.TrimSpace(text)
		if d, err := time.ParseDuration(text); err == nil {
			return max(d, 0), true
		}
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(seconds) {
		return 0, false
	}
	switch ns := seconds * float64(time.Second); {
	case ns <= 0:
		return 0, true
	case ns >= math.MaxInt64:
		return math.MaxInt64, true
	default:
		return time.Duration(ns), true
	}
}

// excerpt quotes the beginning of text for a message.
func excerpt(text []byte) string {
	const most = 40
	if text = bytes.TrimSpace(text); len(text) > most {
		return strconv.Quote(cut(string(text), most)) + "…"
	}
	return strconv.Quote(string(text))
}

// cut shortens s to at most n bytes without splitting a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// readAnswer reads what a command has left under name in dir, and nil where
// it left nothing. It never blocks and follows no link, whatever stands there.
func readAnswer(dir int, name string) (*jobs.Answer, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case errors.Is(err, unix.ELOOP):
		return nil, errors.New("a symbolic link and no file")
	case errors.Is(err, unix.ENXIO):
		return nil, errors.New("a socket and no file")
	case err != nil:
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("no regular file (%s)", info.Mode().Type())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("longer than %d bytes", maxAnswer)
	}
	return ParseAnswer(text)
}
