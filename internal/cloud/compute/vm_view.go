package compute

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// viewVm adds to a VM its NICs, its volumes and the fields derived from them. A
// terminated VM has none.
func (region Region) viewVm(tx *resource.Tx, v *Vm) *Vm {
	if v.State == VmTerminated {
		v.ActionsOnNextBoot, v.IsSourceDestChecked = &ActionsOnNextBoot{}, v.SourceDestChecked
	} else {
		v.Nics, v.SecurityGroups = new([]NicLight), new([]network.SecurityGroupLight) // shown even if they are empty
	}
	if v.ActionsOnNextBoot == nil {
		v.ActionsOnNextBoot = &ActionsOnNextBoot{SecureBoot: SecureBootNone}
	}
	v.UserData = v.userData(tx)
	v.StateCode = vmStateCodes[v.State]
	if v.isWindows() {
		v.Platform = "windows"
	}
	for volume := range volumesOf(tx, v.VmId) {
		link := volume.LinkedVolumes[0]
		v.BlockDeviceMappings = append(v.BlockDeviceMappings, BlockDeviceMappingCreated{
			DeviceName: link.DeviceName,
			Bsu: BsuCreated{
				DeleteOnVmDeletion: link.DeleteOnVmDeletion, LinkDate: link.LinkDate, State: link.State, VolumeId: volume.VolumeId,
			},
		})
	}
	for _, n := range network.VmNics(tx, v.VmId) {
		region.showNic(v, region.Network.ShowNic(tx, n))
	}
	return v
}

// showNic adds a NIC to the view of its VM.
func (region Region) showNic(v *Vm, n *network.Nic) {
	primary, inNet := n.LinkNic.DeviceNumber == 0, n.NetId != ""
	light := lightNic(n)
	if v.PrivateOnly && !inNet {
		light.NetId, light.SubnetId = hiddenNet(n.AccountId), hiddenSubnet(n.AccountId, n.SubregionName)
		light.Description = defaultNicDescription
	}
	if primary {
		v.NetId, v.SubnetId, v.SecurityGroups = light.NetId, light.SubnetId, &light.SecurityGroups
		v.PrivateIp, v.PrivateDnsName = n.PrivateIps[0].PrivateIp, n.PrivateDnsName
		v.IsSourceDestChecked = inNet && n.IsSourceDestChecked
		if public := n.LinkPublicIp; public != nil {
			v.PublicIp, v.PublicDnsName = public.PublicIp, public.PublicDnsName
		}
	}
	if inNet || v.PrivateOnly {
		*v.Nics = append(*v.Nics, light)
	} else {
		v.CloudGroups = light.SecurityGroups
	}
}

// lightNic returns a NIC as its VM shows it.
func lightNic(n *network.Nic) NicLight {
	link := n.LinkNic
	light := NicLight{
		AccountId: n.AccountId, Description: n.Description, IsSourceDestChecked: n.IsSourceDestChecked,
		LinkNic: LinkNicLight{
			DeleteOnVmDeletion: link.DeleteOnVmDeletion, DeviceNumber: link.DeviceNumber, LinkNicId: link.LinkNicId, State: link.State,
			LinkDate: link.LinkDate, VmAccountId: link.VmAccountId, VmId: link.VmId,
		},
		LinkPublicIp: lightPublicIp(n.LinkPublicIp), MacAddress: n.MacAddress, NetId: n.NetId, NicId: n.NicId,
		PrivateDnsName: n.PrivateDnsName, SecurityGroups: byID(n.SecurityGroups), State: n.State,
		SubnetId: n.SubnetId, SubregionName: n.SubregionName,
	}
	for _, p := range n.PrivateIps {
		light.PrivateIps = append(light.PrivateIps, PrivateIpLightForVm{
			IsPrimary: p.IsPrimary, LinkPublicIp: lightPublicIp(p.LinkPublicIp), PrivateDnsName: p.PrivateDnsName, PrivateIp: p.PrivateIp,
		})
	}
	return light
}

// byID returns security groups in the order of their IDs.
func byID(groups []network.SecurityGroupLight) []network.SecurityGroupLight {
	return slices.SortedFunc(slices.Values(groups), func(a, b network.SecurityGroupLight) int {
		return cmp.Compare(a.SecurityGroupId, b.SecurityGroupId)
	})
}

func lightPublicIp(l *network.LinkPublicIp) *LinkPublicIpLightForVm {
	if l == nil {
		return nil
	}
	return &LinkPublicIpLightForVm{
		PublicDnsName: l.PublicDnsName, PublicIp: l.PublicIp, PublicIpAccountId: l.PublicIpAccountId,
		LinkPublicIpId: l.LinkPublicIpId, PublicIpId: l.PublicIpId,
	}
}

// The product codes of images. A VM with other codes may have any guest.
const windowsCode = "0002"

var otherCodes = []string{"0001", "0004", "0006"}

// isWindows reports whether the guest is known to be Windows.
func (v *Vm) isWindows() bool { return slices.Contains(v.ProductCodes, windowsCode) }

// isOther reports whether the guest is known not to be Windows.
func (v *Vm) isOther() bool {
	return slices.ContainsFunc(v.ProductCodes, func(code string) bool { return slices.Contains(otherCodes, code) })
}

// A VM of the public Cloud without a public IP is shown with one NIC, in a Net and
// a Subnet of the region's that no other call knows. Their IDs are derived from the
// account and the Subregion, and so are the same for all its VMs.

// hiddenNet returns the Net of an account's VMs without a public IP.
func hiddenNet(account id.Account) id.Net {
	return id.Net(id.Net("").Form().Prefix + hashed(string(account)))
}

// hiddenSubnet returns their Subnet in a Subregion.
func hiddenSubnet(account id.Account, subregion string) id.Subnet {
	return id.Subnet(id.Subnet("").Form().Prefix + hashed(string(account)+subregion))
}

func hashed(text string) string {
	sum := fnv.New32a()
	sum.Write([]byte("private " + text))
	return fmt.Sprintf("%08x", sum.Sum32())
}
