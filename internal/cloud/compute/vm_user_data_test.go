package compute

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
	"github.com/bastide-cloud/bastide/internal/cloud/cloudtest"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
	"github.com/bastide-cloud/bastide/internal/store"
)

// encoded is what user data are sent as.
func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// ordering are user data that order something.
func ordering(lines ...string) string {
	return encoded(sectionBegins + "\n" + strings.Join(lines, "\n") + "\n" + sectionEnds + "\n")
}

func manyTags(n int) (lines []string) {
	for i := range n {
		lines = append(lines, fmt.Sprintf("tags.key%02d=value", i))
	}
	return lines
}

func TestUserDataOrders(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, data, want, forVm string }{
		{"none", "#!/bin/sh\necho", "{false false []}", "#!/bin/sh\necho"},
		{"binary", "\x1f\x8b\x00\n", "{false false []}", "\x1f\x8b\x00\n"},
		{"private", "-----BEGIN OUTSCALE SECTION-----\n  private_only = true\r\n  -----END OUTSCALE SECTION-----", "{true false []}",
			"-----BEGIN OUTSCALE SECTION-----\n  private_only = true\r\n  -----END OUTSCALE SECTION-----"},
		{"outside of a section", "private_only=true\n", "{false false []}", "private_only=true\n"},
		{"after a section", "-----BEGIN OUTSCALE SECTION-----\n-----END OUTSCALE SECTION-----\nprivate_only=true", "{false false []}",
			"-----BEGIN OUTSCALE SECTION-----\n-----END OUTSCALE SECTION-----\nprivate_only=true"},
		{"tags", "-----BEGIN OUTSCALE SECTION-----\ntags.a=b\ntags.c.d=e=f\ntags.=g\ntags.h\n-----END OUTSCALE SECTION-----",
			"{false false [{a b} {c.d e=f} {h }]}",
			"-----BEGIN OUTSCALE SECTION-----\ntags.a=b\ntags.c.d=e=f\ntags.=g\ntags.h\n-----END OUTSCALE SECTION-----"},
		{"secret", "#!/bin/sh\n-----BEGIN OUTSCALE SECTION-----\nfilter_private_section=true\ntags.a=b\n-----END OUTSCALE SECTION-----\necho",
			"{false true [{a b}]}", "#!/bin/sh\necho"},
		{"unknown", "-----BEGIN OUTSCALE SECTION-----\npin=server\nprivate_only=yes\n-----END OUTSCALE SECTION-----", "{false false []}",
			"-----BEGIN OUTSCALE SECTION-----\npin=server\nprivate_only=yes\n-----END OUTSCALE SECTION-----"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, forVm := UserData(encoded(test.data)).read()
			if fmt.Sprint(got) != test.want || string(forVm) != test.forVm {
				t.Errorf("they order %v and tell the VM %q; want %s and %q", got, forVm, test.want, test.forVm)
			}
		})
	}
}

func TestUserDataCheck(t *testing.T) {
	t.Parallel()
	most := strings.Repeat("AAAA", maxUserData/4)
	for _, data := range []UserData{"", "aGk=", "aG\r\n  k=", UserData(most)} {
		if err := data.Check(); err != nil {
			t.Errorf("%.20q of %d is refused: %v", data, len(data), err)
		}
	}
	for data, want := range map[UserData]apierror.Code{"abc": apierror.InvalidValue, UserData(most + "AAAA"): apierror.InvalidLength} {
		if err := data.Check(); !want.Is(err) {
			t.Errorf("%.20q of %d is refused with %v, want %s", data, len(data), err, want)
		}
	}
}

