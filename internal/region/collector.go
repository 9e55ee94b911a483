package region

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The garbage collector waits until the heap has grown by a share of what it
// holds: by as much again, as Go has it, as long as both together are modest.
// Where a region holds much, the share is small, and a million resources are in
// 2.5 GB. Where it holds little, the collector would come many times a second: so
// it leaves some room in any case.
const (
	most     = 100       // percent
	least    = 30        // percent
	modest   = 2 << 30   // bytes
	room     = 192 << 20 // bytes
	smallest = 4 << 20   // bytes of a heap: the collector takes less for as much
)

// TuneCollector sets up the garbage collector of a process that serves a
// region, unless the environment does with GOGC.
func TuneCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	tune(struct{}{})
}

// tune sets the share by what the last collection has left, and is called again
// after the next one.
func tune(struct{}) {
	found := []metrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(found)
	is, counted := int(found[0].Value.Uint64()), uint64(0)
	for _, part := range found[1:] {
		counted += part.Value.Uint64()
	}
	wanted := share(counted)
	// To set it stops the driver for a moment: not for nothing.
	if wanted < is*9/10 || is*11/10 < wanted {
		debug.SetGCPercent(wanted)
	}
	runtime.AddCleanup(&collected{}, tune, struct{}{})
}

// share is by how many percent of the bytes it counts a heap may grow.
func share(counted uint64) int {
	counted = max(counted, smallest)
	left := 100*float64(modest)/float64(counted) - 100
	return int(max(100*room/counted, uint64(min(most, max(least, left)))))
}

// collected is what the next collection finds. It has a pointer, or it would be
// collected together with what else is as small.
type collected struct{ _ *collected }
