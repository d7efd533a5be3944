package report

import "batchq/jobs/handler"

// Request is what an HTTP job sends for one item.
type Request struct {
	Method     string            `json:"method"`
	URL        string            `json:"url"`
	Headers    map[string]string `json:"headers"` // of a secret "env:NAME"
	Body       string            `json:"body"`    // "" where it is the payload, or there is none
	BodyBase64 string            `json:"body_base64,omitempty"`
	Payload    bool              `json:"payload"` // the body is the payload
}

func newRequest(sent *handler.Sent) *Request {
	out := &Request{Method: sent.Method, URL: escapeInvalid(sent.URL), Headers: map[string]string{}, Payload: sent.Payload}
	out.Body, out.BodyBase64 = bytesInJSON([]byte(sent.Body))
	for _, h := range sent.Headers {
		value := escapeInvalid(h.Value)
		if h.Variable != "" {
			value = "env:" + h.Variable
		}
		out.Headers[h.Name] = value
	}
	return out
}
