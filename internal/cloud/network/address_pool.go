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

// publicCloud is where the VMs of the public Cloud, which are in no Net, have
// their private addresses.
var publicCloud = []api.CIDR{"10.8.0.0/13"}

// takenAddress is an address in use: a public one, or a private one of the public
// Cloud. Taken addresses are kept in accounts of the region's own, so that no two
// accounts get the same one.
type takenAddress struct {
	Address resource.Name
	Account id.Account `ref:"-"`
}

var takenAddresses = &resource.Kind[takenAddress, resource.Name]{Name: "TakenAddress", Plural: "TakenAddresses"}

// address is what names a [takenAddress].
type address string

// blockBits is the length of the prefix of a block.
const blockBits = 24

// block returns the account of the region that keeps an address: one for each /24,
// so that transactions that allocate addresses at the same time rarely conflict.
func (a address) block() string {
	p, _ := netip.MustParseAddr(string(a)).Prefix(blockBits)
	return "addresses-" + p.Addr().String()
}

// randomTries is the number of random addresses that are tried before the search
// becomes systematic. In ranges that are half full, one call of a million comes to
// that.
const randomTries = 20

// nearlyFull is the use of a block, in percent, from which on other blocks are
// preferred.
const nearlyFull = 75

// allocateAddress allocates an address of some ranges to the account of the
// transaction.
func allocateAddress(tx *resource.Tx, ranges []api.CIDR) (api.IPv4, error) {
	free := func(a address) bool { return !takenAddresses.Has(tx.In(a.block()), resource.Name(a)) }
	// An account prefers the same blocks as long as they have room, so that a call
	// that allocates many addresses needs few accounts of the region's, which other
	// calls rarely need at the same time.
	for i := fullBlocks(tx, ranges); i < maxPreferredBlocks(ranges); i++ {
		block := preferredBlock(tx.Account(), ranges, i)
		if isNearlyFull(tx, block) {
			continue
		}
		for range randomTries {
			if a := address(nth(block, number(tx, sizeOf(block))).String()); free(a) {
				return a.take(tx)
			}
		}
	}
	for range randomTries {
		if a := randomAddress(tx, ranges); free(a) {
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

// fullBlocks returns how many of its preferred blocks an account has filled. They
// fill in order, so that a binary search finds the first one with room, and few of
// thousands are read. It does not matter that an earlier one may have room again.
func fullBlocks(tx *resource.Tx, ranges []api.CIDR) int {
	isFull := func(i int) bool { return isNearlyFull(tx, preferredBlock(tx.Account(), ranges, i)) }
	low, high := 0, 0
	for high < maxPreferredBlocks(ranges) && isFull(high) {
		low, high = high+1, 2*high+1
	}
	return low + sort.Search(high-low, func(i int) bool { return !isFull(low + i) })
}

// maxPreferredBlocks returns the number of preferred blocks of an account.
func maxPreferredBlocks(ranges []api.CIDR) int { return 1 + sizeOfAll(ranges)>>(32-blockBits)*4 }

// isNearlyFull reports whether a block, or the part of it that is in the ranges, is
// nearly full.
func isNearlyFull(tx *resource.Tx, block netip.Prefix) bool {
	return takenAddresses.Count(tx.In(address(block.Addr().String()).block()))*100 >= sizeOf(block)*nearlyFull
}

// preferredBlock returns the preferred block of an account with the number i, from 0
// on: the part of the block that is in the ranges.
func preferredBlock(account string, ranges []api.CIDR, i int) netip.Prefix {
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
func randomAddress(tx *resource.Tx, ranges []api.CIDR) address {
	return address(at(ranges, number(tx, sizeOfAll(ranges))).String())
}

// sizeOfAll returns the number of addresses in some ranges.
func sizeOfAll(ranges []api.CIDR) (size int) {
	for _, r := range ranges {
		size += sizeOf(r.Prefix())
	}
	return size
}

// at returns the address of some ranges with the number n, from 0 on.
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
	return api.IPv4(a), takenAddresses.Insert(tx.In(a.block()), &takenAddress{Address: resource.Name(a), Account: id.Account(tx.Account())})
}

// releaseAddress returns an address to the pool.
func releaseAddress(tx *resource.Tx, ip api.IPv4) error {
	a := address(ip)
	return takenAddresses.Delete(tx.In(a.block()), &takenAddress{Address: resource.Name(a)})
}
