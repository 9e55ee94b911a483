package compute

import (
	"testing"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

func TestTypes(t *testing.T) {
	t.Parallel()
	region := Region{VmTypes: map[string]Size{"t2.small": {1, 2}, "m4.2xlarge": {8, 33}, "c4.large": {2, 4}, "m3.large": {2, 8}}}
	tests := []struct {
		name        string
		asked, want Performance
		size        Size
		generation  string
	}{
		{"tinav7.c2r2p1", PerformanceMedium, PerformanceHighest, Size{2, 2}, "v7"},
		{"tinav7.c1r1p2", "", PerformanceHigh, Size{1, 1}, "v7"},
		{"tinav1.c16r7p3", PerformanceHighest, PerformanceMedium, Size{16, 7}, "v1"},
		{"tinav5.c2r2", PerformanceMedium, PerformanceMedium, Size{2, 2}, "v5"},
		{"tinav5.c3r3", PerformanceHigh, PerformanceHigh, Size{3, 3}, "v5"},
		{"tinav6.c130r2300", PerformanceHigh, PerformanceHigh, Size{130, 2300}, "v6"},
		{"c4.large", PerformanceMedium, PerformanceHighest, Size{2, 4}, "v4"},
		{"m4.2xlarge", PerformanceHighest, PerformanceHigh, Size{8, 33}, "v4"},
		{"m3.large", PerformanceHighest, PerformanceHigh, Size{2, 8}, "v3"},
		{"t2.small", PerformanceHighest, PerformanceMedium, Size{1, 2}, ""},
		{name: "tina.c2r4"}, {name: "tinav0.c1r1"}, {name: "tinav8.c1r1"}, {name: "tinav7.c0r1"}, {name: "tinav7.c1r0"}, {name: "tinav7.c131r1"},
		{name: "tinav7.c1r2301"}, {name: "tinav7.c1r1p4"}, {name: "tinav7.c1r1p0"}, {name: "tinav7.c1r1p"}, {name: "tinav7.c01r1"},
		{name: "tinav7.c1r1 "},
		{name: "Tinav7.c1r1"}, {name: "m9.large"}, {name: ""}, {name: "tinav7.c99999999999999999999r1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			size, performance, err := region.typed(test.name, test.asked)
			if test.want == "" {
				if !apierror.VmTypeNotFound.Is(err) {
					t.Errorf("it is %v, %s, %v, want no such type", size, performance, err)
				}
				return
			}
			if err != nil || size != test.size || performance != test.want {
				t.Errorf("it is %v, %s, %v, want %v, %s", size, performance, err, test.size, test.want)
			}
			if got := (&Vm{VmType: test.name}).generation(); got != test.generation {
				t.Errorf("its generation is %q, want %q", got, test.generation)
			}
		})
	}
}

func FuzzTyped(f *testing.F) {
	region := Region{VmTypes: map[string]Size{"t2.small": {1, 2}}}
	for _, name := range []string{"tinav7.c2r2p1", "t2.small", "tinav5.c2r2", "tina", ".", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		(&Vm{VmType: name}).generation()
		size, performance, err := region.typed(name, PerformanceHigh)
		if err == nil && (size.Vcores < 1 || size.Memory < 1 || performance == "") {
			t.Errorf("%q is a type of %v, %s", name, size, performance)
		}
	})
}
