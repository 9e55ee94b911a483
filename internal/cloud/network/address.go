package network

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/fault"
	"github.com/bastide-cloud/bastide/internal/kind"
)

// within reports whether all addresses of a range are in another.
func within(inner, outer netip.Prefix) bool {
	return outer.Bits() <= inner.Bits() && outer.Contains(inner.Addr())
}

// sizeOf is the number of addresses in a range.
func sizeOf(p netip.Prefix) int { return 1 << (32 - p.Bits()) }

// nth is an address of a range, the first being number 0.
func nth(p netip.Prefix, n int) netip.Addr {
	bytes := p.Masked().Addr().As4()
	binary.BigEndian.PutUint32(bytes[:], binary.BigEndian.Uint32(bytes[:])+uint32(n))
	return netip.AddrFrom4(bytes)
}

// number is a number from 0 to below the limit, each nearly as likely as any other.
func number(tx *kind.Tx, limit int) int {
	var raw [8]byte
	if _, err := io.ReadFull(tx.Chance(), raw[:]); err != nil {
		panic(fmt.Errorf("reading the random source: %w", err))
	}
	return int(binary.BigEndian.Uint64(raw[:]) % uint64(limit))
}

// The addresses of a Subnet that can never be used: the first four and the
// last.
const firstUsable, reservedIps = 4, 5

// isUsable reports whether a NIC in the Subnet may have the address.
func (s *Subnet) isUsable(ip netip.Addr) bool {
	p := s.IpRange.Prefix()
	return p.Contains(ip) && nth(p, firstUsable).Compare(ip) <= 0 && ip != nth(p, sizeOf(p)-1)
}

// place is an address with its Subnet, as [Nic] keeps it.
func (s *Subnet) place(ip api.IPv4) string { return string(s.SubnetId) + "/" + string(ip) }

// isFree reports whether no NIC has the address.
func (s *Subnet) isFree(tx *kind.Tx, ip api.IPv4) bool {
	for range Nics.Find(tx, "Places", s.place(ip)) {
		return false
	}
	return true
}

// choose finds an address of the Subnet that nobody has and that is none of
// those about to be taken.
func (s *Subnet) choose(tx *kind.Tx, but []api.IPv4) (api.IPv4, error) {
	p := s.IpRange.Prefix()
	free := func(ip api.IPv4) bool { return !slices.Contains(but, ip) && s.isFree(tx, ip) }
	usable := sizeOf(p) - reservedIps
	for range guesses {
		if ip := api.IPv4(nth(p, firstUsable+number(tx, usable)).String()); free(ip) {
			return ip, nil
		}
	}
	for n := range usable {
		if ip := api.IPv4(nth(p, firstUsable+n).String()); free(ip) {
			return ip, nil
		}
	}
	return "", fault.InsufficientCapacity.Errorf("The Subnet %s has no free address left in %s.", s.SubnetId, s.IpRange)
}
