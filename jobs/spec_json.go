package jobs

import (
	"encoding/json"
	"unicode/utf8"
)

// handlerBytes is what of a Handler JSON's text can't carry: words of a command
// line are bytes, and encoding/json would make U+FFFD of each that is no UTF-8,
// so that the command that is kept is not the one that was run.
type handlerBytes struct {
	Command [][]byte `json:"command,omitempty"` // base64, as every []byte in JSON
	Shell   []byte   `json:"shell,omitempty"`
	Dir     []byte   `json:"dir,omitempty"`
}

// handlerText is a Handler as it is written; Bytes stands only where the text
// beside it is not the whole truth.
type handlerText struct {
	plainHandler
	Bytes *handlerBytes `json:"bytes,omitempty"`
}

type plainHandler Handler

// MarshalJSON writes the handler so that UnmarshalJSON makes the same of it,
// byte for byte. Env comes from a TOML file, which is UTF-8.
func (h Handler) MarshalJSON() ([]byte, error) {
	out := handlerText{plainHandler: plainHandler(h)}
	text := utf8.ValidString(h.Shell) && utf8.ValidString(h.Dir)
	for _, word := range h.Command {
		text = text && utf8.ValidString(word)
	}
	if !text {
		out.Bytes = &handlerBytes{Shell: []byte(h.Shell), Dir: []byte(h.Dir)}
		for _, word := range h.Command {
			out.Bytes.Command = append(out.Bytes.Command, []byte(word))
		}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (h *Handler) UnmarshalJSON(text []byte) error {
	in := handlerText{plainHandler: plainHandler(*h)}
	if err := json.Unmarshal(text, &in); err != nil {
		return err
	}
	*h = Handler(in.plainHandler)
	if b := in.Bytes; b != nil {
		h.Shell, h.Dir, h.Command = string(b.Shell), string(b.Dir), nil
		for _, word := range b.Command {
			h.Command = append(h.Command, string(word))
		}
	}
	return nil
}
