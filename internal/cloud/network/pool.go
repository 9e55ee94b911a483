package network

import (
	"net/netip"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// The pool has the public addresses of the region that are in use. They are
// kept in accounts of the region's own, so that no two accounts are given the
// same one.

// taken is a public address in use and the account that has it.
type taken struct {
	Address address
	Account id.Account `ref:"-"`
}

var pool = &kind.Kind[taken, address]{Name: "TakenAddress", Plural: "TakenAddresses"}

// address is an address of the pool, which identifies what is kept of it.
type address string

// Form is only here to make an address an identifier: it is chosen otherwise.
func (address) Form() kind.Form { return kind.Form{} }

// block is the account of the region that keeps an address: one for each /24,
// so that those who take addresses at once rarely wait for each other.
func (a address) block() string {
	p, _ := netip.MustParseAddr(string(a)).Prefix(24)
	return "addresses-" + p.Addr().String()
}

// guesses is how many addresses are tried at random before all are looked at in
// order: in a pool that is half full, one of a million calls needs to.
const guesses = 20

// take takes an address of the pool for the account of the transaction.
func (region Region) take(tx *kind.Tx) (api.IPv4, error) {
	free := func(a address) bool { return !pool.Has(tx.In(a.block()), a) }
	for range guesses {
		if a := region.guess(tx); free(a) {
			return a.take(tx)
		}
	}
	for _, r := range region.PublicIps {
		for ip := r.Prefix().Addr(); r.Prefix().Contains(ip); ip = ip.Next() {
			if a := address(ip.String()); free(a) {
				return a.take(tx)
			}
		}
	}
	return "", fault.InsufficientCapacity.Errorf("All public IPs of the region are in use.")
}

// guess is any address of the pool, each as likely as any other.
func (region Region) guess(tx *kind.Tx) address {
	size := 0
	for _, r := range region.PublicIps {
		size += sizeOf(r.Prefix())
	}
	n := number(tx, size)
	for _, r := range region.PublicIps {
		if s := sizeOf(r.Prefix()); n >= s {
			n -= s
			continue
		}
		return address(nth(r.Prefix(), n).String())
	}
	panic("network: a region without public IPs")
}

func (a address) take(tx *kind.Tx) (api.IPv4, error) {
	return api.IPv4(a), pool.Insert(tx.In(a.block()), &taken{Address: a, Account: id.Account(tx.Account())})
}

// giveBack returns an address to the pool.
func giveBack(tx *kind.Tx, ip api.IPv4) error {
	a := address(ip)
	return pool.Delete(tx.In(a.block()), &taken{Address: a})
}
