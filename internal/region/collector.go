package region

import (
	"os"
	"runtime/debug"
)

// The garbage collector waits until the heap has grown by a share of what it
// holds. A region holds much, so the share is kept small, and a million
// resources in 2.5 GB. Where a region holds little, the collector would then
// come many times a second. So ballast is added to what it counts, memory that
// is never touched and therefore takes none: any region may throw away some
// 75 MB between two collections.
const (
	growth      = 30 // percent
	ballastSize = 256 << 20
)

var ballast []byte

// TuneCollector sets up the garbage collector of a process that serves a
// region, unless the environment does with GOGC.
func TuneCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(growth)
	ballast = make([]byte, ballastSize)
}
