package handler

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"batchq/jobs"
)

// Doubts says what is probably a mistake in the placeholders of a command,
// without running it: each a sentence for who wrote it. None of them keeps the
// command from being run.
func Doubts(h *jobs.Handler) (doubts []string) {
	if h.Shell != "" {
		return shellDoubts(h.Shell)
	}
	for _, word := range h.Command {
		if name := bracedName(word); name != "" && !isPlaceholder(name) {
			doubts = append(doubts, fmt.Sprintf("%s is no placeholder and stays as it is; %s", word, meantBy(name)))
		}
	}
	return append(doubts, readByShell(h)...)
}

// words are the placeholders that are no field's.
var words = []string{"key", "scope", "job", "attempt"}

// bracedName is NAME where the whole word is {NAME} and NAME could be one.
func bracedName(word string) string {
	name, left := strings.CutPrefix(word, "{")
	name, right := strings.CutSuffix(name, "}")
	odd := func(c rune) bool {
		return c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	}
	if !left || !right || strings.IndexFunc(name, odd) >= 0 {
		return ""
	}
	return name
}

func meantBy(name string) string {
	if near := jobs.Nearest(name, words); near != "" {
		return fmt.Sprintf("did you mean {%s}?", near)
	}
	return fmt.Sprintf("a column or field is {.%s}", name)
}

// shellDoubts looks for placeholders in a shell text, which never gets any.
// There {} may be find's or xargs's own, where the item is used otherwise.
func shellDoubts(text string) []string {
	uses := slices.ContainsFunc([]string{"$1", "${1", "$@", "$*", "BATCHQ_KEY"}, func(s string) bool { return strings.Contains(text, s) })
	for _, p := range placeholdersIn(text) {
		switch {
		case p == "{}" && uses:
		case p == "{}" || p == "{key}":
			return []string{fmt.Sprintf(`%s stays as it is in a shell text: the item is "$1"`, p)}
		default:
			return []string{fmt.Sprintf(`%s stays as it is in a shell text: the item is "$1", the rest is in the environment and on stdin`, p)}
		}
	}
	return nil
}

// placeholdersIn lists the placeholders of a text, braces included.
func placeholdersIn(text string) (found []string) {
	for from, to := nextPlaceholder(text); from >= 0; from, to = nextPlaceholder(text) {
		found, text = append(found, text[from:to]), text[to:]
	}
	return found
}

// shells are programs that read the word after -c as a program.
var shells = []string{"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "csh", "tcsh"}

// readByShell looks for a value of the item inside the text of a `sh -c TEXT`,
// also behind env, timeout, busybox and the like: what an item holds would be
// executed. {job} and {attempt} are ours, and harmless.
func readByShell(h *jobs.Handler) (doubts []string) {
	argv := h.Command
	if h.AppendValue {
		argv = append(slices.Clone(argv), "{}")
	}
	for i, word := range argv {
		shell := filepath.Base(word)
		if !slices.Contains(shells, shell) {
			continue
		}
		text, ok := textOf(argv[i+1:])
		if !ok {
			continue
		}
		found := slices.DeleteFunc(placeholdersIn(text), func(p string) bool { return p == "{job}" || p == "{attempt}" })
		switch {
		case len(found) == 0:
		case strings.TrimSpace(text) == found[0]:
			doubts = append(doubts, fmt.Sprintf("%s is the whole text that %s reads: each item is executed as a command, whatever it says", found[0], shell))
		default:
			doubts = append(doubts, fmt.Sprintf(`%s stands in text that %s reads: an item with $(…) would be executed; give it as "$1": %s -c '… "$1"' %s %s`,
				found[0], shell, shell, shell, found[0]))
		}
	}
	return doubts
}

// textOf is the program among a shell's arguments: the first word behind the
// options, where one of them is -c, alone or among others as in -euc.
func textOf(args []string) (text string, ok bool) {
	command := false
	for i := 0; i < len(args); i++ {
		word := args[i]
		switch {
		case word == "--" && i+1 < len(args):
			return args[i+1], command
		case strings.HasPrefix(word, "--"):
		case len(word) > 1 && (word[0] == '-' || word[0] == '+'):
			command = command || word[0] == '-' && strings.Contains(word, "c")
			if last := word[len(word)-1]; last == 'o' || last == 'O' {
				i++ // -o pipefail
			}
		default:
			return word, command
		}
	}
	return "", false
}
