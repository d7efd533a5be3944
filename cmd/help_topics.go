package cmd

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"batchq/jobs"
	"batchq/jobs/config"
	"batchq/jobs/handler"
	"batchq/report"
)

// topic is a page of help about what no single command tells.
type topic struct {
	name  string
	short string
	text  func(width int) string // without the title; no line over width
}

// topics are the pages of `batchq help TOPIC`, in the order of lists. What they
// say comes from the tables that the code itself goes by, so that it stays true.
var topics = []topic{
	{"config", "the keys of batchq.toml, their defaults, and where the file is", configText},
	{"input", "the formats that enqueue reads, and what is rejected", inputText},
	{"exit-codes", "what batchq's exit statuses mean, and a command's", exitCodesText},
	{"environment", "the variables that batchq reads, and those a command gets", environmentText},
}

func topicCalled(name string) *topic {
	for i := range topics {
		if topics[i].name == name {
			return &topics[i]
		}
	}
	return nil
}

// page is the whole topic as a terminal shows it.
func (t *topic) page() string {
	return "batchq " + t.name + ": " + t.short + ".\n\n" + strings.Trim(t.text(helpWidth), "\n") + "\n"
}

func topicList() string {
	var b strings.Builder
	for _, t := range topics {
		fmt.Fprintf(&b, "  %-11s  %s\n", t.name, t.short)
	}
	return b.String()
}

// entries writes names with their meanings beside them: as a table where the
// names are short, else with each meaning below its name.
func entries(b *strings.Builder, width int, pairs [][2]string) {
	const beside = 24
	names := 0
	for _, p := range pairs {
		if n := len(p[0]); n <= beside {
			names = max(names, n)
		}
	}
	indent := names + 4
	for _, p := range pairs {
		if len(p[0]) > names {
			fmt.Fprintf(b, "  %s\n%*s", p[0], indent, "")
		} else {
			fmt.Fprintf(b, "  %-*s  ", names, p[0])
		}
		b.WriteString(report.Wrap(p[1], width, indent, indent) + "\n")
	}
}

func exitCodesText(width int) string {
	all := exits{}
	for code := range exitMeaning {
		all[code] = ""
	}
	return `The exit status of batchq is never a count. 3 wins over 75; a --dry-run that
succeeded ends with 0. Each command's --help lists those that it can end with.

` + all.text() + `
A cron entry that runs again anyway takes 75 for success:

  batchq work -q; r=$?; [ $r = 75 ] || exit $r

` + commandCodesText(width)
}

// commandCodesText says what becomes of an item whose command has ended.
func commandCodesText(width int) string {
	p := jobs.DefaultPolicy()
	var signals []string
	for _, s := range jobs.PermanentSignals() {
		signals = append(signals, strings.TrimPrefix(s, "SIG"))
	}
	var b strings.Builder
	b.WriteString(`THE EXIT CODE OF A JOB'S COMMAND says what becomes of the item, unless its
answer in $BATCHQ_RESULT does:

`)
	entries(&b, width, [][2]string{
		{"0", "done"},
		{ranges(p.Codes.Permanent), "permanent: no repetition cures it; the dead-letter list at once. " +
			"The signals " + strings.Join(signals, ", ") + " and arguments that are too long count as this"},
		{ranges(p.Codes.Retry), "retry: tried again after a delay, at most max_attempts times. " +
			"Any other signal and a timeout count as this"},
		{"126, 127", "put aside, free: the command may not be there. Three different items in a row, and the job is broken"},
		{"any other", string(p.Codes.Otherwise)},
	})
	b.WriteString(`
A command that can't be executed at all breaks its job: the run stops it,
charges no item, and ends with 78. A stop by a signal charges nobody either.

A job changes this in batchq.toml:

  exit_codes = { done = [3], permanent = [65, 99], otherwise = "permanent" }

THE ANSWER is one line of JSON in the file $BATCHQ_RESULT, and goes before the
exit code. after and error may be left out:

  {"class":"retry","after":"30s","error":"the bank is closed"}

`)
	entries(&b, width, [][2]string{
		{string(jobs.ClassDone), "it is done"},
		{string(jobs.ClassRetry), "tried again, not before after is over; counts as a failure"},
		{string(jobs.ClassPermanent), "to the dead-letter list"},
		{string(jobs.ClassDefer), fmt.Sprintf("put off until after is over, free, at most defer_cap (%d) times", p.DeferCap)},
	})
	b.WriteString(answersText(width))
	b.WriteString(classesText(width))
	return b.String()
}

