package compute

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/bastide-cloud/bastide/internal/apierror"
)

// Size is what a VM has of its host.
type Size struct {
	Vcores int
	Memory int // GiB
}

// defaultVmType is the type of a VM whose creation names none.
const defaultVmType = "t2.small"

// tinaType is the form of the types that say what they mean: tinavW.cXrYpZ, where
// W is the generation of processors, X a number of vCores, Y one of GiB of memory
// and Z, which may be left out with its p, the level of performance.
var tinaType = regexp.MustCompile(`^tinav([1-9][0-9]?)\.c([1-9][0-9]{0,3})r([1-9][0-9]{0,4})(?:p([123]))?$`)

// levels are the levels of performance by the number that a type gives them.
var levels = map[string]Performance{"1": PerformanceHighest, "2": PerformanceHigh, "3": PerformanceMedium}

// typed is what a type means: a size, and the performance that it sets, or the
// one that was asked for besides.
func (region Region) typed(name string, asked Performance) (Size, Performance, error) {
	if size, ok := region.VmTypes[name]; ok {
		return size, aliasPerformance(name), nil
	}
	m := tinaType.FindStringSubmatch(name)
	if m == nil {
		return Size{}, "", noSuchType(name)
	}
	generation, _ := strconv.Atoi(m[1]) // of digits only
	vcores, _ := strconv.Atoi(m[2])
	memory, _ := strconv.Atoi(m[3])
	_, mostCores := VmCores(0).Bounds()
	_, mostMemory := VmRam(0).Bounds()
	if generation > newestCpus || vcores > int(mostCores) || memory > int(mostMemory) {
		return Size{}, "", apierror.VmTypeNotFound.Errorf(
			"The VmType '%s' doesn't exist: there are generations 1 to %d, up to %d vCores and up to %d GiB of memory.",
			name, newestCpus, mostCores, mostMemory)
	}
	if level, ok := levels[m[4]]; ok {
		asked = level
	}
	return Size{vcores, memory}, asked, nil
}

func noSuchType(name string) error {
	return apierror.VmTypeNotFound.Errorf(
		"The VmType '%.100s' doesn't exist. It is the name of a predefined type, or of the form tinavW.cXrYpZ.", name)
}

// aliasPerformance is the level that a predefined type has. Source: the real
// service's notes on c4.large (highest) and m4.2xlarge (high). That types for
// bursts are below both is a guess.
func aliasPerformance(name string) Performance {
	switch name[0] {
	case 't':
		return PerformanceMedium
	case 'm':
		return PerformanceHigh
	}
	return PerformanceHighest
}

// generation is the generation of processors that the type of a VM asks for: v5
// of tinav5.c2r2p1, v4 of m4.large; empty: none, as older and other predefined
// types do not say.
func (v *Vm) generation() string {
	family, _, ok := strings.Cut(v.VmType, ".")
	number, tina := strings.CutPrefix(family, "tinav")
	if !ok || family == "" {
		return ""
	}
	if !tina {
		number = family[len(family)-1:]
	}
	n, err := strconv.Atoi(number)
	if err != nil || !tina && n < oldestAlias {
		return ""
	}
	return "v" + number
}

// oldestAlias is the number from which on the names of predefined types tell the
// generation of processors.
const oldestAlias = 3

// vmType is the type of the VMs that a template describes.
func (t *VmTemplate) vmType() string {
	return fmt.Sprintf("tina%s.c%dr%d", t.CpuGeneration, t.CpuCores, t.Ram)
}
