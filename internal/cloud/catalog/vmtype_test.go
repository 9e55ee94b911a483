package catalog

import (
	"slices"
	"testing"
)

func TestVmTypesAreSane(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, v := range VmTypes {
		if names[v.VmTypeName] {
			t.Errorf("%s is listed twice", v.VmTypeName)
		}
		names[v.VmTypeName] = true
		if v.VcoreCount < 1 || v.VcoreCount > 80 || v.MemorySize <= 0 || v.MemorySize > 512 || v.Eth < 2 || v.Eth > 8 || v.MaxPrivateIps < 2 {
			t.Errorf("%+v is out of bounds", v)
		}
		if disks := v.VolumeCount > 0; disks != (v.VolumeSize > 0) || disks != (v.EphemeralsType != "") {
			t.Errorf("%+v has disks without a size or type, or these without disks", v)
		}
	}
}

func TestReadVmTypes(t *testing.T) {
	for name, tt := range map[string]struct {
		body string
		want []string
	}{
		// What was recorded of the real service: no other type passes.
		"the recorded size": {`{"Filters":{"VcoreCounts":[4],"MemorySizes":[15],"VolumeCounts":[2],"VolumeSizes":[40,80],"BsuOptimized":true}}`, []string{"m3.xlarge", "mv3.xlarge"}},
		"by name":           {`{"Filters":{"VmTypeNames":["t2.small","tinav5.c1r1"]}}`, []string{"t2.small"}},
		"by GPUs":           {`{"Filters":{"Gpus":[4,8]}}`, []string{"g3.16xlarge", "p2.8xlarge"}},
		"by half gibibytes": {`{"Filters":{"MemorySizes":[0.5]}}`, []string{"t2.nano"}},
		"by NICs and disks": {`{"Filters":{"Eths":[8],"EphemeralsTypes":["hdd"]}}`, []string{"m2.4xlarge"}},
		"not optimised":     {`{"Filters":{"BsuOptimized":false,"VcoreCounts":[32]}}`, []string{"c3.8xlarge", "r3.8xlarge"}},
		"a page":            {`{"ResultsPerPage":2}`, []string{"t1.micro", "t2.nano"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, NewRegion("home", "cloud.test"), nil, nil)
			answer := ask[struct{ VmTypes []VmType }](w, nobody, "ReadVmTypes", tt.body)
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

func TestVmTypeWithoutDisksShowsNoSize(t *testing.T) {
	w := newWorld(t, NewRegion("home", "cloud.test"), nil, nil)
	answer := ask[struct{ VmTypes []map[string]any }](w, nobody, "ReadVmTypes", `{"Filters":{"VmTypeNames":["t2.small"]}}`)
	if len(answer.VmTypes) != 1 {
		t.Fatalf("answered %v, want t2.small", answer.VmTypes)
	}
	small := answer.VmTypes[0]
	if _, ok := small["VolumeSize"]; ok || small["VolumeCount"] != 0.0 || small["MaxPrivateIps"] != 4.0 {
		t.Errorf("t2.small is shown as %v", small)
	}
}