// answersText says what becomes of an item whose request was answered, or not.
func answersText(width int) string {
	var b strings.Builder
	b.WriteString("\n" + report.Wrap("A SERVER'S ANSWER says it for a job with http:", width, 0, 0) + "\n\n")
	entries(&b, width, [][2]string{
		{"2xx", "done"},
		{"429", "throttled: tried again, and the whole job is held until the time of Retry-After, or for as long as the item waits. 503 with Retry-After counts as this"},
		{ranges(slices.DeleteFunc(jobs.RetryStatuses(), func(s int) bool { return s == 429 })), "retry. 5xx, a timeout, and a connection that fails count as this"},
		{"any other", "permanent, also 3xx that is not followed: at most 10 redirects are, and those of 301, 302 and 303 for GET and HEAD alone"},
	})
	return b.String()
}

// classDocs says what each class means, and to whom.
var classDocs = map[jobs.Class]string{
	jobs.ClassDone:      "it succeeded",
	jobs.ClassPermanent: "no repetition cures it: dead at once",
	jobs.ClassRetry:     "it failed, and may succeed later: tried again after a delay, dead at max_attempts",
	jobs.ClassTimeout:   "a retry, because the attempt took longer than its timeout and was ended",
	jobs.ClassThrottled: "a retry, because a server said that it is too much (429, or 503 with Retry-After): its whole job is held for a while",
	jobs.ClassCrash:     "the run died while the item was running: tried again, dead at max_crashes",
	jobs.ClassDefer:     "its command asked to be put off: not charged, dead after defer_cap times",
	jobs.ClassFree:      `interrupted by a stop, or never begun for want of processes: not charged, and ready again; dead only where on_crash = "dead"`,
	jobs.ClassSuspect:   "126 or 127 from a command that has not worked yet in this run: perhaps the command is missing, so the item is not charged, and ready again",
	jobs.ClassBroken:    "the command could not be executed at all: the job's fault, so the item is not charged, and ready again",
}

// classesText explains the words that lists, show and --class have for outcomes.
func classesText(width int) string {
	var b strings.Builder
	b.WriteString("\n" + report.Wrap("CLASSES are the words for how an attempt ended in lists, in show and --class:", width, 0, 0) + "\n\n")
	var pairs [][2]string
	for _, class := range jobs.Classes() {
		pairs = append(pairs, [2]string{string(class), classDocs[class]})
	}
	entries(&b, width, pairs)
	return b.String()
}

// ranges lists numbers, runs of three or more as 64-68.
func ranges(numbers []int) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(numbers)))
	var parts []string
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		if j-i >= 2 {
			parts = append(parts, fmt.Sprintf("%d-%d", sorted[i], sorted[j]))
			i = j + 1
			continue
		}
		parts = append(parts, strconv.Itoa(sorted[i]))
		i++
	}
	return strings.Join(parts, ", ")
}

