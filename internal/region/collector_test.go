package region

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestShareOfGarbage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		counted uint64
		want    int
	}{
		{"nothing yet", 0, 4800},
		{"an empty region", 20 << 20, 960},
		{"as much as there is room", minRoom, 100},
		{"more than that", 2 * minRoom, 100},
		{"half of what is modest", modestSize / 2, 100},
		{"nearly all that is modest", modestSize * 2 / 3, 50},
		{"a million resources", modestSize, 30},
		{"ten million resources", 10 * modestSize, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := share(c.counted); got != c.want {
				t.Errorf("%d bytes may grow by %d percent, want %d", c.counted, got, c.want)
			}
		})
	}
}

// The share follows what the region comes to hold. Not parallel: the collector is
// that of the process.
func TestTuneCollector(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Skip("GOGC is set, and is kept")
	}
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	TuneCollector()
	held := make([]byte, minRoom/2) // it may grow by 200 percent, or a bit less
	percent := func() int {
		set := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(set)
		return int(set[0].Value.Uint64())
	}
	for deadline := time.Now().Add(30 * time.Second); percent() < 150 || 200 < percent(); runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("a heap of %d MB may grow by %d percent, want nearly 200", len(held)>>20, percent())
		}
	}
	runtime.KeepAlive(held)
}
