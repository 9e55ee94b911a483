package export

import (
	"iter"

	"github.com/bastide-cloud/bastide/internal/store"
)

// Ahead yields what batches yields, and lets the next ones be made on another
// processor while the consumer works. A consumer that stops waits for the batch
// that is being made.
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
			for range queue { // until it is closed: nobody reads the source any more
			}
		}()
		for m := range queue {
			if !yield(m.batch, m.err) {
				return
			}
		}
	}
}
