package network

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// Protocol is a protocol above IP, by its name or its number, or -1 for all.
type Protocol string

// The protocols that have names here, and what stands for all.
const (
	Tcp          Protocol = "tcp"
	Udp          Protocol = "udp"
	Icmp         Protocol = "icmp"
	AllProtocols Protocol = "-1"
)

// named are the protocols that have names, by their numbers in IANA's list. No
// text at all is no protocol given.
var named = map[Protocol]Protocol{"1": Icmp, "6": Tcp, "17": Udp, "": AllProtocols}

// highestProtocol is the highest number that a packet can carry.
const highestProtocol = 255

// Check reports a text that is no protocol.
func (p Protocol) Check() error {
	if slices.Contains([]Protocol{Tcp, Udp, Icmp, AllProtocols, ""}, p) {
		return nil
	}
	n, err := strconv.Atoi(string(p))
	if err != nil || n < 0 || n > highestProtocol || strconv.Itoa(n) != string(p) {
		return apierror.InvalidProtocol.Errorf("'%s' is not tcp, udp, icmp, -1 or the number of a protocol.", p)
	}
	return nil
}

// traffic is what tells the rules of a group apart.
type traffic struct {
	protocol Protocol
	from, to int
}

// everything is all traffic.
var everything = traffic{AllProtocols, -1, -1}

func (t traffic) String() string {
	switch t.protocol {
	case AllProtocols:
		return "all traffic"
	case Tcp, Udp:
		return fmt.Sprintf("%s ports %d to %d", t.protocol, t.from, t.to)
	case Icmp:
		return fmt.Sprintf("icmp type %d code %d", t.from, t.to)
	}
	return "protocol " + string(t.protocol)
}

// The highest numbers of TCP and UDP ports, and of ICMP types and codes.
const highestPort, highestIcmp = 65535, 255

// normal returns the traffic in the form in which groups keep it.
func (t traffic) normal(inNet bool) (traffic, error) {
	if name, ok := named[t.protocol]; ok {
		t.protocol = name
	}
	switch t.protocol {
	case Tcp, Udp:
		return t.withPorts()
	case Icmp:
		return t, t.checkIcmp()
	case AllProtocols:
	default:
		if !inNet {
			return t, apierror.InvalidProtocol.Errorf("The IpProtocol %s requires a security group of a Net.", t.protocol)
		}
	}
	t.from, t.to = -1, -1 // The protocol has no ports: given ones are ignored.
	return t, nil
}

// withPorts returns traffic of TCP or UDP with the ports that are left out.
func (t traffic) withPorts() (traffic, error) {
	switch { // The vendor's SDK for Go leaves out a port that is 0.
	case t.from == -1 && t.to == -1:
		t.from, t.to = 0, highestPort
	case t.from == -1 && t.to > 0:
		t.from = 0
	}
	if t.from < 0 || t.to < t.from || t.to > highestPort {
		return t, apierror.InvalidPorts.Errorf(
			"%s needs a FromPortRange and a ToPortRange between 0 and %d, the first not above the second, or neither of them for all ports.",
			t.protocol, highestPort)
	}
	return t, nil
}

// checkIcmp refuses a type and a code that ICMP does not have.
func (t traffic) checkIcmp() error {
	if min(t.from, t.to) < -1 || max(t.from, t.to) > highestIcmp || t.from == -1 && t.to != -1 {
		return apierror.InvalidPorts.Errorf(
			"icmp needs a type as FromPortRange and a code as ToPortRange, between 0 and %d, or -1 for all. All types require all codes.",
			highestIcmp)
	}
	return nil
}
