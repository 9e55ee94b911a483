package drivertest

import (
	"reflect"
	"slices"
	"testing"

	"github.com/bastide-cloud/bastide/internal/driver"
	gocmp "github.com/google/go-cmp/cmp"
)

// filled notes of each field of each type in a value whether it is ever more
// than zero.
func filled(v reflect.Value, fields map[string]bool) {
	switch v.Kind() {
	case reflect.Struct:
		for f, field := range v.Fields() {
			if !f.IsExported() {
				continue
			}
			name := v.Type().Name() + "." + f.Name
			fields[name] = fields[name] || !field.IsZero()
			filled(field, fields)
		}
	case reflect.Slice:
		for i := range v.Len() {
			filled(v.Index(i), fields)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			filled(v.Elem(), fields)
		}
	}
}

func TestSamplesHaveEverything(t *testing.T) {
	t.Parallel()
	// What names a value stays in a change, and what cannot change.
	name := []string{"Account", "ID"}
	samples := []struct {
		is, becomes any
		stays       []string
		or          any // a sample of what excludes something in the first
	}{
		{net(one), changedNet(net(one)), name, nil},
		{group(one), changedGroup(group(one)), name, nil},
		{tunnel(one), changedTunnel(tunnel(one)), name, nil},
		{link(one), changedLink(link(one)), name, nil},
		{machine(one), changedMachine(machine(one)), name, nil},
		{balancer(one), changedBalancer(balancer(one)), name, nil},
		{disk(one), changedDisk(disk(one)), append(name, "Subregion", "From", "Image"), disk(other)},
		{snapshot("url")(one), changedSnapshot(snapshot("url")(one)), name, nil},
		{export(one), changedExport(export(one)), append(name, "From", "Size", "Format", "Bucket", "Object", "AccessKey", "SecretKey"), nil},
	}
	// What other kinds of values have of the types that they share.
	elsewhere := map[reflect.Type][]string{
		reflect.TypeFor[driver.Net]():         {"GroupName.Name"},
		reflect.TypeFor[driver.PublicGroup](): {"Rule.Services"},
	}
	for _, sample := range samples {
		is, becomes := reflect.ValueOf(sample.is), reflect.ValueOf(sample.becomes)
		fields := map[string]bool{}
		filled(is, fields)
		if sample.or != nil {
			filled(reflect.ValueOf(sample.or), fields)
		}
		for name, more := range fields {
			if !more && !slices.Contains(elsewhere[is.Type()], name) {
				t.Errorf("%s is zero in the sample", name)
			}
		}
		for f, field := range is.Fields() {
			same := gocmp.Equal(field.Interface(), becomes.FieldByIndex(f.Index).Interface(), Equal())
			if stays := slices.Contains(sample.stays, f.Name); same != stays {
				t.Errorf("%s.%s: the change leaves it the same: %t", is.Type().Name(), f.Name, same)
			}
		}
	}
}

// What a list's order says nothing about may be reversed, and what it does may
// not.
func TestEqual(t *testing.T) {
	t.Parallel()
	changes := []struct {
		name   string
		change func(*driver.Net)
		equal  bool
	}{
		{"Subnets", func(n *driver.Net) { slices.Reverse(n.Subnets) }, true},
		{"tables", func(n *driver.Net) { slices.Reverse(n.RouteTables) }, true},
		{"routes", func(n *driver.Net) { slices.Reverse(n.RouteTables[0].Routes) }, true},
		{"groups", func(n *driver.Net) { slices.Reverse(n.SecurityGroups) }, true},
		{"rules", func(n *driver.Net) { slices.Reverse(n.SecurityGroups[0].Inbound) }, true},
		{"ranges of a rule", func(n *driver.Net) { slices.Reverse(n.SecurityGroups[0].Inbound[0].Ranges) }, true},
		{"groups of a rule", func(n *driver.Net) { slices.Reverse(n.SecurityGroups[0].Inbound[0].Groups) }, true},
		{"NICs", func(n *driver.Net) { slices.Reverse(n.Nics) }, true},
		{"groups of a NIC", func(n *driver.Net) { slices.Reverse(n.Nics[0].SecurityGroups) }, true},
		{"ranges of a service", func(n *driver.Net) { slices.Reverse(n.Services[0].Ranges) }, true},
		{"addresses of a NIC", func(n *driver.Net) { slices.Reverse(n.Nics[0].Addresses) }, false},
		{"name servers", func(n *driver.Net) { slices.Reverse(n.Dhcp.DomainNameServers) }, false},
		{"time servers", func(n *driver.Net) { slices.Reverse(n.Dhcp.NtpServers) }, false},
		{"a port", func(n *driver.Net) { n.SecurityGroups[0].Inbound[0].To++ }, false},
		{"a target", func(n *driver.Net) { n.RouteTables[1].Routes[1].ID = "nat-00000002" }, false},
		{"a public address", func(n *driver.Net) { n.Nics[0].Addresses[0].Public = addr("198.51.100.10") }, false},
	}
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := net(one)
			c.change(&n)
			if equal := gocmp.Equal(net(one), n, Equal()); equal != c.equal {
				t.Errorf("equal: %t, want %t", equal, c.equal)
			}
		})
	}
}
