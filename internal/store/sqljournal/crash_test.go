package sqljournal

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bastide-cloud/bastide/internal/store"
	"github.com/bastide-cloud/bastide/internal/store/storetest"
)

// The crash test kills a process that writes, again and again on the same
// directory, and looks at what is left each time. The process is this test
// binary, told by its environment to write instead.
//
// BASTIDE_CRASHES is how many times, BASTIDE_SEED makes it as it was before.
const crashDirectory = "BASTIDE_CRASH_DIRECTORY"

// TestMain makes 25 random walks of a property unless BASTIDE_WALKS or the command
// line says otherwise: each commit waits for the disk. The continuous checks ask
// for more.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", cmp.Or(os.Getenv("BASTIDE_WALKS"), "25")); err != nil {
		panic(err)
	}
	if dir := os.Getenv(crashDirectory); dir != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

const (
	crashWriters = 64
	crashPairs   = 16 // of accounts; so four writers share each
	crashKept    = 5  // rows that a writer leaves of those it has made
)

// A writer's n-th transaction writes the same to both accounts of its pair: a
// row n, its counter, and that row n-crashKept is no more.
func crashAccounts(writer int) [2]string {
	pair := writer % crashPairs
	return [2]string{fmt.Sprint("left ", pair), fmt.Sprint("right ", pair)}
}

func crashRow(writer, n int) string { return fmt.Sprintf("%d-%d", writer, n) }

func crashCounter(writer int) string { return fmt.Sprintf("counter %d", writer) }

// crashThing differs from one n to the next, and now and then takes several
// pages.
func crashThing(writer, n int) storetest.Thing {
	thing := storetest.Thing{Name: fmt.Sprint(n), Text: crashRow(writer, n), Busy: true}
	if n%10 == 0 {
		thing.Text = strings.Repeat(thing.Text, 3000)
	}
	return thing
}

// writeUntilKilled writes with all writers at once, and prints a line for every
// transaction that was answered.
func writeUntilKilled(dir string) error {
	ctx := context.Background()
	// Checkpoints come often enough to be hit.
	j, err := Open(ctx, dir, pace(200_000, 1<<20))
	if err != nil {
		return err
	}
	s := storetest.Open(j)
	failed := make(chan error)
	for w := range crashWriters {
		go func() {
			n, err := crashCount(ctx, s, w)
			for err == nil {
				n++
				if err = crashWrite(ctx, s, w, n); err == nil {
					_, err = fmt.Printf("%d %d\n", w, n)
				}
			}
			failed <- err
		}()
	}
	return <-failed
}

func crashCount(ctx context.Context, s *store.Store, writer int) (int, error) {
	snap, err := s.View(ctx, crashAccounts(writer)[0])
	if err != nil {
		return 0, err
	}
	o, ok := snap.Get("box", crashCounter(writer))
	if !ok {
		return 0, nil
	}
	return strconv.Atoi(o.Value.(storetest.Thing).Name)
}

func crashWrite(ctx context.Context, s *store.Store, writer, n int) error {
	accounts := crashAccounts(writer)
	return s.Update(ctx, accounts[0], func(tx *store.Tx) error {
		for _, account := range accounts {
			d := tx.In(account)
			d.Put("box", crashRow(writer, n), crashThing(writer, n))
			d.Put("box", crashCounter(writer), storetest.Thing{Name: fmt.Sprint(n)})
			d.Remove("box", crashRow(writer, n-crashKept))
		}
		return nil
	})
}

