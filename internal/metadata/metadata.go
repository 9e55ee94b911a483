// Package metadata is the metadata service of machines at 169.254.169.254: the
// paths that a [Machine] has there, and a handler that serves them. The machine
// is known by the origin of a request, so there is one handler per machine, and
// requests do not name machines.
//
// The control plane computes the paths and passes them to a driver, which adds
// what only it knows, such as the host, and serves them wherever the machine
// runs.
package metadata

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Machine is the metadata of a machine. Empty fields have no path.
type Machine struct {
	ID, Image, Type string
	Reservation     string
	Index           int    // the machine's index in its reservation
	Hostname        string // its private DNS name
	PublicHostname  string
	PublicIP        netip.Addr
	Subregion       string
	Devices         []string // its disks' devices; the first is the root device
	Nics            []Nic    // ordered by Device
	KeyName, Key    string   // the public key, as a line of authorized_keys
	SecurityGroups  []string // their names
	Tags            map[string]string
}

// Nic is a network interface card of a machine.
type Nic struct {
	ID, MAC     string
	Device      int
	Owner       string // the account
	Hostname    string // its private DNS name
	Private     []netip.Addr
	Public      []netip.Addr
	Gateway     netip.Addr
	Net, Subnet string // IDs; empty in the public Cloud
	NetRange    netip.Prefix
	SubnetRange netip.Prefix
	GroupIDs    []string // the IDs of its security groups
}

// Paths returns the values below meta-data/, by path. The key of a tag is the
// end of its path, whatever characters it has.
func (m Machine) Paths() map[string]string {
	p := paths{}
	p.put("ami-id", m.Image)
	p.put("ami-launch-index", strconv.Itoa(m.Index))
	for i, device := range m.Devices {
		if i == 0 {
			p.put("block-device-mapping/ami", device)
			p.put("block-device-mapping/root", device)
		} else {
			p.put(fmt.Sprintf("block-device-mapping/ebs%d", i), device)
		}
	}
	p.put("hostname", m.Hostname)
	p.put("instance-id", m.ID)
	p.put("instance-type", m.Type)
	p.put("local-hostname", m.Hostname)
	p.put("placement/availability-zone", m.Subregion)
	p.put("public-hostname", m.PublicHostname)
	p.put("public-ipv4", text(m.PublicIP))
	if m.Key != "" {
		p.put("public-keys", "0="+m.KeyName)
		p.put("public-keys/0/openssh-key", m.Key)
	}
	p.put("reservation-id", m.Reservation)
	p.put("security-groups", strings.Join(m.SecurityGroups, "\n"))
	for key, value := range m.Tags {
		p["tags/"+key] = value
	}
	for i, n := range m.Nics {
		if i == 0 && len(n.Private) > 0 {
			p.put("local-ipv4", text(n.Private[0]))
		}
		if i == 0 {
			p.put("mac", n.MAC)
		}
		n.add(p)
	}
	return p
}

func (n Nic) add(p paths) {
	at := "network/interfaces/macs/" + n.MAC + "/"
	p.put(at+"device-number", strconv.Itoa(n.Device))
	p.put(at+"gateway-ipv4", text(n.Gateway))
	p.put(at+"interface-id", n.ID)
	p.put(at+"local-hostname", n.Hostname)
	p.put(at+"local-ipv4s", strings.Join(texts(n.Private), "\n"))
	p.put(at+"mac", n.MAC)
	p.put(at+"owner-id", n.Owner)
	p.put(at+"public-ipv4s", strings.Join(texts(n.Public), "\n"))
	p.put(at+"security-group-ids", strings.Join(n.GroupIDs, "\n"))
	p.put(at+"subnet-id", n.Subnet)
	p.put(at+"subnet-ipv4-cidr-block", text(n.SubnetRange))
	p.put(at+"vpc-id", n.Net)
	p.put(at+"vpc-ipv4-cidr-block", text(n.NetRange))
}

// paths maps paths to values.
type paths map[string]string

func (p paths) put(path, value string) {
	if value != "" {
		p[path] = value
	}
}

// text returns an address or a range as text; empty if it is not valid.
func text[A interface {
	IsValid() bool
	String() string
}](a A) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func texts(list []netip.Addr) (all []string) {
	for _, a := range list {
		all = append(all, a.String())
	}
	return all
}
