package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/store"
)

// terminal is a terminal to whoever asks, and keeps what is shown.
type terminal struct{ bytes.Buffer }

func (*terminal) Stat() (fs.FileInfo, error) { return terminalInfo{}, nil }

type terminalInfo struct{ fs.FileInfo }

func (terminalInfo) Mode() fs.FileMode { return fs.ModeDevice | fs.ModeCharDevice | 0o620 }

// shown are the lines that were shown, one in place of the other.
func (w *terminal) shown() []string {
	return strings.Split(strings.ReplaceAll(w.String(), "\x1b[K", ""), "\r")[1:]
}

func TestProgress(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	clock := func() time.Time { return now }
	type step struct {
		after time.Duration
		done  int64
		rows  int
		want  string // empty: nothing is shown
	}
	for _, c := range []struct {
		name  string
		total int64
		steps []step
	}{
		{"rows", 1000, []step{
			{0, 0, 0, "moving [..............................]   0% 0 rows"},
			{50 * time.Millisecond, 10, 10, ""},
			{950 * time.Millisecond, 250, 250, "moving [#######.......................]  25% 250 rows, 250 a second, 3s left"},
			{time.Second, 999, 999, "moving [#############################.]  99% 999 rows, 500 a second, 0s left"},
			{time.Minute, 1000, 1000, "moving [##############################] 100% 1000 rows, 16 a second, 0s left"},
		}},
		{"bytes, which are read ahead", 1 << 20, []step{
			{2 * time.Second, 1 << 19, 4000, "moving [###############...............]  50% 4000 rows, 2000 a second, 2s left"},
			{2 * time.Second, 1 << 21, 8000, "moving [##############################] 100% 8000 rows, 2000 a second, 0s left"},
		}},
		{"an end that is not known", 0, []step{
			{2 * time.Second, 1 << 19, 4000, "moving 4000 rows, 2000 a second"},
		}},
	} {
		w := &terminal{}
		p := newProgress(w, "moving", c.total, clock)
		want := []string{}
		for _, s := range c.steps {
			now = now.Add(s.after)
			p.show(s.done, s.rows)
			if s.want != "" {
				want = append(want, s.want)
			}
			if got := strings.Join(w.shown(), "\n"); got != strings.Join(want, "\n") {
				t.Fatalf("%s: shown is\n%s\nwant\n%s", c.name, got, strings.Join(want, "\n"))
			}
		}
		p.end()
		if got := w.shown(); got[len(got)-1] != "" {
			t.Errorf("%s: in the end %q is left", c.name, got[len(got)-1])
		}
	}
}

// What passes is counted, and passes as it is.
func TestProgressWatches(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	batches := func(yield func(store.Batch, error) bool) {
		_ = yield(store.Batch{Account: "a", Rows: make([]store.Row, 300)}, nil) &&
			yield(store.Batch{Account: "b", Rows: make([]store.Row, 100)}, nil) && yield(store.Batch{}, broken)
	}
	w := &terminal{}
	now := time.Unix(1_700_000_000, 0)
	p := newProgress(w, "moving", 800, func() time.Time { now = now.Add(time.Second); return now })
	var passed string
	var last error
	for b, err := range p.watch(batches, nil) {
		passed, last = passed+b.Account, err
	}
	if passed != "ab" || last != broken {
		t.Errorf("%q passed, and at last %v", passed, last)
	}
	got := w.shown()
	if len(got) != 3 || !strings.Contains(got[0], " 37% 300 rows") || !strings.Contains(got[1], " 50% 400 rows") {
		t.Errorf("shown is %q", got)
	}
	for range p.watch(batches, nil) {
		break
	}
}

func TestProgressIsForTerminals(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if isTerminal(file) || isTerminal(pipe) || isTerminal(&bytes.Buffer{}) || !isTerminal(&terminal{}) {
		t.Error("a file, a pipe or a buffer is taken for a terminal, or a terminal is not")
	}
	p := newProgress(file, "moving", 10, time.Now)
	p.show(5, 5)
	p.end()
	if info, err := file.Stat(); err != nil || info.Size() > 0 {
		t.Errorf("%d bytes were shown to a file (%v)", info.Size(), err)
	}
}
