package driver

import "context"

// PublicCloud manages the security groups of the public Cloud. Its methods keep
// the promises of [Networks], for another kind of values, and are safe for
// concurrent use.
type PublicCloud interface {
	EnsureGroup(ctx context.Context, g PublicGroup) error
	RemoveGroup(ctx context.Context, account, id string) error
	ObserveGroups(ctx context.Context) ([]PublicGroup, error)
}

// PublicGroup filters the packets that machines of the public Cloud receive, as
// a [SecurityGroup] does in a Net. They may send everything. Each machine names
// its groups in [MachineNic.Groups], so that no machine changes when the rules
// of a group change, and no group changes when a machine is created or removed.
// A group that the driver does not have lets nothing through.
type PublicGroup struct {
	Account, ID string // together they name the group
	Generation  uint64 // grows with each change

	// unique among the account's groups in the public Cloud; rules of other
	// accounts may use it instead of the ID
	Name    string
	Inbound []Rule
}

// Key returns the name and generation of the group.
func (g PublicGroup) Key() Key { return Key{g.Account, g.ID, g.Generation} }
