package catalog

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVmTypesAreSane(t *testing.T) {
	t.Parallel()
	if !slices.IsSortedFunc(VmTypes, func(a, b VmType) int { return strings.Compare(a.VmTypeName, b.VmTypeName) }) {
		t.Error("the types are not in alphabetical order")
	}
	names := map[string]bool{}
	for _, v := range VmTypes {
		if names[v.VmTypeName] {
			t.Errorf("%s is listed twice", v.VmTypeName)
		}
		names[v.VmTypeName] = true
		if v.VcoreCount < 1 || v.VcoreCount > 96 || v.MemorySize < 1 || v.MemorySize > 500 || v.MemorySize != math.Trunc(v.MemorySize) ||
			v.MaxPrivateIps < 2 {
			t.Errorf("%+v is out of bounds", v)
		}
		if disks := v.VolumeCount > 0; disks != (v.VolumeSize > 0) || !disks && v.EphemeralsType != "" {
			t.Errorf("%+v has disks without a size, or a size or type without disks", v)
		}
	}
}

// What was recorded of types whose sizes are not those that AWS published.
func TestRecordedVmTypes(t *testing.T) {
	t.Parallel()
	types := map[string]VmType{}
	for _, v := range VmTypes {
		types[v.VmTypeName] = v
	}
	for name, memory := range map[string]float64{
		"t2.nano": 1, "c3.4xlarge": 31, "m4.2xlarge": 33, "c4.8xlarge": 61, "r3.2xlarge": 62, "m4.4xlarge": 66, "g3.4xlarge": 125,
		"c5.18xlarge": 147,
		"m4.10xlarge": 164, "m5.12xlarge": 197, "r4.8xlarge": 250, "g3.16xlarge": 500, "r3.large": 15, "c5.9xlarge": 74, "m2.4xlarge": 70,
		"m5.24xlarge": 384,
	} {
		if got := types[name].MemorySize; got != memory {
			t.Errorf("%s has %v GiB, want %v", name, got, memory)
		}
	}
	for _, want := range []VmType{
		{VmTypeName: "c1.medium", VcoreCount: 2, MemorySize: 2, MaxPrivateIps: 6, VolumeCount: 1, VolumeSize: 340},
		{VmTypeName: "m1.small", VcoreCount: 1, MemorySize: 2, MaxPrivateIps: 4, VolumeCount: 1, VolumeSize: 150},
		{VmTypeName: "m1.medium", VcoreCount: 1, MemorySize: 4, MaxPrivateIps: 6, VolumeCount: 1, VolumeSize: 420},
		{VmTypeName: "m2.2xlarge", VcoreCount: 4, MemorySize: 35, MaxPrivateIps: 30, VolumeCount: 1, VolumeSize: 840, BsuOptimized: true},
		{VmTypeName: "m2.4xlarge", VcoreCount: 8, MemorySize: 70, MaxPrivateIps: 30, VolumeCount: 1, VolumeSize: 1680, BsuOptimized: true},
		{VmTypeName: "c5.18xlarge", VcoreCount: 72, MemorySize: 147, MaxPrivateIps: 30, BsuOptimized: true},
		{VmTypeName: "r4.16xlarge", VcoreCount: 64, MemorySize: 500, MaxPrivateIps: 30},
		{VmTypeName: "t2.large", VcoreCount: 2, MemorySize: 8, MaxPrivateIps: 6},
		{VmTypeName: "mv3.large", VcoreCount: 2, MemorySize: 8, MaxPrivateIps: 10, VolumeCount: 1, VolumeSize: 32, EphemeralsType: "ssd", Gpu: 1},
		{VmTypeName: "g2.8xlarge", VcoreCount: 32, MemorySize: 60, MaxPrivateIps: 15, VolumeCount: 2, VolumeSize: 120, EphemeralsType: "ssd",
			Gpu: 4},
	} {
		if got := types[want.VmTypeName]; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	for name, v := range types {
		switch family, _, _ := strings.Cut(name, "."); {
		case (family == "g3" || family == "r3" || family == "r4") && v.BsuOptimized, name == "c3.8xlarge" && !v.BsuOptimized:
			t.Errorf("%s has BsuOptimized %t", name, v.BsuOptimized)
		case (family == "mv3") != (v.Gpu == 1) && family != "g2" && family != "g3":
			t.Errorf("%s has %d GPUs", name, v.Gpu)
		}
	}
	for _, absent := range []string{"m4.16xlarge", "m5.8xlarge", "m5.16xlarge", "p2.xlarge", "p2.8xlarge", "t2.xlarge", "t2.2xlarge"} {
		if _, ok := types[absent]; ok {
			t.Errorf("%s is listed", absent)
		}
	}
}

func TestReadVmTypes(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want []string
	}{
		// What was recorded of the real service: no other type passes.
		"the recorded size": {`{"Filters":{"VcoreCounts":[4],"MemorySizes":[15],"VolumeCounts":[2],"VolumeSizes":[40,80],"BsuOptimized":true}}`,
			[]string{"m3.xlarge", "mv3.xlarge"}},
		"by name":   {`{"Filters":{"VmTypeNames":["t2.small","tinav5.c1r1"]}}`, []string{"t2.small"}},
		"by GPUs":   {`{"Filters":{"Gpus":[4,8]}}`, []string{"g2.8xlarge", "g3.16xlarge"}},
		"by memory": {`{"Filters":{"MemorySizes":[35,60]}}`, []string{"g2.8xlarge", "m2.2xlarge"}},
		"by NICs":   {`{"Filters":{"Eths":[8]}}`, nil},
		"by disks":  {`{"Filters":{"EphemeralsTypes":["ssd"],"VcoreCounts":[32]}}`, []string{"c3.8xlarge", "g2.8xlarge", "r3.8xlarge"}},
		"not optimised": {`{"Filters":{"BsuOptimized":false,"VcoreCounts":[32]}}`,
			[]string{"g2.8xlarge", "g3.8xlarge", "r3.8xlarge", "r4.8xlarge"}},
		"a page": {`{"ResultsPerPage":2}`, []string{"c1.medium", "c1.xlarge"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestRegion(t, NewRegion("home", "cloud.test"), nil, nil)
			answer := ask[struct{ VmTypes []VmType }](t, w, nobody, "ReadVmTypes", tt.body)
			var got []string
			for _, v := range answer.VmTypes {
				got = append(got, v.VmTypeName)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("ReadVmTypes %s answered %v, want %v", tt.body, got, tt.want)
			}
		})
	}
}

// What a type does not have is not shown of it.
func TestVmTypeShowsWhatItHas(t *testing.T) {
	w := newTestRegion(t, NewRegion("home", "cloud.test"), nil, nil)
	answer := ask[struct{ VmTypes []map[string]any }](t, w, nobody, "ReadVmTypes",
		`{"Filters":{"VmTypeNames":["m1.small","mv3.large","t2.small"]}}`)
	want := []map[string]any{
		{"VmTypeName": "m1.small", "VcoreCount": 1.0, "MemorySize": 2.0, "MaxPrivateIps": 4.0, "VolumeCount": 1.0, "VolumeSize": 150.0,
			"BsuOptimized": false},
		{"VmTypeName": "mv3.large", "VcoreCount": 2.0, "MemorySize": 8.0, "MaxPrivateIps": 10.0, "VolumeCount": 1.0, "VolumeSize": 32.0,
			"EphemeralsType": "ssd",
			"Gpu":            1.0, "BsuOptimized": false},
		{"VmTypeName": "t2.small", "VcoreCount": 1.0, "MemorySize": 2.0, "MaxPrivateIps": 4.0, "VolumeCount": 0.0, "BsuOptimized": false},
	}
	if diff := cmp.Diff(want, answer.VmTypes); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
