package export_test

import (
	"bufio"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/export"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/sqljournal"
)

const (
	benchAccounts = 1000
	benchRows     = 200_000
)

// benchBatches are houses about as large as a VM.
func benchBatches(b *testing.B) iter.Seq2[store.Batch, error] {
	codec := resource.Codecs(kinds, masterKey(1))[0]
	text := strings.Repeat("x", 700)
	return func(yield func(store.Batch, error) bool) {
		for a := range benchAccounts {
			batch := store.Batch{Account: fmt.Sprintf("%012d", a), Version: 1}
			for n := range benchRows / benchAccounts {
				id := House(fmt.Sprintf("house-%08x", n))
				doc, err := codec.Encode(store.Place{}, &house{HouseId: id, Name: fmt.Sprint("name ", n), Text: text,
					Floors: []floor{{1, "a"}, {2, "b"}, {3, "c"}}})
				if err != nil {
					b.Fatal(err)
				}
				batch.Rows = append(batch.Rows, store.Row{Kind: codec.Name(), ID: string(id), Version: 1, Seq: uint64(1<<20 + n + 1), Doc: doc})
			}
			if !yield(batch, nil) {
				return
			}
		}
	}
}

// BenchmarkSQLite moves the rows of an embedded store to a file and back. A store
// is filled as durably as a commit is, and closed.
func BenchmarkSQLite(b *testing.B) {
	dir := b.TempDir()
	j := open(b, filepath.Join(dir, "from"))
	if err := j.Fill(b.Context(), benchBatches(b), store.OntoEmpty); err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(dir, "lines")
	run := func(name string, once func(b *testing.B) (export.Totals, error)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if got, err := once(b); err != nil || got.Rows != benchRows {
					b.Fatalf("%s were moved (%v), want %d", got, err, benchRows)
				}
			}
			b.ReportMetric(float64(b.N)*benchRows/b.Elapsed().Seconds(), "rows/s")
		})
	}
	write := func(recode *export.Recoder) func(b *testing.B) (export.Totals, error) {
		return func(b *testing.B) (export.Totals, error) {
			f, err := os.Create(file)
			if err != nil {
				return export.Totals{}, err
			}
			defer f.Close()
			return export.Write(f, export.Header{Secrets: export.Sealed}, j.Dump(b.Context()), recode)
		}
	}
	run("export/secrets", write(export.NewRecoder(resource.Codecs(kinds, masterKey(1)),
		resource.Codecs(resource.WithSecrets(kinds), resource.AsIs))))
	run("export", write(nil))
	if err := j.Close(); err != nil {
		b.Fatal(err)
	}
	read := func(fill func(*testing.B, iter.Seq2[store.Batch, error]) error) func(b *testing.B) (export.Totals, error) {
		return func(b *testing.B) (export.Totals, error) {
			f, err := os.Open(file)
			if err != nil {
				return export.Totals{}, err
			}
			defer f.Close()
			r, err := export.NewReader(bufio.NewReader(f))
			if err != nil {
				return export.Totals{}, err
			}
			err = fill(b, r.Batches(export.NewRecoder(resource.Codecs(kinds, masterKey(1)), nil)))
			return r.Totals, err
		}
	}
	run("import/lines only", read(func(_ *testing.B, batches iter.Seq2[store.Batch, error]) error {
		for _, err := range batches {
			if err != nil {
				return err
			}
		}
		return nil
	}))
	run("import", read(func(b *testing.B, batches iter.Seq2[store.Batch, error]) error {
		b.StopTimer()
		into := open(b, b.TempDir())
		b.StartTimer()
		return errors.Join(into.Fill(b.Context(), export.Ahead(batches), store.OntoEmpty), into.Close())
	}))
}

func open(t testing.TB, dir string) *sqljournal.SQLite {
	t.Helper()
	j, err := sqljournal.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return j
}
