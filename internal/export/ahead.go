package export

import (
	"iter"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Ahead yields the same batches, and prefetches the next ones on another
// goroutine. A consumer that stops waits for the batch being fetched.
func Ahead(batches iter.Seq2[store.Batch, error]) iter.Seq2[store.Batch, error] {
	return func(yield func(store.Batch, error) bool) {
		type made struct {
			batch store.Batch
			err   error
		}
		queue, stop := make(chan made, 4), make(chan struct{})
		go func() {
			defer close(queue)
			for b, err := range batches {
				select {
				case queue <- made{b, err}:
				case <-stop:
					return
				}
			}
		}()
		defer func() {
			close(stop)
			for range queue { // until it is closed, so that the source is no longer read
			}
		}()
		for m := range queue {
			if !yield(m.batch, m.err) {
				return
			}
		}
	}
}
