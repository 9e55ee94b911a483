package region

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The garbage collector runs when the heap has grown by a share of its live
// size: 100 %, which is Go's default, while the total is modest. A large region
// gets a smaller share, so that a million resources fit into 2.5 GB. A small
// region would be collected many times a second, so it always gets some room.
const (
	maxShare   = 100       // percent
	minShare   = 30        // percent
	modestSize = 2 << 30   // bytes
	minRoom    = 192 << 20 // bytes
	minHeap    = 4 << 20   // bytes; the collector treats a smaller heap like this one
)

// TuneCollector sets up the garbage collector of a process that serves a
// region, unless the environment does with GOGC.
func TuneCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	tune(struct{}{})
}

// tune sets the share by the live size after the last collection, and is called
// again after the next one.
func tune(struct{}) {
	found := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"}}
	metrics.Read(found)
	is, live := int(found[0].Value.Uint64()), uint64(0)
	for _, part := range found[1:] {
		live += part.Value.Uint64()
	}
	percent := share(live)
	// Setting it stops the world for a moment, so small changes are skipped.
	if percent < is*9/10 || is*11/10 < percent {
		debug.SetGCPercent(percent)
	}
	runtime.AddCleanup(&sentinel{}, tune, struct{}{})
}

// share returns the percentage by which a heap of the given size may grow.
func share(live uint64) int {
	live = max(live, minHeap)
	left := 100*float64(modestSize)/float64(live) - 100
	return int(max(100*minRoom/live, uint64(min(maxShare, max(minShare, left)))))
}

// sentinel is garbage for the next collection to find. It has a pointer,
// because tiny objects without pointers are batched and collected later.
type sentinel struct{ _ *sentinel }
