package driver

import "context"

// PublicCloud keeps the security groups of the public Cloud in the driver. What
// it promises is what [Networks] promises, for values of another kind. It may be
// called from many goroutines at once.
type PublicCloud interface {
	EnsureGroup(ctx context.Context, g PublicGroup) error
	RemoveGroup(ctx context.Context, account, id string) error
	ObserveGroups(ctx context.Context) ([]PublicGroup, error)
}

// PublicGroup filters what machines of the public Cloud receive, as a
// [SecurityGroup] does in a Net. They may send everything. Who is in it is told
// with each machine: [MachineNic.Groups]. So nothing is told of all machines when
// the rules change, nor of the group when a machine comes or goes. A group that
// the driver does not have lets nothing through.
type PublicGroup struct {
	Account, ID string // together they name the group
	Generation  uint64 // grows with each change

	// which no other group of the account has in the public Cloud: rules of others may say it
	// instead of the id
	Name    string
	Inbound []Rule
}

// Key says which group it is, and how new.
func (g PublicGroup) Key() Key { return Key{g.Account, g.ID, g.Generation} }
