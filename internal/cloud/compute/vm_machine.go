package compute

import (
	"net/netip"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/driver"
	"github.com/bastide-cloud/bastide/internal/metadata"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// wanted is the VM as the driver should have it. ready is false while a disk of it
// is not made yet.
func (region Region) wanted(tx *resource.Tx, v *Vm) (want driver.Machine, ready bool) {
	want = driver.Machine{
		Account: tx.Account(), ID: string(v.VmId), Generation: v.Generation,
		Subregion: v.Placement.SubregionName, Tenancy: string(v.Placement.Tenancy), Affinities: v.affinities(tx),
		Cores: v.Vcores, CpuModel: v.generation(), Performance: string(v.Performance), Memory: v.Memory,
		Nested: v.NestedVirtualization, Windows: v.isWindows(), BootMode: string(v.BootMode), Tpm: v.TpmEnabled,
		On: v.Running && !isKeptOff(tx, v.VmId), Boots: v.Boots, Forced: v.Forced,
		OnGuest: string(v.VmInitiatedShutdownBehavior), OnHost: string(v.ShutdownBehaviorConfiguration.HostAction),
	}
	_, want.UserData = v.userData(tx).read()
	if a := v.ActionsOnNextBoot; a != nil && a.SecureBoot != SecureBootNone && v.State == VmPending {
		want.SecureBoot = string(a.SecureBoot)
	}
	if v.PublicKey != "" {
		want.Keys = []string{v.PublicKey}
	}
	for _, g := range gpusIn(tx, v.VmId) {
		want.Gpus = append(want.Gpus, driver.Gpu{ID: string(g.FlexibleGpuId), Model: g.ModelName})
	}
	want.Disks, ready = wantedDisks(tx, v)
	nics := network.VmNics(tx, v.VmId)
	for i, n := range nics {
		nics[i] = region.Network.ShowNic(tx, n)
		want.Nics = append(want.Nics, wantedNic(nics[i]))
	}
	want.Metadata = region.about(tx, v, want.Disks, nics).Paths()
	return want, ready
}

// wantedNic is a NIC as the driver of a machine should have it.
func wantedNic(n *network.Nic) driver.MachineNic {
	want := driver.MachineNic{ID: string(n.NicId), MAC: n.MacAddress, Net: string(n.NetId), Device: n.LinkNic.DeviceNumber}
	for _, p := range n.PrivateIps {
		want.Private = append(want.Private, addrOf(p.PrivateIp))
	}
	if n.NetId != "" {
		return want
	}
	if n.LinkPublicIp != nil {
		want.Public = addrOf(n.LinkPublicIp.PublicIp)
	}
	for _, g := range n.SecurityGroups {
		want.Groups = append(want.Groups, string(g.SecurityGroupId))
	}
	return want
}

// about is what a VM can ask about itself.
func (region Region) about(tx *resource.Tx, v *Vm, disks []driver.MachineDisk, nics []*network.Nic) metadata.Machine {
	about := metadata.Machine{
		ID: string(v.VmId), Image: string(v.ImageId), Type: v.VmType, Reservation: v.ReservationId, Index: v.LaunchNumber,
		Subregion: v.Placement.SubregionName, KeyName: v.KeypairName, Key: v.PublicKey, Tags: map[string]string{},
	}
	for _, d := range disks {
		about.Devices = append(about.Devices, d.Device)
	}
	for _, t := range v.Tags {
		about.Tags[t.Key] = t.Value
	}
	for i, n := range nics {
		if i == 0 {
			about.Hostname = n.PrivateDnsName
			if p := n.LinkPublicIp; p != nil {
				about.PublicHostname, about.PublicIP = p.PublicDnsName, addrOf(p.PublicIp)
			}
			for _, g := range n.SecurityGroups {
				about.SecurityGroups = append(about.SecurityGroups, g.SecurityGroupName)
			}
		}
		about.Nics = append(about.Nics, aboutNic(tx, n))
	}
	return about
}

// aboutNic is what a VM can ask about one of its NICs.
func aboutNic(tx *resource.Tx, n *network.Nic) metadata.Nic {
	about := metadata.Nic{
		ID: string(n.NicId), MAC: n.MacAddress, Device: n.LinkNic.DeviceNumber, Owner: tx.Account(), Hostname: n.PrivateDnsName,
		Net: string(n.NetId), Subnet: string(n.SubnetId),
	}
	for _, p := range n.PrivateIps {
		about.Private = append(about.Private, addrOf(p.PrivateIp))
		if p.LinkPublicIp != nil {
			about.Public = append(about.Public, addrOf(p.LinkPublicIp.PublicIp))
		}
	}
	for _, g := range n.SecurityGroups {
		about.GroupIDs = append(about.GroupIDs, string(g.SecurityGroupId))
	}
	if net, err := network.Nets.Get(tx, n.NetId); err == nil {
		about.NetRange = net.IpRange.Prefix()
	}
	if subnet, err := network.Subnets.Get(tx, n.SubnetId); err == nil {
		about.SubnetRange = subnet.IpRange.Prefix()
		about.Gateway = about.SubnetRange.Addr().Next()
	}
	return about
}

// addrOf is an address as drivers have it.
func addrOf(ip api.IPv4) netip.Addr { return netip.MustParseAddr(string(ip)) }
