package api

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
)

// plot and its request have the shape of a Net and of ReadNets, the call that
// clients make most.
type (
	plot struct {
		PlotId           plotID
		IpRange          CIDR
		DhcpOptionsSetId string
		State            string
		Tenancy          string
		Generation       int `wire:"-"`
		Tags             []Tag
	}
	ReadPlotsRequest struct {
		Filters *FiltersPlot
		Page
	}
	FiltersPlot struct {
		DhcpOptionsSetIds []string
		IpRanges          []CIDR
		PlotIds           []plotID
		States            []string
		TagFilters
	}
)

func somePlot() *plot {
	return &plot{
		PlotId: "plot-12345678", IpRange: "10.0.0.0/16", DhcpOptionsSetId: "dopt-12345678", State: "available", Tenancy: "default",
		Tags: []Tag{{Key: "Name", Value: "production"}, {Key: "kubernetes.io/cluster/main", Value: "owned"}},
	}
}

func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"Filters":{"PlotIds":["plot-12345678"]}}`)
	b.ReportAllocs()
	for b.Loop() {
		var req ReadPlotsRequest
		if _, err := decode(body, Latest, reflect.ValueOf(&req).Elem()); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeByEncodingJSON(b *testing.B) {
	body := []byte(`{"Filters":{"PlotIds":["plot-12345678"]}}`)
	b.ReportAllocs()
	for b.Loop() {
		var req ReadPlotsRequest
		if err := json.Unmarshal(body, &req); err != nil {
			b.Fatal(err)
		}
	}
}

// machine has the size and shape of a VM: a document of about 1 KB.
type (
	machine struct {
		Architecture        string
		BlockDevices        []device
		BsuOptimized        bool
		ClientToken         string
		CreationDate        DateTime
		DeletionProtection  bool
		Hypervisor          string
		ImageId             string
		IsSourceDestChecked bool
		KeypairName         string
		LaunchNumber        int
		PlotId              plotID
		Performance         string
		PrivateDnsName      string
		PrivateIp           string
		ProductCodes        []string
		RootDeviceName      string
		RootDeviceType      string
		SecurityGroups      []string
		State               string
		StateReason         string
		Tags                []Tag
		UserData            string
		VmId                string
		VmType              string
	}
	device struct {
		Bsu        *bsu
		DeviceName string
	}
	bsu struct {
		DeleteOnVmDeletion bool
		LinkDate           DateTime
		State              string
		VolumeId           string
	}
)

func BenchmarkEncodeKilobyte(b *testing.B) {
	v := reflect.ValueOf(&machine{
		Architecture: "x86_64", BlockDevices: []device{
			{&bsu{true, 1_800_000_000_000, "attached", "vol-12345678"}, "/dev/sda1"},
			{&bsu{false, 1_800_000_000_000, "attached", "vol-87654321"}, "/dev/sdb"},
		},
		CreationDate: 1_800_000_000_000, Hypervisor: "xen", ImageId: "ami-12345678", IsSourceDestChecked: true,
		KeypairName: "operator", PlotId: "plot-12345678", Performance: "high",
		PrivateDnsName: "ip-10-0-0-12.eu-west-2.compute.internal", PrivateIp: "10.0.0.12", ProductCodes: []string{"0001"},
		RootDeviceName: "/dev/sda1", RootDeviceType: "ebs", SecurityGroups: []string{"sg-12345678", "sg-87654321"},
		State: "running", Tags: somePlot().Tags, VmId: "i-12345678", VmType: "tinav7.c2r4p1",
	})
	buffer := Append(nil, v, Latest)
	b.SetBytes(int64(len(buffer)))
	b.ReportAllocs()
	for b.Loop() {
		buffer = Append(buffer[:0], v, Latest)
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			answer := struct{ Plots []*plot }{}
			for range n {
				answer.Plots = append(answer.Plots, somePlot())
			}
			v := reflect.ValueOf(answer)
			buffer := Append(nil, v, Latest)
			b.SetBytes(int64(len(buffer)))
			b.ReportAllocs()
			for b.Loop() {
				buffer = Append(buffer[:0], v, Latest)
			}
		})
	}
}

// What a filter costs per resource, among 1,000 of them: by id, by key of a tag,
// and by a name with an asterisk.
func BenchmarkFilter(b *testing.B) {
	type FiltersField struct {
		PlotIds []plotID
		States  []string `match:"glob"`
		TagFilters
	}
	s := newSelection(reflect.TypeFor[FiltersField](), reflect.TypeFor[plot]())
	plots := make([]plot, 1000)
	for i := range plots {
		plots[i] = *somePlot()
		plots[i].PlotId = plotID(fmt.Sprintf("plot-%08x", i))
	}
	texts := func(n int, format string) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf(format, i))
		}
		return list
	}
	ids := func(n int) (list []plotID) {
		for i := range n {
			list = append(list, plotID(fmt.Sprintf("plot-%08x", 999-i)))
		}
		return list
	}
	for name, filters := range map[string]FiltersField{
		"1 id": {PlotIds: ids(1)}, "8 ids": {PlotIds: ids(8)}, "1000 ids": {PlotIds: ids(1000)},
		"1 tag key":     {TagFilters: TagFilters{TagKeys: texts(1, "key %d")}},
		"1000 tag keys": {TagFilters: TagFilters{TagKeys: texts(1000, "key %d")}},
		"1 tag":         {TagFilters: TagFilters{Tags: texts(1, "Name=%d")}}, "1000 tags": {TagFilters: TagFilters{Tags: texts(1000, "Name=%d")}},
		"1 glob": {States: texts(1, "avail*e")}, "1000 globs": {States: texts(1000, "avail%d*")},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				asked := s.ask(reflect.ValueOf(filters))
				for i := range plots {
					asked.stored.pass(reflect.ValueOf(&plots[i]).Elem())
				}
			}
		})
	}
}
