package network

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
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
func number(tx *resource.Tx, limit int) int {
	var raw [8]byte
	if _, err := io.ReadFull(tx.Rand(), raw[:]); err != nil {
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
func place(subnet id.Subnet, ip api.IPv4) string { return string(subnet) + "/" + string(ip) }

// holder is the NIC that has an address of the Subnet, or nil.
func (s *Subnet) holder(tx *resource.Tx, ip api.IPv4) *Nic {
	return first(Nics.Where(tx, "Places", place(s.SubnetId, ip)))
}

// checkUsable refuses an address that no NIC in the Subnet may have.
func (s *Subnet) checkUsable(ip api.IPv4) error {
	if addr, err := netip.ParseAddr(string(ip)); err != nil || !s.isUsable(addr) {
		return apierror.InvalidValue.Errorf(
			"The private IP %s cannot be used in %s: it is outside %s, or one of the first four or the last address of the range.",
			ip, s.SubnetId, s.IpRange)
	}
	return nil
}

// free is the number of free addresses of the Subnet.
func (s *Subnet) free(tx *resource.Tx) int {
	n := sizeOf(s.IpRange.Prefix()) - reservedIps
	for nic := range Nics.Of(tx, s.SubnetId) {
		n -= len(nic.PrivateIps)
	}
	return n
}

// FreeIps is the number of free addresses of a Subnet.
func FreeIps(tx *resource.Tx, subnetID id.Subnet) int {
	s, err := Subnets.Get(tx, subnetID)
	if err != nil {
		return 0
	}
	return s.free(tx)
}

// chooseMore adds free addresses of the Subnet to those about to be
// taken.
func (s *Subnet) chooseMore(tx *resource.Tx, taken []api.IPv4, n int) ([]api.IPv4, error) {
	for range n {
		ip, err := s.choose(tx, taken)
		if err != nil {
			return nil, err
		}
		taken = append(taken, ip)
	}
	return taken, nil
}

// mostTried is how many addresses of half a Subnet are tried, one after the other
// from a random one on, before those of the other half: all of them, unless the
// Subnet is large.
const mostTried = 256

// choose finds an address of the Subnet that no NIC has and that is none of those
// about to be taken. It takes those of the upper half first, because low ones are
// what configurations write out.
func (s *Subnet) choose(tx *resource.Tx, but []api.IPv4) (api.IPv4, error) {
	usable := sizeOf(s.IpRange.Prefix()) - reservedIps
	free := func(n int) (api.IPv4, bool) {
		ip := api.IPv4(nth(s.IpRange.Prefix(), firstUsable+n).String())
		return ip, !slices.Contains(but, ip) && s.holder(tx, ip) == nil
	}
	for _, half := range [][2]int{{usable / 2, usable}, {0, usable / 2}} {
		first, size := half[0], half[1]-half[0]
		start := number(tx, size)
		for i := range min(size, mostTried) {
			if ip, ok := free(first + (start+i)%size); ok {
				return ip, nil
			}
		}
	}
	for n := usable - 1; n >= 0; n-- {
		if ip, ok := free(n); ok {
			return ip, nil
		}
	}
	return "", apierror.InsufficientCapacity.Errorf("The Subnet %s has no free address left in %s.", s.SubnetId, s.IpRange)
}

// privateName is the name by which machines find a private address.
func (region Region) privateName(ip api.IPv4) string {
	return "ip-" + dashed(ip) + "." + region.Name + ".compute.internal"
}

// publicName is the name by which the Internet finds a public address.
func (region Region) publicName(ip api.IPv4) string {
	return "ows-" + dashed(ip) + "." + region.Name + ".compute." + region.Domain
}

func dashed(ip api.IPv4) string { return strings.ReplaceAll(string(ip), ".", "-") }
