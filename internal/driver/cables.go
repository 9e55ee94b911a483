package driver

import "context"

// Cables manages dedicated links: each is a cable between a router of a client
// and a port in a datacenter of the region. Technicians install it, so it may
// take days. Its methods are safe for concurrent use.
type Cables interface {
	// EnsurePort reserves a port for the cable, and returns nil once the client
	// may connect its router. Until then it returns [Later].
	EnsurePort(ctx context.Context, cable Cable) error

	// EnsureCable connects the cable, reserving a port first if there is none,
	// and returns nil once the cable carries packets. Until then it returns
	// [Later].
	EnsureCable(ctx context.Context, cable Cable) error

	// RemoveCable removes the cable and its port, and returns nil once both are
	// gone, or if there never were any.
	RemoveCable(ctx context.Context, account, id string) error

	// ObserveCables lists the cables of this region that exist or have a port,
	// in any order.
	ObserveCables(ctx context.Context) ([]Cable, error)
}

// Cable is a dedicated link. It never changes.
type Cable struct {
	Account, ID string // together they name the cable
	Location    string // the code of the datacenter
	Gigabits    int    // per second
}

// Key implements [Value].
func (c Cable) Key() Key { return Key{c.Account, c.ID, 1} }