func TestCrash(t *testing.T) {
	t.Parallel()
	number := func(name string, otherwise int) int {
		n, err := strconv.Atoi(os.Getenv(name))
		if err != nil {
			return otherwise
		}
		return n
	}
	crashes, seed := number("BASTIDE_CRASHES", 10), number("BASTIDE_SEED", int(time.Now().UnixNano()))
	t.Logf("%d crashes, BASTIDE_SEED=%d", crashes, seed)
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	dir := t.TempDir()
	acknowledged := make([]int, crashWriters)
	for crash := range crashes {
		// Some come while the directory is being opened, most in full flight.
		after := r.IntN(2000)
		if r.IntN(10) == 0 {
			after = 0
		}
		crashOnce(t, dir, after, acknowledged)
		left, err := crashLeft(t, dir, acknowledged)
		if err != nil {
			t.Fatalf("after crash %d, %d transactions after its start: %v", crash, after, err)
		}
		acknowledged = left
	}
	total := 0
	for _, n := range acknowledged {
		total += n
	}
	t.Logf("%d transactions were committed", total)
}

// crashOnce starts the process, kills it when it has acknowledged a number of
// transactions, and notes all that it has acknowledged.
func crashOnce(t *testing.T, dir string, after int, acknowledged []int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashDirectory+"="+dir)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if after == 0 {
		_ = cmd.Process.Kill()
	}
	// What is in the pipe when the process dies was acknowledged, too. A last
	// line without its end was not.
	lines := bufio.NewReader(out)
	for n := 0; ; n++ {
		if n == after {
			_ = cmd.Process.Kill()
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		var writer, number int
		if _, err := fmt.Sscanf(line, "%d %d\n", &writer, &number); err != nil {
			t.Fatalf("the process said %q", line)
		}
		acknowledged[writer] = number
	}
	exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
	if !ok || exit.Exited() {
		t.Fatalf("the process ended by itself: %v %s", exit, complaint.String())
	}
}

// crashLeft checks what the process has left, and answers how far each writer
// came: as far as was acknowledged, or one transaction further.
func crashLeft(t *testing.T, dir string, acknowledged []int) (left []int, err error) {
	j, err := Open(t.Context(), dir)
	if err != nil {
		return nil, err
	}
	s := storetest.Open(j)
	defer func() { err = errors.Join(err, s.Close()) }()

	versions, rows := map[string]int{}, map[string]int{}
	for w, acknowledged := range acknowledged {
		n, err := crashCount(t.Context(), s, w)
		if err != nil {
			return nil, err
		}
		if n != acknowledged && n != acknowledged+1 {
			return nil, fmt.Errorf("writer %d has written %d transactions, and %d were acknowledged", w, n, acknowledged)
		}
		left = append(left, n)
		for _, account := range crashAccounts(w) {
			snap, err := s.View(t.Context(), account)
			if err != nil {
				return nil, err
			}
			versions[account] += n
			if n > 0 {
				rows[account] += 1 + min(n, crashKept)
				if err := crashHas(snap, crashCounter(w), storetest.Thing{Name: fmt.Sprint(n)}); err != nil {
					return nil, err
				}
			}
			for i := max(1, n-crashKept+1); i <= n; i++ {
				if err := crashHas(snap, crashRow(w, i), crashThing(w, i)); err != nil {
					return nil, err
				}
			}
		}
	}
	pending := 0
	for account, version := range versions {
		snap, err := s.View(t.Context(), account)
		if err != nil {
			return nil, err
		}
		// Each transaction of each writer of the pair has made one version.
		if snap.Version() != uint64(version) || snap.Count("box") != rows[account] {
			return nil, fmt.Errorf("%s has %d rows at version %d, want %d at %d", account, snap.Count("box"), snap.Version(), rows[account], version)
		}
		if version > 0 {
			pending++
		}
	}
	if accounts, err := s.Pending(t.Context()); err != nil || len(accounts) != pending {
		return nil, fmt.Errorf("%d accounts are unsettled (%v), want %d", len(accounts), err, pending)
	}
	return left, nil
}

func crashHas(snap *store.Snapshot, id string, want storetest.Thing) error {
	o, ok := snap.Get("box", id)
	if !ok {
		return fmt.Errorf("%s has no %s", snap.Account(), id)
	}
	got := o.Value.(storetest.Thing)
	if got.Name != want.Name || got.Text != want.Text || got.Busy != want.Busy {
		return fmt.Errorf("%s of %s is %.100v, want %.100v", id, snap.Account(), got, want)
	}
	return nil
}