// The tags that user data order are those of the VM, and do what tags do: at its
// creation, and at the first start after an update.
func TestUserDataTagVms(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	fixed := l.One(anna, "CreatePublicIp", `{}`).Text("PublicIp")
	data := ordering("tags.osc.fcu.eip.auto-attach="+fixed, "tags.team=red", "filter_private_section=true")
	v := l.vms(anna, `"UserData": %q`, data)[0]
	if v.Text("PublicIp") != fixed || v.Text("UserData") != data || !slices.Equal(cloudtest.Texts(v.Objects("Tags"), "Value"),
		[]string{fixed, "red"}) {
		t.Errorf("it is made as %v", v)
	}
	l.act()
	if m := l.inWorld(anna, v.Text("VmId")); len(m.UserData) != 0 || m.Metadata["tags/team"] != "red" || m.Nics[0].Public.String() != fixed {
		t.Errorf("the machine is %+v", m)
	}
	l.Call(anna, "DeleteVms", `{"VmIds": [%q]}`, v.Text("VmId"))
	l.act()

	subnet, net := l.subnet(anna)
	service := l.One(anna, "CreateInternetService", `{}`).Text("InternetServiceId")
	l.Call(anna, "LinkInternetService", `{"InternetServiceId": %q, "NetId": %q}`, service, net)
	vm := l.vmIn(anna, `"SubnetId": %q, "BootOnCreation": false`, subnet)
	l.Call(anna, "UpdateVm", `{"VmId": %q, "UserData": %q}`, vm, data)
	if v := l.read(anna, "ReadVms", "VmIds", vm); v.Text("PublicIp") != "<nil>" || len(v.Objects("Tags")) != 2 {
		t.Errorf("updated, it is %v", v)
	}
	l.Call(anna, "StartVms", `{"VmIds": [%q]}`, vm)
	if got := l.read(anna, "ReadVms", "VmIds", vm).Text("PublicIp"); got != fixed {
		t.Errorf("started, it has %s, want %s", got, fixed)
	}
	l.act()
	l.Call(anna, "StopVms", `{"VmIds": [%q]}`, vm)
	l.act()
	l.refuse(apierror.TooManyTags, anna, "UpdateVm", `{"VmId": %q, "UserData": %q}`, vm, ordering(manyTags(49)...))
	l.Call(anna, "UpdateVm", `{"VmId": %q, "UserData": %q}`, vm, ordering(manyTags(48)...))
}

// userTexts is how many long user data an account keeps for its VMs.
func (l *testRegion) userTexts(account string) (n int) {
	l.Helper()
	l.View(account, func(tx *resource.Tx) error { n = userTexts.Count(tx); return nil })
	return n
}

// Long user data are kept once for all VMs that have them, whatever becomes of
// each, and shown as long as a VM is.
func TestLongUserData(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	long, other := encoded(strings.Repeat("first ", 1000)), encoded(strings.Repeat("other ", 1000))
	vms := cloudtest.Texts(l.vms(anna, `"MinVmsCount": 3, "BootOnCreation": false, "UserData": %q`, long), "VmId")
	l.act()
	shown := func(want ...string) {
		t.Helper()
		for i, vm := range vms {
			if got := l.read(anna, "ReadVms", "VmIds", vm).Text("UserData"); got != want[i] {
				t.Errorf("VM %d shows %.20q of %d, want %.20q of %d", i, got, len(got), want[i], len(want[i]))
			}
		}
	}
	shown(long, long, long)
	if n := l.userTexts(anna); n != 1 {
		t.Errorf("three VMs with the same user data keep %d texts", n)
	}
	for i, data := range []string{other, "aGk=", long} {
		if got := l.One(anna, "UpdateVm", `{"VmId": %q, "UserData": %q}`, vms[i], data).Text("UserData"); got != data {
			t.Errorf("updated, VM %d shows %.20q of %d", i, got, len(got))
		}
	}
	l.Call(anna, "StartVms", `{"VmIds": %s}`, jsonOf(vms))
	l.act()
	shown(other, "aGk=", long)
	for i, want := range []string{"other ", "hi", "first "} {
		if m := l.inWorld(anna, vms[i]); !strings.HasPrefix(string(m.UserData), want) {
			t.Errorf("the machine of VM %d is told %.20q of %d", i, m.UserData, len(m.UserData))
		}
	}
	if n := l.userTexts(anna); n != 2 {
		t.Errorf("two VMs with long user data keep %d texts", n)
	}

	// What no VM has is removed; what a VM that is shown had is shown.
	l.Call(anna, "DeleteVms", `{"VmIds": [%q]}`, vms[2])
	l.act()
	shown(other, "aGk=", long)
	if n := l.userTexts(anna); n != 1 {
		t.Errorf("one VM with long user data keeps %d texts", n)
	}
	l.Call(anna, "CreateVms", `{"ImageId": %q, "UserData": %q}`, l.omi(anna), long)
	l.act()
	shown(other, "aGk=", long)
	l.Call(anna, "DeleteVms", `{"VmIds": %s}`, jsonOf(cloudtest.Texts(l.list(anna, "ReadVms", `{}`), "VmId")))
	l.settle()
	l.View(anna, func(tx *resource.Tx) error {
		for range userTexts.Each(tx, 0) {
			t.Error("user data are left of VMs that are not shown any more")
		}
		return nil
	})
}