// environment is what batchq reads of its own environment.
var environment = map[string]string{
	"BATCHQ_DB":         "the database file, where --db is not given",
	"BATCHQ_CONFIG":     "the configuration file, where --config is not given",
	"STATE_DIRECTORY":   "the database's directory, where neither flag, BATCHQ_DB nor batchq.toml names the file; systemd sets it (StateDirectory=)",
	"XDG_DATA_HOME":     "else its batchq/batchq.db is the database (~/.local/share)",
	"XDG_CONFIG_HOME":   "where batchq/batchq.toml is looked for (~/.config)",
	"PATH":              "where commands are found, unless env of batchq.toml says another",
	"HOME":              "what ~ stands for in the defaults of the two XDG variables",
	"NO_COLOR":          "no colours if it is set to anything",
	"TERM":              "no colours if it is dumb",
	"SUDO_USER":         "who paused something, where it is set",
	"SOURCE_DATE_EPOCH": "the date on the pages that man writes, in seconds since 1970",
}

func environmentText(width int) string {
	var b strings.Builder
	b.WriteString("BATCHQ READS\n\n")
	var read [][2]string
	for _, name := range slices.Sorted(maps.Keys(environment)) {
		read = append(read, [2]string{name, environment[name]})
	}
	entries(&b, width, read)
	b.WriteString("\nThe usual ones hold too: TZ (what @today and the times of tables mean) and\nTMPDIR (where the files of BATCHQ_RESULT lie).\n")
	b.WriteString("\nA COMMAND GETS what batchq was started with, then env of batchq.toml, then\n\n")
	var given [][2]string
	for _, v := range handler.Variables() {
		given = append(given, [2]string{v.Name, v.Doc})
	}
	entries(&b, width, given)
	b.WriteString("\nIn <POOL> a letter is a capital, and _ stands for what is neither letter nor\ndigit: pool web-eu is BATCHQ_USES_WEB_EU.\n")
	return b.String()
}

// configIntro is what has to be known before the keys.
const configIntro = `The file is --config, else $BATCHQ_CONFIG, else the first that is there of
./batchq.toml, ~/.config/batchq/batchq.toml and /etc/batchq/batchq.toml. It
belongs to you or root, and nobody else may write it. An unknown key is an
error. batchq init writes a first one, with comments; batchq check says all that
is wrong with it, and what each job comes to.

A flag goes before the file, a job's own key before that of [defaults]. Times
are written like "500ms", "60s", "1h30m", "7d".
`

func configText(width int) string {
	var b strings.Builder
	b.WriteString(configIntro)
	for _, table := range keyTables(width) {
		fmt.Fprintf(&b, "\n%s\n", report.Wrap(table.title, width, 0, 0))
		for _, line := range table.lines {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// keyTable is a part of the list of keys.
type keyTable struct {
	title string
	lines []string
}

// keyTables is batchq.toml's table of keys by where they may stand.
func keyTables(width int) []keyTable {
	return []keyTable{
		{"AT THE TOP OF THE FILE", keyLines(width, config.Top)},
		{"[pools]", []string{"  NAME = SIZE", "      " + report.Wrap(poolDoc, width, 6, 6)}},
		{"[lanes.NAME], a track of its own beside serial", keyLines(width, config.Lane)},
		{"[defaults] ALONE", keyLines(width, config.Defaults)},
		{"[jobs.NAME] ALONE, one of command, shell and http", keyLines(width, config.Job)},
		{"[jobs.NAME], AND [defaults] FOR THOSE THAT DO NOT SAY", keyLines(width, config.Defaults|config.Job)},
	}
}

// poolDoc explains a table whose keys are names that people choose.
const poolDoc = "how much there is of it: a database's 15 connections. A job says what one attempt takes (uses), and no run ever starts more than fit"

// keyLines lists the keys that may stand in exactly these places.
func keyLines(width int, in config.Place) []string {
	var lines []string
	for _, k := range config.Keys() {
		if k.In != in {
			continue
		}
		head := "  " + k.Name
		if k.Default != "" {
			head += " = " + k.Default
		}
		doc := k.Doc
		if k.Flag != "" {
			doc += " (" + k.Flag + ")"
		}
		lines = append(lines, head, "      "+report.Wrap(doc, width, 6, 6))
	}
	return lines
}
