package main

import (
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
	"time"

	"github.com/bastide-cloud/bastide/internal/store"
)

// progress shows the progress of a command, if its output is a terminal.
type progress struct {
	w     io.Writer // nil: not a terminal
	verb  string
	total int64 // in any unit; 0: not known
	now   func() time.Time

	began, shown time.Time
}

func newProgress(w io.Writer, verb string, total int64, now func() time.Time) *progress {
	p := &progress{verb: verb, total: total, now: now}
	if isTerminal(w) {
		p.w, p.began = w, now()
	}
	return p
}

// isTerminal reports whether w is a character device. That includes /dev/null,
// which does no harm.
func isTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0
}

// The bar's width, and the time between its updates.
const (
	barWidth = 30
	barPause = 100 * time.Millisecond
)

// show shows how much of the total is done, and the number of rows.
func (p *progress) show(done int64, rows int) {
	if p.w == nil {
		return
	}
	now := p.now()
	if now.Sub(p.shown) < barPause {
		return
	}
	p.shown = now
	line, took := p.verb, now.Sub(p.began)
	part := min(float64(done)/float64(max(p.total, 1)), 1)
	if p.total > 0 {
		filled := int(part * barWidth)
		line += fmt.Sprintf(" [%s%s] %3d%%", strings.Repeat("#", filled), strings.Repeat(".", barWidth-filled), int(part*100))
	}
	line += fmt.Sprintf(" %d rows", rows)
	if took > 0 {
		line += fmt.Sprintf(", %.0f a second", float64(rows)/took.Seconds())
	}
	if p.total > 0 && part > 0 {
		line += fmt.Sprintf(", %s left", time.Duration(float64(took)*(1-part)/part).Round(time.Second))
	}
	fmt.Fprintf(p.w, "\r\x1b[K%s", line)
}

// watch passes batches on and shows the progress. done returns how much of the
// total is done; nil: the total counts rows.
func (p *progress) watch(batches iter.Seq2[store.Batch, error], done func() int64) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		rows := 0
		if done == nil {
			done = func() int64 { return int64(rows) }
		}
		for b, err := range batches {
			if !yield(b, err) {
				return
			}
			rows += len(b.Rows)
			p.show(done(), rows)
		}
	}
}

// end removes the bar.
func (p *progress) end() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
