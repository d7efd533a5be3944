package report

import (
	"io"
	"os"
	"strings"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"
	"github.com/vbauerster/cupwriter"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Watch is what a long command shows while it is at work.
type Watch struct {
	// Terminal is where a bar is drawn, and Screen who prints there; nil: nowhere.
	Terminal *os.File
	Screen   Screen
	// Standing says how far the command has come; it must not block for long.
	Standing func() Standing
	// Look, where there is one, brings Standing up to date. It may take its time.
	Look func()
	// Asked brings a person's wish for a line, which Say then prints.
	Asked <-chan os.Signal
	Say   func(line string)
}

// Screen is who prints on a terminal. Neither method may be called while
// something that is printed there waits for Standing.
type Screen interface {
	// Above lets all that is printed go through w, which puts whole lines
	// above the bar.
	Above(w io.Writer)
	// Direct calls remove, which takes the bar away, while nothing is printed;
	// from then on what is printed goes its usual way.
	Direct(remove func())
}

const (
	// barAfter is how long a command may take without a bar: one that is over
	// at once must not flicker.
	barAfter = time.Second
	// lookEvery is how often what others do is looked for. Looking takes at
	// most a fiftieth of the time.
	lookEvery = time.Second
	lookShare = 50
)

// Start begins to watch. The function that it returns ends that, and takes the
// bar away; whatever is printed afterwards stands where the bar was.
func (w Watch) Start() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		w.watch(end)
	}()
	return func() {
		close(end)
		<-ended
	}
}

func (w Watch) watch(end <-chan struct{}) {
	began := time.Now()
	var draw, look <-chan time.Time
	if w.Terminal != nil {
		timer := time.NewTimer(barAfter)
		defer timer.Stop()
		draw = timer.C
	}
	for {
		select {
		case <-end:
			return
		case <-w.Asked:
			w.look()
			w.Say(w.Standing().Line(time.Since(began)))
		case <-draw:
			look = time.After(w.look())
			defer w.draw(began)()
		case <-look:
			look = time.After(w.look())
		}
	}
}

// look brings the numbers up to date, and returns when to do so again.
func (w Watch) look() (pause time.Duration) {
	began := time.Now()
	if w.Look != nil {
		w.Look()
	}
	return max(lookEvery, lookShare*time.Since(began))
}

// draw puts the bar on the terminal, and returns what takes it away.
func (w Watch) draw(began time.Time) (remove func()) {
	cursor := cupwriter.New(fromLeft{w.Terminal}, false)
	cursor.SetTermFd(int(w.Terminal.Fd()))
	bars := mpb.New(mpb.WithConsoleWriter(cursor))
	style := mpb.BarStyle().Build()
	bar, err := bars.Add(0, mpb.BarFillerFunc(func(to io.Writer, st decor.Statistics) error {
		return w.Standing().draw(to, style, st.AvailableWidth, time.Since(began))
	}), mpb.BarFillerTrim())
	if err != nil {
		return func() {} // only who has waited for its end is told that it has ended
	}
	w.Screen.Above(bars)
	return func() {
		w.Screen.Direct(func() {
			bar.Abort(true)
			bars.Wait()
		})
	}
}

// fromLeft begins at the left edge: what is typed, a Ctrl-C for one, is echoed
// where the cursor stands, and moves it.
type fromLeft struct{ io.Writer }

func (f fromLeft) Write(p []byte) (int, error) {
	if _, err := f.Writer.Write(append([]byte("\r"), p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// barWidth is how much of a terminal's width the bar itself takes; it does not
// depend on what stands beside it, or it would never be still.
func barWidth(width int) int { return min(30, width/6) }

const barLeast = 8

// draw writes a line for a terminal of the given width: the amount, a bar where
// there is room and the end is known, the rest as far as there is room.
func (s Standing) draw(to io.Writer, bar mpb.BarFiller, width int, elapsed time.Duration) error {
	before, after := s.amount(), strings.Join(s.rest(elapsed), "  ")
	share, room := s.share(), barWidth(width)
	if share > 0 {
		after = strings.TrimSuffix(percent(share)+"  "+after, "  ")
	}
	left := width - twwidth.Width(before) - room - len("  ")
	if share == 0 || room < barLeast || left < 0 {
		_, err := io.WriteString(to, cutTo(strings.TrimSuffix(before+"  "+after, "  "), width))
		return err
	}
	if _, err := io.WriteString(to, before+" "); err != nil {
		return err
	}
	const whole = 1000
	if err := bar.Fill(to, decor.Statistics{AvailableWidth: room, Total: whole, Current: int64(share * whole)}); err != nil {
		return err
	}
	_, err := io.WriteString(to, " "+cutTo(after, left))
	return err
}
