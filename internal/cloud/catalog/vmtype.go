package catalog

import "github.com/bastide-cloud/bastide/internal/api"

// VmType is a predefined size of VMs.
type VmType struct {
	VmTypeName    string  // The name of the VM type.
	VcoreCount    int     // The number of vCores.
	MemorySize    float64 // The amount of memory, in gibibytes.
	MaxPrivateIps int     // The maximum number of private IPs per network interface card (NIC).
	// The maximum number of NICs, if it is known of the type: it is of none.
	Eth         int `wire:"omitempty"`
	VolumeCount int // The number of ephemeral storage disks.
	// The size of one ephemeral storage disk, in gibibytes (GiB).
	VolumeSize int `wire:"omitempty"`
	// The type of the ephemeral storage disks, if they are SSDs: `ssd`.
	EphemeralsType string `wire:"omitempty"`
	Gpu            int    `wire:"omitempty"` // The number of GPUs; absent if there is none.
	BsuOptimized   bool   // Without effect, and there for clients that were written for AWS.
}

// ReadVmTypesRequest lists the predefined VM types.
type ReadVmTypesRequest struct {
	Filters *FiltersVmType // One or more filters.
	api.Page
}

// FiltersVmType selects VM types.
type FiltersVmType struct {
	// Without effect on VMs, and there for clients that were written for AWS.
	BsuOptimized    *bool
	EphemeralsTypes []string  // The types of the ephemeral storage disks.
	Eths            []int     // The maximum numbers of NICs, which are known of no type.
	Gpus            []int     // The numbers of GPUs.
	MemorySizes     []float64 // The amounts of memory, in gibibytes (GiB).
	VcoreCounts     []int     // The numbers of vCores.
	VmTypeNames     []string  // The names of the VM types.
	VolumeCounts    []int     // The numbers of ephemeral storage disks.
	VolumeSizes     []int     // The sizes of one ephemeral storage disk, in gibibytes (GiB).
}

func readVmTypes() api.Action {
	return api.Read[ReadVmTypesRequest](api.Fixed("Vm", "VmTypes", VmTypes)).WithAuth(api.Open)
}
