package sqljournal

import (
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/store"
)

// benchBatches are rows of 1,000 accounts, in the order of a dump, with
// documents about as large as that of a VM.
func benchBatches(rows int) iter.Seq2[store.Batch, error] {
	text := strings.Repeat("x", 850)
	return func(yield func(store.Batch, error) bool) {
		for a := range 1000 {
			b := store.Batch{Account: fmt.Sprintf("%012d", a), Version: 1}
			for n := range rows / 1000 {
				id := fmt.Sprintf("i-%08x", n)
				b.Rows = append(b.Rows, store.Row{Kind: "box", ID: id, Version: 1, Seq: uint64(n + 1),
					Doc: fmt.Appendf(nil, `{"Name":"name %d","Text":"%s"}`, n, text)})
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

// BenchmarkDump fills a journal, as durably as a commit is and with its log
// copied, and dumps it.
func BenchmarkDump(b *testing.B) {
	const rows = 200_000
	dir := b.TempDir()
	fill := func(b *testing.B) {
		j, err := Open(b.Context(), dir)
		if err != nil {
			b.Fatal(err)
		}
		if err := j.Fill(b.Context(), benchBatches(rows), store.OntoStopped); err != nil {
			b.Fatal(err)
		}
		if err := j.Close(); err != nil {
			b.Fatal(err)
		}
	}
	report := func(b *testing.B) {
		b.ReportMetric(float64(b.N)*rows/b.Elapsed().Seconds(), "rows/s")
	}
	b.Run("fill", func(b *testing.B) {
		for b.Loop() {
			fill(b)
		}
		report(b)
	})
	b.Run("dump", func(b *testing.B) {
		j, err := Open(b.Context(), dir)
		if err != nil {
			b.Fatal(err)
		}
		defer j.Close()
		for b.Loop() {
			n := 0
			for batch, err := range j.Dump(b.Context()) {
				if err != nil {
					b.Fatal(err)
				}
				n += len(batch.Rows)
			}
			if n != rows {
				b.Fatalf("%d rows were dumped, want %d", n, rows)
			}
		}
		report(b)
	})
}
