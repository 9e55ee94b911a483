package apilog

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const mebibyte = 1 << 20

// filler makes rows of 32 KiB that cannot be compressed, and remembers their
// ids.
type filler struct {
	source *rand.ChaCha8
	ids    []string
}

func newFiller() *filler { return &filler{source: rand.NewChaCha8([32]byte{1})} }

// fill appends rows from a date on and flushes after each MiB.
func (f *filler) fill(t *testing.T, l *Archive, mebibytes int, date time.Time) {
	t.Helper()
	half := make([]byte, 16<<10)
	for range mebibytes {
		for range 32 {
			_, _ = f.source.Read(half) // never fails
			r := call(alice, fmt.Sprint(len(f.ids)), date)
			r.PayloadRaw = hex.EncodeToString(half)
			l.Append(r)
			f.ids = append(f.ids, r.RequestID)
			date = date.Add(time.Millisecond)
		}
		if err := l.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// bytesOf is the room that a log takes.
func bytesOf(t *testing.T, l *Archive) (bytes int64) {
	t.Helper()
	sizes, err := l.days.sizes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sizes {
		bytes += s.bytes
	}
	return bytes
}

// The oldest days go when the log reaches its bound, and no more of them than
// must.
func TestTheOldestDaysGoAtTheBound(t *testing.T) {
	t.Parallel()
	everyStorage(t, func(t *testing.T, o Options) {
		o.Size = 34 * mebibyte // a file also has a write-ahead log of some MiB
		l := openLog(t, o)
		days := []*filler{newFiller(), newFiller(), newFiller()}
		for i, f := range days {
			f.fill(t, l, 12, start.Add(time.Duration(i)*24*time.Hour))
		}
		if got := bytesOf(t, l); got > o.Size+2*mebibyte {
			t.Errorf("the log takes %d MiB, want about %d at most", got/mebibyte, o.Size/mebibyte)
		}
		want := slices.Concat(days[1].ids, days[2].ids)
		if got := ids(t, l, query(alice)); !slices.Equal(got, want) {
			t.Errorf("the log has %d calls, want the %d of the last two days", len(got), len(want))
		}
		if o.Dir == "" && o.Postgres == nil {
			return
		}
		// A bound that was lowered holds from the start.
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		o.Size = 16 * mebibyte
		if got := ids(t, openLog(t, o), query(alice)); !slices.Equal(got, days[2].ids) {
			t.Errorf("after a start with less room the log has %d calls, want the %d of today", len(got), len(days[2].ids))
		}
	})
}

// One day that is larger than the bound loses its oldest calls.
func TestTheOldestCallsOfTodayGoAtTheBound(t *testing.T) {
	t.Parallel()
	everyStorage(t, func(t *testing.T, o Options) {
		o.Size = 16 * mebibyte
		l := openLog(t, o)
		f := newFiller()
		for hour := range 8 {
			f.fill(t, l, 5, start.Add(48*time.Hour).Add(time.Duration(hour)*time.Hour))
			if got := bytesOf(t, l); got > 22*mebibyte { // and the write-ahead log of SQLite
				t.Errorf("the log takes %d MiB, want about 16 at most", got/mebibyte)
			}
		}
		got := ids(t, l, query(alice))
		if len(got) == 0 || !slices.Equal(got, f.ids[len(f.ids)-len(got):]) {
			t.Errorf("the log has %d calls, and not the last ones", len(got))
		}
		if least := 32 * 13; o.Postgres == nil && len(got) < least {
			t.Errorf("the log has %d calls, and room for more than %d", len(got), least)
		}
	})
}
