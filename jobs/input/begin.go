package input

import (
	"bufio"
	"io"
)

// begin looks at the first bytes: it steps over a UTF-8 byte order mark and
// refuses what is no text, rather than enqueue a million pieces of it.
func (r *Reader) begin() error {
	in := r.src.in
	for _, packed := range []struct{ magic, what, tool string }{
		{"\x1f\x8b", "gzip", "zcat"},
		{"\xfd7zXZ\x00", "xz", "xzcat"},
		{"\x28\xb5\x2f\xfd", "zstd", "zstdcat"},
	} {
		found, err := startsWith(in, packed.magic)
		if err != nil {
			return err
		}
		if found {
			return r.src.unusable(0, "looks %s-compressed: use %s FILE | batchq enqueue", packed.what, packed.tool)
		}
	}
	if r.format == NUL {
		// File names are bytes: they may begin with anything.
		return nil
	}
	for _, mark := range []string{"\xff\xfe", "\xfe\xff"} {
		found, err := startsWith(in, mark)
		if err != nil {
			return err
		}
		if found {
			return r.src.unusable(0, "looks like UTF-16: use iconv -f UTF-16 -t UTF-8 FILE | batchq enqueue")
		}
	}
	const mark = "\xef\xbb\xbf"
	found, err := startsWith(in, mark)
	if found {
		_, err = in.Discard(len(mark))
	}
	return err
}

// startsWith asks for one byte more only while the ones before agree, so that
// a producer that has written "a\n" and waits is not waited for.
func startsWith(in *bufio.Reader, prefix string) (bool, error) {
	for i := range len(prefix) {
		head, err := in.Peek(i + 1)
		if err == io.EOF {
			return false, nil
		}
		// bufio forgets an error once it has told it, so it is passed on here.
		if err != nil {
			return false, err
		}
		if head[i] != prefix[i] {
			return false, nil
		}
	}
	return true, nil
}
