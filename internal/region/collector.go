package region

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// The garbage collector waits until the heap has grown by a share of what it
// holds. A region may hold much, so the share is small, and a million resources
// are in 2.5 GB. Where a region holds little, the collector would then come many
// times a second; so the share is larger there, and leaves some room in any case.
const (
	growth   = 35        // percent
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
	// To set it stops the world for a moment: not for nothing.
	if wanted < is*9/10 || is*11/10 < wanted {
		debug.SetGCPercent(wanted)
	}
	runtime.AddCleanup(&collected{}, tune, struct{}{})
}

// share is by how many percent of the bytes it counts a heap may grow.
func share(counted uint64) int {
	return int(max(growth, 100*room/max(counted, smallest)))
}

// collected is what the next collection finds. It has a pointer, or it would be
// collected together with what else is as small.
type collected struct{ _ *collected }
