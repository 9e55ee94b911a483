package network

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"sort"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// The pool has the addresses of the region that are in use: public ones, and
// the private ones of the public Cloud. They are kept in accounts of the
// region's own, so that no two accounts are given the same one.

// publicCloud is where the VMs of the public Cloud, which are in no Net, have
// their private addresses.
var publicCloud = []api.CIDR{"10.8.0.0/13"}

// taken is an address in use and the account that has it.
type taken struct {
	Address address
	Account id.Account `ref:"-"`
}

var pool = &resource.Kind[taken, address]{Name: "TakenAddress", Plural: "TakenAddresses"}

// address is an address of the pool, which identifies what is kept of it.
type address string

// Form is only here to make an address an identifier: it is chosen otherwise.
func (address) Form() resource.Form { return resource.Form{} }

// blockBits is the size of a block.
const blockBits = 24

// block is the account of the region that keeps an address: one for each /24,
// so that those who take addresses at once rarely wait for each other.
func (a address) block() string {
	p, _ := netip.MustParseAddr(string(a)).Prefix(blockBits)
	return "addresses-" + p.Addr().String()
}

// guesses is how many addresses of the pool are tried at random before one looks elsewhere:
// in a pool that is half full, one of a million calls needs to.
const guesses = 20

// crowded is how many parts of a hundred of a block are in use when one looks for
// another block.
const crowded = 75

// take takes an address of some ranges for the account of the transaction.
func take(tx *resource.Tx, ranges []api.CIDR) (api.IPv4, error) {
	free := func(a address) bool { return !pool.Has(tx.In(a.block()), a) }
	// An account takes its addresses from the same blocks for as long as there is
	// room: a call that takes many needs few accounts of the region's, and rarely
	// waits for others, whose blocks are elsewhere.
	for i := fullHomes(tx, ranges); i < mostHomes(ranges); i++ {
		home := homeOf(tx.Account(), ranges, i)
		if isCrowded(tx, home) {
			continue
		}
		for range guesses {
			if a := address(nth(home, number(tx, sizeOf(home))).String()); free(a) {
				return a.take(tx)
			}
		}
	}
	for range guesses {
		if a := guess(tx, ranges); free(a) {
			return a.take(tx)
		}
	}
	for _, r := range ranges {
		for ip := r.Prefix().Addr(); r.Prefix().Contains(ip); ip = ip.Next() {
			if a := address(ip.String()); free(a) {
				return a.take(tx)
			}
		}
	}
	return "", apierror.InsufficientCapacity.Errorf("All addresses of the region in %v are in use.", ranges)
}

// fullHomes is how many blocks an account has filled before the one that it takes
// addresses from. They were filled in order: for one with thousands of addresses,
// few need a look. That one of them may have room again does not matter.
func fullHomes(tx *resource.Tx, ranges []api.CIDR) int {
	crowded := func(i int) bool { return isCrowded(tx, homeOf(tx.Account(), ranges, i)) }
	low, high := 0, 0
	for high < mostHomes(ranges) && crowded(high) {
		low, high = high+1, 2*high+1
	}
	return low + sort.Search(high-low, func(i int) bool { return !crowded(low + i) })
}

// mostHomes is how many blocks an account looks at before it looks anywhere.
func mostHomes(ranges []api.CIDR) int { return 1 + sizeOfAll(ranges)>>(32-blockBits)*4 }

// isCrowded reports whether a block, or the part of it that is in the ranges, has
// little room.
func isCrowded(tx *resource.Tx, home netip.Prefix) bool {
	return pool.Count(tx.In(address(home.Addr().String()).block()))*100 >= sizeOf(home)*crowded
}

// homeOf is one of the blocks that an account takes addresses from, in the order
// of i: the part of it that is in the ranges.
func homeOf(account string, ranges []api.CIDR, i int) netip.Prefix {
	h := fnv.New64a()
	fmt.Fprint(h, account, " ", i)
	a := at(ranges, int(h.Sum64()%uint64(sizeOfAll(ranges))))
	for _, r := range ranges {
		if p := r.Prefix(); p.Contains(a) {
			return netip.PrefixFrom(a, max(blockBits, p.Bits())).Masked()
		}
	}
	panic("network: an address that is in none of its ranges")
}

// guess is any address of the ranges, each as likely as any other.
func guess(tx *resource.Tx, ranges []api.CIDR) address {
	return address(at(ranges, number(tx, sizeOfAll(ranges))).String())
}

// sizeOfAll is the number of addresses in some ranges.
func sizeOfAll(ranges []api.CIDR) (size int) {
	for _, r := range ranges {
		size += sizeOf(r.Prefix())
	}
	return size
}

// at is an address of some ranges, the first being number 0.
func at(ranges []api.CIDR, n int) netip.Addr {
	for _, r := range ranges {
		if s := sizeOf(r.Prefix()); n >= s {
			n -= s
			continue
		}
		return nth(r.Prefix(), n)
	}
	panic("network: a region without addresses")
}

func (a address) take(tx *resource.Tx) (api.IPv4, error) {
	return api.IPv4(a), pool.Insert(tx.In(a.block()), &taken{Address: a, Account: id.Account(tx.Account())})
}

// giveBack returns an address to the pool.
func giveBack(tx *resource.Tx, ip api.IPv4) error {
	a := address(ip)
	return pool.Delete(tx.In(a.block()), &taken{Address: a})
}
