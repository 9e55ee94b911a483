package sqljournal

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/storetest"
)

// benchThing is about as large as a VM's document.
func benchThing(n int64) storetest.Thing {
	return storetest.Thing{Name: fmt.Sprint("name ", n), Parts: []string{"part"}, Text: strings.Repeat("x", 850)}
}

func benchAccount(n int64) string { return fmt.Sprint("account ", n%1000) }

// BenchmarkCreate makes objects in 1,000 accounts, each durable before it is
// answered. Beside it is what the disk allows: writing as much as one create
// does, and waiting for it.
func BenchmarkCreate(b *testing.B) {
	b.Run("fdatasync", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "file"))
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		const pages = 1024
		if _, err := f.Write(make([]byte, pages*sqlitePage)); err != nil {
			b.Fatal(err)
		}
		n := int64(0)
		for b.Loop() {
			if _, err := f.WriteAt(make([]byte, 3*sqlitePage), n*3%(pages-3)*sqlitePage); err != nil {
				b.Fatal(err)
			}
			if err := syscall.Fdatasync(int(f.Fd())); err != nil {
				b.Fatal(err)
			}
			n++
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "syncs/s")
	})
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			j, err := Open(b.Context(), b.TempDir())
			if err != nil {
				b.Fatal(err)
			}
			s := storetest.Open(j)
			defer s.Close()
			took := make([]time.Duration, b.N)
			cpu := cpuTime(b)
			b.ResetTimer()
			var next atomic.Int64
			var wg sync.WaitGroup
			for range writers {
				wg.Go(func() {
					for n := next.Add(1) - 1; n < int64(b.N); n = next.Add(1) - 1 {
						start := time.Now()
						if err := benchCreate(b, s, n); err != nil {
							b.Error(err)
							return
						}
						took[n] = time.Since(start)
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "creates/s")
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(took[b.N*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}

// benchCreate makes an object whose name must be free.
func benchCreate(b *testing.B, s *store.Store, n int64) error {
	account, thing := benchAccount(n), benchThing(n)
	return s.Update(b.Context(), account, func(tx *store.Tx) error {
		d := tx.In(account)
		for o := range d.Find("box", store.Key{Index: "name", Value: thing.Name}) {
			return fmt.Errorf("%s has the name %s", o.ID, thing.Name)
		}
		d.Put("box", fmt.Sprintf("i-%08x", uint32(n)*2654435761), thing)
		return nil
	})
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLoad loads an account of 1,000 documents, made in turn with those of
// others as they would be.
func BenchmarkLoad(b *testing.B) {
	const accounts, documents = 50, 1000
	j, err := Open(b.Context(), b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	// With room for one account, each is loaded anew.
	s := storetest.Open(j, func(o *store.Options) { o.Memory = 1 })
	defer s.Close()
	for n := range int64(documents) {
		var batches []store.Batch
		for a := range int64(accounts) {
			id := fmt.Sprintf("i-%08x", uint32(n*accounts+a)*2654435761)
			at := store.Place{Account: benchAccount(a), Kind: "box", ID: id}
			doc, err := storetest.Box.Encode(at, benchThing(n))
			if err != nil {
				b.Fatal(err)
			}
			batches = append(batches, store.Batch{Account: at.Account, Version: uint64(n + 1), Rows: []store.Row{
				{Kind: at.Kind, ID: id, Version: uint64(n + 1), Seq: uint64(n + 1), Doc: doc},
			}})
		}
		if err := j.Commit(b.Context(), batches); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("rows", func(b *testing.B) {
		n := int64(0)
		for b.Loop() {
			rows := 0
			if _, err := j.Load(b.Context(), benchAccount(n%accounts), func(store.Row) error { rows++; return nil }); err != nil ||
				rows != documents {
				b.Fatalf("%d rows were loaded (%v), want %d", rows, err, documents)
			}
			n++
		}
	})
	b.Run("decoded", func(b *testing.B) {
		n := int64(0)
		for b.Loop() {
			snap, err := s.View(b.Context(), benchAccount(n%accounts))
			if err != nil || snap.Count("box") != documents {
				b.Fatalf("%d objects were loaded (%v), want %d", snap.Count("box"), err, documents)
			}
			n++
		}
	})
}
