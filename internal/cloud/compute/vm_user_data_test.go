package compute

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/bastide-cloud/bastide/internal/fault"
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
		{"tags", "-----BEGIN OUTSCALE SECTION-----\ntags.a=b\ntags.c.d=e=f\ntags.=g\ntags.h\n-----END OUTSCALE SECTION-----", "{false false [{a b} {c.d e=f} {h }]}",
			"-----BEGIN OUTSCALE SECTION-----\ntags.a=b\ntags.c.d=e=f\ntags.=g\ntags.h\n-----END OUTSCALE SECTION-----"},
		{"secret", "#!/bin/sh\n-----BEGIN OUTSCALE SECTION-----\nfilter_private_section=true\ntags.a=b\n-----END OUTSCALE SECTION-----\necho", "{false true [{a b}]}", "#!/bin/sh\necho"},
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
	for data, want := range map[UserData]fault.Code{"abc": fault.InvalidValue, UserData(most + "AAAA"): fault.InvalidLength} {
		if err := data.Check(); !want.Is(err) {
			t.Errorf("%.20q of %d is refused with %v, want %s", data, len(data), err, want)
		}
	}
}

// The tags that user data order are those of the VM, and do what tags do: at its
// creation, and at the first start after an update.
func TestUserDataTagVms(t *testing.T) {
	t.Parallel()
	l := newVmLab(t)
	fixed := l.one(anna, "CreatePublicIp", `{}`).text("PublicIp")
	data := ordering("tags.osc.fcu.eip.auto-attach="+fixed, "tags.team=red", "filter_private_section=true")
	v := l.vms(anna, `"UserData": %q`, data)[0]
	if v.text("PublicIp") != fixed || v.text("UserData") != data || !slices.Equal(texts(v.objects("Tags"), "Value"), []string{fixed, "red"}) {
		t.Errorf("it is made as %v", v)
	}
	l.act()
	if m := l.inWorld(anna, v.text("VmId")); len(m.UserData) != 0 || m.Metadata["tags/team"] != "red" || m.Nics[0].Public.String() != fixed {
		t.Errorf("the machine is %+v", m)
	}
	l.call(anna, "DeleteVms", `{"VmIds": [%q]}`, v.text("VmId"))
	l.act()

	subnet, net := l.subnet(anna)
	service := l.one(anna, "CreateInternetService", `{}`).text("InternetServiceId")
	l.call(anna, "LinkInternetService", `{"InternetServiceId": %q, "NetId": %q}`, service, net)
	vm := l.vmIn(anna, `"SubnetId": %q, "BootOnCreation": false`, subnet)
	l.call(anna, "UpdateVm", `{"VmId": %q, "UserData": %q}`, vm, data)
	if v := l.read(anna, "ReadVms", "VmIds", vm); v.text("PublicIp") != "<nil>" || len(v.objects("Tags")) != 2 {
		t.Errorf("updated, it is %v", v)
	}
	l.call(anna, "StartVms", `{"VmIds": [%q]}`, vm)
	if got := l.read(anna, "ReadVms", "VmIds", vm).text("PublicIp"); got != fixed {
		t.Errorf("started, it has %s, want %s", got, fixed)
	}
	l.act()
	l.call(anna, "StopVms", `{"VmIds": [%q]}`, vm)
	l.act()
	l.refuse(fault.TooManyTags, anna, "UpdateVm", `{"VmId": %q, "UserData": %q}`, vm, ordering(manyTags(49)...))
	l.call(anna, "UpdateVm", `{"VmId": %q, "UserData": %q}`, vm, ordering(manyTags(48)...))
}