// What VMs with user data write does not grow with their number times the length
// of these, neither when they are made nor when their states change.
func TestWhatUserDataWrite(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	data := strings.Repeat("AAAA", 456_000/4)
	image := l.omi(anna)
	l.journal.since()
	l.refuse(apierror.InvalidLength, anna, "CreateVms", `{"ImageId": %q, "MinVmsCount": 100, "UserData": %q}`, image, data)
	made := cloudtest.Texts(l.Call(anna, "CreateVms", `{"ImageId": %q, "MaxVmsCount": 100, "UserData": %q}`, image, data).Objects("Vms"),
		"VmId")
	if most := maxUserDataPerCall / len(data); len(made) != most {
		t.Errorf("%d VMs are made, want %d, for whose user data there is room", len(made), most)
	}
	if got := l.journal.since(); got > len(data)+len(made)*8<<10 {
		t.Errorf("the creation of %d VMs has written %d bytes", len(made), got)
	}
	l.act()
	l.Call(anna, "StopVms", `{"VmIds": %s}`, jsonOf(made))
	l.act()
	l.Call(anna, "DeleteVms", `{"VmIds": %s}`, jsonOf(made))
	l.act()
	if got := l.journal.since(); got > len(data)+len(made)*64<<10 {
		t.Errorf("the life of %d VMs has written %d bytes", len(made), got)
	}
}

// Documents of VMs that an earlier version has written have their user data in
// them, however long they are.
func TestUserDataInTheDocument(t *testing.T) {
	t.Parallel()
	l := newVmRegion(t)
	long := encoded(strings.Repeat("first ", 1000))
	vm := l.vmIn(anna, `"BootOnCreation": false`)
	l.Update(anna, func(tx *resource.Tx) error {
		v, err := Vms.Get(tx, id.Vm(vm))
		if err != nil {
			return err
		}
		for _, codec := range resource.Codecs([]resource.Any{Vms}, cloudtest.Envelope{}) {
			doc, err := codec.Encode(store.Place{}, v)
			if err != nil {
				return err
			}
			was, err := codec.Decode(store.Place{}, []byte(strings.Replace(string(doc), `{`, `{"UserData": "`+long+`", `, 1)))
			if err != nil {
				return err
			}
			*v = *was.(*Vm)
		}
		v.Generation++
		return Vms.Put(tx, v)
	})
	l.Call(anna, "StartVms", `{"VmIds": [%q]}`, vm)
	l.act()
	if got := l.read(anna, "ReadVms", "VmIds", vm).Text("UserData"); got != long || l.userTexts(anna) != 0 {
		t.Errorf("it shows %.20q of %d", got, len(got))
	}
	if m := l.inWorld(anna, vm); !strings.HasPrefix(string(m.UserData), "first ") {
		t.Errorf("its machine is told %.20q of %d", m.UserData, len(m.UserData))
	}
	l.Call(anna, "StopVms", `{"VmIds": [%q]}`, vm)
	l.act()
	if got := l.One(anna, "UpdateVm", `{"VmId": %q, "UserData": %q}`, vm, long).Text("UserData"); got != long || l.userTexts(anna) != 1 {
		t.Errorf("updated, it shows %.20q of %d", got, len(got))
	}
}
