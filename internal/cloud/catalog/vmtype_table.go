package catalog

// VmTypes are the predefined VM types, in alphabetical order as the real service
// lists them. A VM of any other size has a type of the form tinavW.cXrYpZ, which
// no list shows. The table is read-only.
//
// The names are AWS's, and so are the sizes where no recorded answer says
// otherwise. Memory is AWS's figure times 1.024 in whole gibibytes; r3.large,
// g2.8xlarge and m5.24xlarge were recorded with less. The disks without a type
// are hard disks: the type is shown for SSDs only.
var VmTypes = []VmType{
	{VmTypeName: "c1.medium", VcoreCount: 2, MemorySize: 2, MaxPrivateIps: 6, VolumeCount: 1, VolumeSize: 340},
	{VmTypeName: "c1.xlarge", VcoreCount: 8, MemorySize: 7, MaxPrivateIps: 15, VolumeCount: 4, VolumeSize: 420, BsuOptimized: true},

	{VmTypeName: "c3.2xlarge", VcoreCount: 8, MemorySize: 15, MaxPrivateIps: 15, VolumeCount: 2, VolumeSize: 80, EphemeralsType: "ssd",
		BsuOptimized: true},
	{VmTypeName: "c3.4xlarge", VcoreCount: 16, MemorySize: 31, MaxPrivateIps: 30, VolumeCount: 2, VolumeSize: 160, EphemeralsType: "ssd",
		BsuOptimized: true},
	{VmTypeName: "c3.8xlarge", VcoreCount: 32, MemorySize: 61, MaxPrivateIps: 30, VolumeCount: 2, VolumeSize: 320, EphemeralsType: "ssd",
		BsuOptimized: true},
	{VmTypeName: "c3.large", VcoreCount: 2, MemorySize: 4, MaxPrivateIps: 10, VolumeCount: 2, VolumeSize: 16, EphemeralsType: "ssd"},
	{VmTypeName: "c3.xlarge", VcoreCount: 4, MemorySize: 8, MaxPrivateIps: 15, VolumeCount: 2, VolumeSize: 40, EphemeralsType: "ssd",
		BsuOptimized: true},

	{VmTypeName: "c4.2xlarge", VcoreCount: 8, MemorySize: 15, MaxPrivateIps: 15, BsuOptimized: true},
	{VmTypeName: "c4.4xlarge", VcoreCount: 16, MemorySize: 31, MaxPrivateIps: 30, BsuOptimized: true},
	{VmTypeName: "c4.8xlarge", VcoreCount: 36, MemorySize: 61, MaxPrivateIps: 30, BsuOptimized: true},
	{VmTypeName: "c4.large", VcoreCount: 2, MemorySize: 4, MaxPrivateIps: 10, BsuOptimized: true},
	{VmTypeName: "c4.xlarge", VcoreCount: 4, MemorySize: 8, MaxPrivateIps: 15, BsuOptimized: true},

	{VmTypeName: "c5.18xlarge", VcoreCount: 72, MemorySize: 147, MaxPrivateIps: 30, BsuOptimized: true},
	{VmTypeName: "c5.2xlarge", VcoreCount: 8, MemorySize: 16, MaxPrivateIps: 15, BsuOptimized: true},
	{VmTypeName: "c5.4xlarge", VcoreCount: 16, MemorySize: 33, MaxPrivateIps: 30, BsuOptimized: true},
	{VmTypeName: "c5.9xlarge", VcoreCount: 36, MemorySize: 74, MaxPrivateIps: 30, BsuOptimized: true},
	{VmTypeName: "c5.large", VcoreCount: 2, MemorySize: 4, MaxPrivateIps: 10, BsuOptimized: true},
	{VmTypeName: "c5.xlarge", VcoreCount: 4, MemorySize: 8, MaxPrivateIps: 15, BsuOptimized: true},

	{VmTypeName: "g2.2xlarge", VcoreCount: 8, MemorySize: 15, MaxPrivateIps: 15, VolumeCount: 1, VolumeSize: 60, EphemeralsType: "ssd",
		Gpu: 1, BsuOptimized: true},
	{VmTypeName: "g2.8xlarge", VcoreCount: 32, MemorySize: 60, MaxPrivateIps: 15, VolumeCount: 2, VolumeSize: 120, EphemeralsType: "ssd",
		Gpu: 4},

	{VmTypeName: "g3.16xlarge", VcoreCount: 64, MemorySize: 500, MaxPrivateIps: 50, Gpu: 4},
	{VmTypeName: "g3.4xlarge", VcoreCount: 16, MemorySize: 125, MaxPrivateIps: 30, Gpu: 1},
	{VmTypeName: "g3.8xlarge", VcoreCount: 32, MemorySize: 250, MaxPrivateIps: 30, Gpu: 2},

	{VmTypeName: "m1.large", VcoreCount: 2, MemorySize: 8, MaxPrivateIps: 10, VolumeCount: 2, VolumeSize: 420, BsuOptimized: true},
	{VmTypeName: "m1.medium", VcoreCount: 1, MemorySize: 4, MaxPrivateIps: 6, VolumeCount: 1, VolumeSize: 420},
	{VmTypeName: "m1.small", VcoreCount: 1, MemorySize: 2, MaxPrivateIps: 4, VolumeCount: 1, VolumeSize: 150},
	{VmTypeName: "m1.xlarge", VcoreCount: 4, MemorySize: 15, MaxPrivateIps: 15, VolumeCount: 4, VolumeSize: 420, BsuOptimized: true},

	{VmTypeName: "m2.2xlarge", VcoreCount: 4, MemorySize: 35, MaxPrivateIps: 30, VolumeCount: 1, VolumeSize: 840, BsuOptimized: true},
	{VmTypeName: "m2.4xlarge", VcoreCount: 8, MemorySize: 70, MaxPrivateIps: 30, VolumeCount: 1, VolumeSize: 1680, BsuOptimized: true},
	{VmTypeName: "m2.xlarge", VcoreCount: 2, MemorySize: 18, MaxPrivateIps: 15, VolumeCount: 1, VolumeSize: 420},

	{VmTypeName: "m3.2xlarge", VcoreCount: 8, MemorySize: 31, MaxPrivateIps: 30, VolumeCount: 2, VolumeSize: 80, EphemeralsType: "ssd",
		BsuOptimized: true},
	{VmTypeName: "m3.large", VcoreCount: 2, MemorySize: 8, MaxPrivateIps: 10, VolumeCount: 1, VolumeSize: 32, EphemeralsType: "ssd"},
	{VmTypeName: "m3.medium", VcoreCount: 1, MemorySize: 4, MaxPrivateIps: 6, VolumeCount: 1, VolumeSize: 4, EphemeralsType: "ssd"},
	{VmTypeName: "m3.xlarge", VcoreCount: 4, MemorySize: 15, MaxPrivateIps: 15, VolumeCount: 2, VolumeSize: 40, EphemeralsType: "ssd",
		BsuOptimized: true},

	{VmTypeName: "m4.10xlarge", VcoreCount: 40, MemorySize: 164, MaxPrivateIps: 30, BsuOptimized: true},
	{VmTypeName: "m4.2xlarge", VcoreCount: 8, MemorySize: 33, MaxPrivateIps: 15, BsuOptimized: true},
	{VmTypeName: "m4.4xlarge", VcoreCount: 16, MemorySize: 66, MaxPrivateIps: 30, BsuOptimized: true},
	{VmTypeName: "m4.large", VcoreCount: 2, MemorySize: 8, MaxPrivateIps: 10, BsuOptimized: true},
	{VmTypeName: "m4.xlarge", VcoreCount: 4, MemorySize: 16, MaxPrivateIps: 15, BsuOptimized: true},

	{VmTypeName: "m5.12xlarge", VcoreCount: 48, MemorySize: 197, MaxPrivateIps: 30, BsuOptimized: true},
	{VmTypeName: "m5.24xlarge", VcoreCount: 96, MemorySize: 384, MaxPrivateIps: 30, BsuOptimized: true},
	{VmTypeName: "m5.2xlarge", VcoreCount: 8, MemorySize: 33, MaxPrivateIps: 15, BsuOptimized: true},
	{VmTypeName: "m5.4xlarge", VcoreCount: 16, MemorySize: 66, MaxPrivateIps: 30, BsuOptimized: true},
	{VmTypeName: "m5.large", VcoreCount: 2, MemorySize: 8, MaxPrivateIps: 10, BsuOptimized: true},
	{VmTypeName: "m5.xlarge", VcoreCount: 4, MemorySize: 16, MaxPrivateIps: 15, BsuOptimized: true},

	{VmTypeName: "mv3.2xlarge", VcoreCount: 8, MemorySize: 31, MaxPrivateIps: 30, VolumeCount: 2, VolumeSize: 80, EphemeralsType: "ssd",
		Gpu: 1, BsuOptimized: true},
	{VmTypeName: "mv3.large", VcoreCount: 2, MemorySize: 8, MaxPrivateIps: 10, VolumeCount: 1, VolumeSize: 32, EphemeralsType: "ssd", Gpu: 1},
	{VmTypeName: "mv3.xlarge", VcoreCount: 4, MemorySize: 15, MaxPrivateIps: 15, VolumeCount: 2, VolumeSize: 40, EphemeralsType: "ssd",
		Gpu: 1, BsuOptimized: true},

	{VmTypeName: "r3.2xlarge", VcoreCount: 8, MemorySize: 62, MaxPrivateIps: 15, VolumeCount: 1, VolumeSize: 160, EphemeralsType: "ssd"},
	{VmTypeName: "r3.4xlarge", VcoreCount: 16, MemorySize: 125, MaxPrivateIps: 30, VolumeCount: 1, VolumeSize: 320, EphemeralsType: "ssd"},
	{VmTypeName: "r3.8xlarge", VcoreCount: 32, MemorySize: 250, MaxPrivateIps: 30, VolumeCount: 2, VolumeSize: 320, EphemeralsType: "ssd"},
	{VmTypeName: "r3.large", VcoreCount: 2, MemorySize: 15, MaxPrivateIps: 10, VolumeCount: 1, VolumeSize: 32, EphemeralsType: "ssd"},
	{VmTypeName: "r3.xlarge", VcoreCount: 4, MemorySize: 31, MaxPrivateIps: 15, VolumeCount: 1, VolumeSize: 80, EphemeralsType: "ssd"},

	{VmTypeName: "r4.16xlarge", VcoreCount: 64, MemorySize: 500, MaxPrivateIps: 30},
	{VmTypeName: "r4.2xlarge", VcoreCount: 8, MemorySize: 62, MaxPrivateIps: 15},
	{VmTypeName: "r4.4xlarge", VcoreCount: 16, MemorySize: 125, MaxPrivateIps: 30},
	{VmTypeName: "r4.8xlarge", VcoreCount: 32, MemorySize: 250, MaxPrivateIps: 30},
	{VmTypeName: "r4.large", VcoreCount: 2, MemorySize: 16, MaxPrivateIps: 10},
	{VmTypeName: "r4.xlarge", VcoreCount: 4, MemorySize: 31, MaxPrivateIps: 15},

	{VmTypeName: "t1.micro", VcoreCount: 1, MemorySize: 1, MaxPrivateIps: 2},

	{VmTypeName: "t2.large", VcoreCount: 2, MemorySize: 8, MaxPrivateIps: 6},
	{VmTypeName: "t2.medium", VcoreCount: 2, MemorySize: 4, MaxPrivateIps: 6},
	{VmTypeName: "t2.micro", VcoreCount: 1, MemorySize: 1, MaxPrivateIps: 2},
	{VmTypeName: "t2.nano", VcoreCount: 1, MemorySize: 1, MaxPrivateIps: 2},
	{VmTypeName: "t2.small", VcoreCount: 1, MemorySize: 2, MaxPrivateIps: 4},
}
