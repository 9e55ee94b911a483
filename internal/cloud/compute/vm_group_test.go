package compute

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/driver"
)

// template makes a template, of two vCores and 4 GiB unless the request says more.
func (l *testRegion) template(account, more string) string {
	l.Helper()
	return l.One(account, "CreateVmTemplate", `{"ImageId": %q, "CpuCores": 2, "CpuGeneration": "v5", "Ram": 4, "VmTemplateName": "small"%s}`,
		l.omi(account), more).Text("VmTemplateId")
}

// groupIn makes the parts of a request for a group.
func (l *testRegion) groupIn(account string) string {
	l.Helper()
	subnet, net := l.subnet(account)
	group := l.One(account, "CreateSecurityGroup", `{"NetId": %q, "SecurityGroupName": "web", "Description": "-"}`,
		net).Text("SecurityGroupId")
	return fmt.Sprintf(`"SubnetId": %q, "SecurityGroupIds": [%q], "VmTemplateId": %q, "VmGroupName": "herd"`, subnet, group,
		l.template(account, `, "CpuPerformance": "medium"`))
}

func TestVmGroupLife(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	g := l.One(anna, "CreateVmGroup", `{%s, "VmCount": 2, "PositioningStrategy": "repulse", "Description": "sheep", "Tags": [{"Key": "env",
		"Value": "test"}]}`, l.groupIn(anna))
	group := g.Text("VmGroupId")
	is := func(state string, count int) reply {
		t.Helper()
		g := l.read(anna, "ReadVmGroups", "VmGroupIds", group)
		if g.Text("State") != state || g.Text("VmCount") != fmt.Sprint(count) || len(g["VmIds"].([]any)) != count {
			t.Errorf("the group is %v, want %d that are %s", g, count, state)
		}
		return g
	}
	is("pending", 2)
	for range 8 {
		l.act()
	}
	first := is("available", 2)["VmIds"].([]any)
	v := l.read(anna, "ReadVms", "VmIds", fmt.Sprint(first[0]))
	if v.Text("VmType") != "tinav5.c2r4" || v.Text("Performance") != "medium" || v.Text("State") != "running" ||
		v.Text("SubnetId") != g.Text("SubnetId") {
		t.Errorf("a VM of the group is %v", v)
	}
	l.Selects(v.Objects("SecurityGroups"), "SecurityGroupName", "web")
	if m := l.inWorld(anna, v.Text("VmId")); !slices.Equal(m.Affinities,
		[]driver.Affinity{{Strategy: "repulse", Scope: "server", Group: group, Strict: true}}) {
		t.Errorf("the driver has %+v", m)
	}

	// New VMs are made from the present template.
	l.Call(anna, "UpdateVmGroup", `{"VmGroupId": %q, "VmTemplateId": %q, "VmGroupName": "flock", "Description": "", "Tags": []}`, group,
		l.template(anna, `, "CpuPerformance": "highest"`))
	l.Call(anna, "ScaleUpVmGroup", `{"VmGroupId": %q, "VmAddition": 1}`, group)
	is("scaling up", 3)
	for action, number := range map[string]string{"ScaleUpVmGroup": "VmAddition", "ScaleDownVmGroup": "VmSubtraction"} {
		l.refuse(apierror.InvalidState, anna, action, `{"VmGroupId": %q, %q: 1}`, group, number)
	}
	for range 8 {
		l.act()
	}
	grown := is("available", 3)
	if grown.Text("VmGroupName") != "flock" || grown.Text("Description") != "" || len(grown.Objects("Tags")) != 0 {
		t.Errorf("the changed group is %v", grown)
	}
	vms := grown["VmIds"].([]any)
	if got := l.read(anna, "ReadVms", "VmIds", fmt.Sprint(vms[2])).Text("Performance"); got != "highest" {
		t.Errorf("the new VM has the performance %s", got)
	}

	// The oldest go first.
	l.refuse(apierror.InvalidCount, anna, "ScaleDownVmGroup", `{"VmGroupId": %q, "VmSubtraction": 4}`, group)
	l.Call(anna, "ScaleDownVmGroup", `{"VmGroupId": %q, "VmSubtraction": 1}`, group)
	is("scaling down", 2)
	l.act()
	if left := is("available", 2)["VmIds"].([]any); left[0] != vms[1] || left[1] != vms[2] {
		t.Errorf("of %v, %v are left", vms, left)
	}

	// Somebody may delete one behind the back of its group.
	l.Call(anna, "DeleteVms", `{"VmIds": [%q]}`, vms[1])
	l.act()
	is("available", 1)
	for what, want := range map[string]apierror.Code{
		fmt.Sprintf("DeleteVmTemplate %s", grown.Text("VmTemplateId")): apierror.InUse, fmt.Sprintf("DeleteSubnet %s",
			grown.Text("SubnetId")): apierror.SubnetInUse,
	} {
		var action, of string
		fmt.Sscan(what, &action, &of)
		l.refuse(want, anna, action, `{%q: %q}`, action[len("Delete"):]+"Id", of)
	}
	l.Call(anna, "DeleteVmGroup", `{"VmGroupId": %q}`, group)
	is("deleting", 0)
	l.act()
	is("deleted", 0)
	l.settle()
	if all := l.Call(anna, "ReadVmGroups", `{}`).Objects("VmGroups"); len(all) != 0 {
		t.Errorf("left are %v", all)
	}
	l.Call(anna, "DeleteVmTemplate", `{"VmTemplateId": %q}`, grown.Text("VmTemplateId"))
}

