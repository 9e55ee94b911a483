package compute

import (
	"errors"
	"slices"
	"testing"

	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/cloud/network"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// allocs is how often a rule allocates memory in a transaction that writes
// nothing in the end. Each resource that a rule looks at is a copy of it, so this
// counts them, too.
func (l *testRegion) allocs(rule func(*resource.Tx) error) float64 {
	l.Helper()
	l.rest()
	undone := errors.New("undone")
	return testing.AllocsPerRun(1, func() {
		err := l.DB.Update(l.Context(), resource.Caller{Account: anna}, func(tx *resource.Tx) error {
			if err := rule(tx); err != nil {
				return err
			}
			return undone
		})
		if err != undone {
			l.Error(err)
		}
	})
}

// The work for each VM of a call does not grow with the number of VMs, nor with
// how often the call says the same.
func TestCreateVmsIsLinear(t *testing.T) {
	l := newVmRegion(t)
	subnet, net := l.subnet(anna)
	l.Call(anna, "DeleteSubnet", `{"SubnetId": %q}`, subnet)
	subnet = l.One(anna, "CreateSubnet", `{"NetId": %q, "IpRange": "10.0.0.0/18", "SubregionName": "test-1b"}`, net).Text("SubnetId")
	image := l.omi(anna)
	l.settle()
	group := id.SecurityGroup(l.list(anna, "ReadSecurityGroups", `{"NetIds": [%q]}`, net)[0].Text("SecurityGroupId"))
	region := Region{
		Name: "test-1", Subregions: []string{"test-1a", "test-1b"}, VmTypes: map[string]Size{"t2.small": {1, 2}},
		Network: network.Region{Name: "test-1", Domain: "cloud.test", Subregions: []string{"test-1a", "test-1b"}},
	}
	for name, request := range map[string]func(groups []id.SecurityGroup) CreateVmsRequest{
		"in the public Cloud": func([]id.SecurityGroup) CreateVmsRequest { return CreateVmsRequest{} },
		"in a Net": func(groups []id.SecurityGroup) CreateVmsRequest {
			return CreateVmsRequest{SubnetId: id.Subnet(subnet), SecurityGroupIds: groups}
		},
		"with a NIC": func(groups []id.SecurityGroup) CreateVmsRequest {
			return CreateVmsRequest{Nics: []NicForVmCreation{{SubnetId: id.Subnet(subnet), DeviceNumber: new(Device(0)), SecurityGroupIds: groups}}}
		},
	} {
		each := func(n, repeated int) float64 {
			req := request(slices.Repeat([]id.SecurityGroup{group}, repeated))
			req.ImageId, req.MinVmsCount = id.Image(image), &n
			return l.allocs(func(tx *resource.Tx) error {
				_, err := region.createVms(tx, &req)
				return err
			}) / float64(n)
		}
		if few, many := each(100, 1), each(1000, 1000); many > 1.5*few {
			t.Errorf("%s: each of 1000 VMs takes %.0f allocations, and each of 100 %.0f", name, many, few)
		}
	}
}

// A VM that settles costs its group as much, whether it has few VMs or many.
func TestSettlingDoesNotGoThroughTheGroup(t *testing.T) {
	cost := func(n int) float64 {
		l := newVmRegion(t)
		group := id.VmGroup(l.One(anna, "CreateVmGroup", `{%s, "VmCount": %d}`, l.groupIn(anna), n).Text("VmGroupId"))
		l.act()
		l.Update(anna, func(tx *resource.Tx) error { // the last VM settles later
			vms := slices.Collect(Vms.Where(tx, "VmGroupId", string(group)))
			last := vms[len(vms)-1]
			return last.transition(tx, vmDeleted)
		})
		return l.allocs(func(tx *resource.Tx) error { return settleGroup(tx, group) })
	}
	if few, many := cost(2), cost(100); many > few+20 {
		t.Errorf("a group of 100 VMs takes %.0f allocations, and one of 2 %.0f", many, few)
	}
}

// A VM that is deleted while others of its group start anew is counted out.
func TestGroupCountsWhoLeaves(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	group := l.One(anna, "CreateVmGroup", `{%s, "VmCount": 3}`, l.groupIn(anna)).Text("VmGroupId")
	for range 4 {
		l.act()
	}
	var vms []string
	for _, vm := range l.read(anna, "ReadVmGroups", "VmGroupIds", group)["VmIds"].([]any) {
		vms = append(vms, vm.(string))
	}
	l.Call(anna, "StopVms", `{"VmIds": [%q]}`, vms[0])
	l.act()
	l.Call(anna, "DeleteVms", `{"VmIds": [%q]}`, vms[1])
	l.Call(anna, "StartVms", `{"VmIds": [%q]}`, vms[0])
	l.act()
	if g := l.read(anna, "ReadVmGroups", "VmGroupIds",
		group); g.Text("VmCount") != "2" || g.Text("State") != "available" || len(g["VmIds"].([]any)) != 2 {
		t.Errorf("the group is %v", g)
	}
}
