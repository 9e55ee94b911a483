package main

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/driver/sim"
	"github.com/bastide-cloud/bastide/internal/region"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// A region whose transaction does not end is left behind after a while; one that
// closes in time says what it has to say.
func TestClosingEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, err := region.Open(t.Context(), region.Options{
			Region: "eu-west-2", Domain: "bastide.localhost", Driver: sim.Start(0),
			Clock: clock.System(), Rand: rand.Reader, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		running, enough, committed := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			committed <- r.DB.Update(context.Background(), resource.Caller{Account: "123456789012"}, func(*resource.Tx) error {
				close(running)
				<-enough
				return nil
			})
		}()
		<-running
		began := time.Now()
		closed := make(chan error, 1)
		err = within(closeLimit, func() error {
			err := r.Close()
			closed <- err
			return err
		})
		if took := time.Since(began); took != closeLimit || err == nil || !strings.Contains(err.Error(), "a transaction does not end") {
			t.Errorf("after %v: %v", took, err)
		}
		close(enough)
		if err := <-committed; err != nil {
			t.Error(err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if err := within(closeLimit, func() error { return context.Canceled }); err != context.Canceled {
			t.Errorf("a region that closes in time says %v", err)
		}
	})
}