func TestVmGroupRefuses(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t, map[string]int{"vm_limit": 3})
	parts := l.groupIn(anna)
	for name, test := range map[string]struct {
		request string
		want    apierror.Code
	}{
		"none":       {parts + `, "VmCount": 0`, apierror.InvalidValue},
		"no count":   {parts, apierror.MissingParameter},
		"too many":   {parts + `, "VmCount": 4`, apierror.TooManyVms},
		"a strategy": {parts + `, "VmCount": 1, "PositioningStrategy": "scatter"`, apierror.InvalidValue},
		"no groups": {`"VmCount": 1, "SecurityGroupIds": [], "SubnetId": "subnet-00000000",
			"VmTemplateId": "vmtemplate-00000000000000000000000000000000", "VmGroupName": "herd"`, apierror.MissingParameter},
		"somebody's template":  {replaced(parts, "VmTemplateId", l.template(ben, "")), apierror.ObjectNotFound},
		"no Subnet":            {replaced(parts, "SubnetId", "subnet-00000000"), apierror.SubnetNotFound},
		"a name of no letters": {replaced(parts, "VmGroupName", ""), apierror.InvalidLength},
	} {
		own := *l
		t.Run(name, func(t *testing.T) {
			own.T = t
			own.refuse(test.want, anna, "CreateVmGroup", "%s", "{"+test.request+"}")
		})
	}
	group := l.One(anna, "CreateVmGroup", `{%s, "VmCount": 2}`, parts).Text("VmGroupId")
	for range 8 {
		l.act()
	}
	l.refuse(apierror.TooManyVms, anna, "ScaleUpVmGroup", `{"VmGroupId": %q, "VmAddition": 2}`, group)
	protected := l.list(anna, "ReadVms", `{}`)[0].Text("VmId")
	l.Call(anna, "UpdateVm", `{"VmId": %q, "DeletionProtection": true}`, protected)
	l.refuse(apierror.DeletionProtected, anna, "DeleteVmGroup", `{"VmGroupId": %q}`, group)
	l.refuse(apierror.DeletionProtected, anna, "ScaleDownVmGroup", `{"VmGroupId": %q, "VmSubtraction": 1}`, group)
	for _, action := range []string{"DeleteVmGroup", "UpdateVmGroup"} {
		l.refuse(apierror.ObjectNotFound, ben, action, `{"VmGroupId": %q}`, group)
	}
}

// replaced is a request with another value, and with a number of VMs.
func replaced(request, field, value string) string {
	var o map[string]any
	if err := json.Unmarshal([]byte("{"+request+`, "VmCount": 1}`), &o); err != nil {
		panic(err)
	}
	o[field] = value
	text := jsonOf(o)
	return text[1 : len(text)-1]
}

func TestVmGroupFilters(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	g := l.One(anna, "CreateVmGroup", `{%s, "VmCount": 1, "Description": "sheep", "Tags": [{"Key": "env", "Value": "test"}]}`, l.groupIn(anna))
	other := l.One(anna, "CreateVmGroup", `{%s, "VmCount": 2}`, l.groupIn(anna))
	one := g.Text("VmGroupId")
	tests := map[string]any{
		"Descriptions": []string{"sheep"}, "SecurityGroupIds": g["SecurityGroupIds"], "SubnetIds": []any{g["SubnetId"]},
		"TagKeys":   []string{"env"},
		"TagValues": []string{"test"}, "Tags": []string{"env=test"}, "VmCounts": []int{1}, "VmGroupIds": []string{one},
		"VmTemplateIds": []any{g["VmTemplateId"]},
	}
	for name, value := range tests {
		l.Selects(l.list(anna, "ReadVmGroups", "%s", jsonOf(map[string]any{name: value})), "VmGroupId", one)
	}
	l.Selects(l.list(anna, "ReadVmGroups", `{"VmGroupNames": ["herd"]}`), "VmGroupId", one, other.Text("VmGroupId"))
	l.Selects(l.list(anna, "ReadVmGroups", `{"VmGroupNames": ["flock"]}`), "VmGroupId")
	l.Selects(l.list(ben, "ReadVmGroups", `{}`), "VmGroupId")
	if len(fields[FiltersVmGroup]()) != len(tests)+1 {
		t.Errorf("the filters are %q", fields[FiltersVmGroup]())
	}
}
