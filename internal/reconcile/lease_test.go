package reconcile_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bastide-cloud/bastide/internal/clock"
	"github.com/bastide-cloud/bastide/internal/reconcile"
)

// lessor is a lessor that does what the test says.
type lessor struct {
	lease   func(ctx context.Context, names []string) ([]string, error)
	calls   int
	release func()
}

func (l *lessor) Lease(ctx context.Context, _ string, names []string, _ time.Duration) ([]string, error) {
	l.calls++
	return l.lease(ctx, names)
}

func (l *lessor) Release(context.Context, string) error {
	l.release()
	return nil
}

func all(_ context.Context, names []string) ([]string, error) { return names, nil }

var errAway = errors.New("the database is away")

func TestMine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		all    bool          // whether all or nothing is leased
		answer time.Duration // how long the answer takes
		after  time.Duration
		want   bool
	}{
		{"just leased", true, 0, 0, true},
		{"shortly before the margin", true, 0, 5*time.Second - 1, true},
		{"at the margin", true, 0, 5 * time.Second, false},
		{"of others", false, 0, 0, false},
		{"counted from before a slow answer", true, 4 * time.Second, time.Second, false},
		{"answered while it was paused", true, time.Hour, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v := clock.NewVirtual(start)
			lease := func(_ context.Context, names []string) ([]string, error) {
				v.Advance(c.answer)
				if !c.all {
					return nil, nil
				}
				return names, nil
			}
			l := reconcile.NewLeases(reconcile.LeaseOptions{Lessor: &lessor{lease: lease}, Node: "a", Clock: v})
			if l.Mine("alice") {
				t.Error("an account is ours before anything was leased")
			}
			if err := l.Renew(t.Context()); err != nil {
				t.Fatal(err)
			}
			v.Advance(c.after)
			if got := l.Mine("alice"); got != c.want {
				t.Errorf("mine is %v, want %v", got, c.want)
			}
		})
	}
}

// Each account belongs to the holder of one share and of no other.
func TestSharesDivideTheAccounts(t *testing.T) {
	t.Parallel()
	var leases []*reconcile.Leases
	for odd := range 2 {
		half := func(_ context.Context, names []string) (held []string, err error) {
			for i, name := range names {
				if i%2 == odd {
					held = append(held, name)
				}
			}
			return held, nil
		}
		l := reconcile.NewLeases(reconcile.LeaseOptions{Lessor: &lessor{lease: half}, Clock: clock.NewVirtual(start)})
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		leases = append(leases, l)
	}
	counts := []int{0, 0}
	for i := range 1000 {
		account := time.Duration(i).String()
		if leases[0].Mine(account) == leases[1].Mine(account) {
			t.Errorf("the account %s is run by both or none", account)
		}
		if leases[0].Mine(account) {
			counts[0]++
		}
	}
	if counts[0] < 300 || counts[0] > 700 {
		t.Errorf("half of the shares are %d of 1000 accounts", counts[0])
	}
}

func TestArrivedSaysThatThereIsMore(t *testing.T) {
	t.Parallel()
	v := clock.NewVirtual(start)
	give, arrived := 1, 0
	l := reconcile.NewLeases(reconcile.LeaseOptions{
		Lessor: &lessor{lease: func(_ context.Context, names []string) ([]string, error) { return names[:give], nil }},
		Clock:  v, Arrived: func() { arrived++ },
	})
	for _, c := range []struct {
		name        string
		give        int
		after       time.Duration
		wantArrived int
	}{
		{"the first", 1, 0, 1},
		{"the same", 1, 2 * time.Second, 1},
		{"more", 3, 2 * time.Second, 2},
		{"fewer", 2, 2 * time.Second, 2},
		{"the same after it was lost", 2, time.Minute, 3},
	} {
		v.Advance(c.after)
		give = c.give
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if arrived != c.wantArrived {
			t.Errorf("%s: called %d times, want %d", c.name, arrived, c.wantArrived)
		}
	}
}

// Leases live through failures for as long as they were given for, and are
// given back at the end once they are no longer relied on.
func TestLeasesRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l *reconcile.Leases
		released := false
		s := &lessor{lease: all, release: func() {
			released = true
			if l.Mine("alice") {
				t.Error("an account is ours while it is given back")
			}
		}}
		v := clock.NewVirtual(start)
		l = reconcile.NewLeases(reconcile.LeaseOptions{Lessor: s, Clock: v})
		if err := l.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.Run(ctx)
		}()
		mine := func(seconds int) (was []bool) {
			for range seconds {
				synctest.Wait()
				v.Advance(time.Second)
				synctest.Wait()
				was = append(was, l.Mine("alice"))
			}
			return was
		}
		if got := mine(20); slices.Contains(got, false) || s.calls != 11 {
			t.Errorf("in 20 s of %d renewals an account was ours: %v", s.calls, got)
		}
		s.lease = func(context.Context, []string) ([]string, error) { return nil, errAway }
		if got, want := mine(6), []bool{true, true, true, true, false, false}; !slices.Equal(got, want) {
			t.Errorf("without a database an account was ours: %v, want %v", got, want)
		}
		// One that does not answer is not waited for in vain.
		s.lease = func(ctx context.Context, _ []string) ([]string, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		mine(6)
		s.lease = all
		if got := mine(6); !got[5] {
			t.Errorf("once the database is back an account was ours: %v", got)
		}
		cancel()
		<-ended
		if !released || l.Mine("alice") {
			t.Error("at the end the leases are not given back")
		}
	})
}
