package driver

import "context"

// Cables keeps dedicated links in the driver: each a cable between a router of a
// client and a port in a datacenter of the region. People are asked for it, so
// it may take days. It may be called from many goroutines at once.
type Cables interface {
	// EnsurePort makes the driver have a port for the cable, and returns nil
	// once the client may come with it. It answers [Later] before.
	EnsurePort(ctx context.Context, cable Cable) error

	// EnsureCable makes the driver have the cable, and a port before if there is
	// none, and returns nil once it carries packets. It answers [Later] before.
	EnsureCable(ctx context.Context, cable Cable) error

	// RemoveCable makes the driver have neither cable nor port, and returns nil
	// once it has none, be it that there never was one.
	RemoveCable(ctx context.Context, account, id string) error

	// ObserveCables lists the cables of this region's making that the driver
	// has, or has only a port for, in any order.
	ObserveCables(ctx context.Context) ([]Cable, error)
}

// Cable is a dedicated link. It never changes.
type Cable struct {
	Account, ID string // together they name the cable
	Location    string // the code of the datacenter
	Gigabits    int    // a second
}
