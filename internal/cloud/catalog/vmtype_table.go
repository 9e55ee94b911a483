package catalog

// VmTypes are the predefined VM types: the names that AWS made known. A VM of
// any other size has a type of the form tinavW.cXrYpZ, which no list shows.
// Nobody may change the table.
//
// The sizes are those AWS published for its names, with memory in whole
// gibibytes, rounded up: so the real service shows them wherever it was seen
// (t2.small, m3.large, m3.xlarge, c4.large). It documents one more, m4.2xlarge.
// A VM has at most eight NICs, the device numbers 0 to 7. What would need
// more than 80 vCores or 512 GiB is left out.
var VmTypes = []VmType{
	// name, vCores, GiB, private IPs per NIC, NICs, disks, GiB each, their type, GPUs, optimised

	{"t1.micro", 1, 1, 2, 2, 0, 0, "", 0, false},
	{"t2.nano", 1, 0.5, 2, 2, 0, 0, "", 0, false},
	{"t2.micro", 1, 1, 2, 2, 0, 0, "", 0, false},
	{"t2.small", 1, 2, 4, 3, 0, 0, "", 0, false},
	{"t2.medium", 2, 4, 6, 3, 0, 0, "", 0, false},
	{"t2.large", 2, 8, 12, 3, 0, 0, "", 0, false},
	{"t2.xlarge", 4, 16, 15, 3, 0, 0, "", 0, false},
	{"t2.2xlarge", 8, 32, 15, 3, 0, 0, "", 0, false},

	{"m1.small", 1, 2, 4, 2, 1, 160, "hdd", 0, false},
	{"m1.medium", 1, 4, 6, 2, 1, 410, "hdd", 0, false},
	{"m1.large", 2, 8, 10, 3, 2, 420, "hdd", 0, true},
	{"m1.xlarge", 4, 15, 15, 4, 4, 420, "hdd", 0, true},
	{"m2.xlarge", 2, 18, 15, 4, 1, 420, "hdd", 0, false},
	{"m2.2xlarge", 4, 35, 30, 4, 1, 850, "hdd", 0, true},
	{"m2.4xlarge", 8, 69, 30, 8, 2, 840, "hdd", 0, true},
	{"m3.medium", 1, 4, 6, 2, 1, 4, "ssd", 0, false},
	{"m3.large", 2, 8, 10, 3, 1, 32, "ssd", 0, false},
	{"m3.xlarge", 4, 15, 15, 4, 2, 40, "ssd", 0, true},
	{"m3.2xlarge", 8, 30, 30, 4, 2, 80, "ssd", 0, true},
	{"mv3.xlarge", 4, 15, 15, 4, 2, 40, "ssd", 0, true}, // the real service's own
	{"m4.large", 2, 8, 10, 2, 0, 0, "", 0, true},
	{"m4.xlarge", 4, 16, 15, 4, 0, 0, "", 0, true},
	{"m4.2xlarge", 8, 33, 15, 4, 0, 0, "", 0, true}, // documented as c8r33
	{"m4.4xlarge", 16, 64, 30, 8, 0, 0, "", 0, true},
	{"m4.10xlarge", 40, 160, 30, 8, 0, 0, "", 0, true},
	{"m4.16xlarge", 64, 256, 30, 8, 0, 0, "", 0, true},
	{"m5.large", 2, 8, 10, 3, 0, 0, "", 0, true},
	{"m5.xlarge", 4, 16, 15, 4, 0, 0, "", 0, true},
	{"m5.2xlarge", 8, 32, 15, 4, 0, 0, "", 0, true},
	{"m5.4xlarge", 16, 64, 30, 8, 0, 0, "", 0, true},
	{"m5.8xlarge", 32, 128, 30, 8, 0, 0, "", 0, true},
	{"m5.12xlarge", 48, 192, 30, 8, 0, 0, "", 0, true},
	{"m5.16xlarge", 64, 256, 50, 8, 0, 0, "", 0, true},

	{"c1.medium", 2, 2, 6, 2, 1, 350, "hdd", 0, false},
	{"c1.xlarge", 8, 7, 15, 4, 4, 420, "hdd", 0, true},
	{"c3.large", 2, 4, 10, 3, 2, 16, "ssd", 0, false},
	{"c3.xlarge", 4, 8, 15, 4, 2, 40, "ssd", 0, true},
	{"c3.2xlarge", 8, 15, 15, 4, 2, 80, "ssd", 0, true},
	{"c3.4xlarge", 16, 30, 30, 8, 2, 160, "ssd", 0, true},
	{"c3.8xlarge", 32, 60, 30, 8, 2, 320, "ssd", 0, false},
	{"c4.large", 2, 4, 10, 3, 0, 0, "", 0, true},
	{"c4.xlarge", 4, 8, 15, 4, 0, 0, "", 0, true},
	{"c4.2xlarge", 8, 15, 15, 4, 0, 0, "", 0, true},
	{"c4.4xlarge", 16, 30, 30, 8, 0, 0, "", 0, true},
	{"c4.8xlarge", 36, 60, 30, 8, 0, 0, "", 0, true},
	{"c5.large", 2, 4, 10, 3, 0, 0, "", 0, true},
	{"c5.xlarge", 4, 8, 15, 4, 0, 0, "", 0, true},
	{"c5.2xlarge", 8, 16, 15, 4, 0, 0, "", 0, true},
	{"c5.4xlarge", 16, 32, 30, 8, 0, 0, "", 0, true},
	{"c5.9xlarge", 36, 72, 30, 8, 0, 0, "", 0, true},
	{"c5.18xlarge", 72, 144, 50, 8, 0, 0, "", 0, true},

	{"r3.large", 2, 16, 10, 3, 1, 32, "ssd", 0, false},
	{"r3.xlarge", 4, 31, 15, 4, 1, 80, "ssd", 0, true},
	{"r3.2xlarge", 8, 61, 15, 4, 1, 160, "ssd", 0, true},
	{"r3.4xlarge", 16, 122, 30, 8, 1, 320, "ssd", 0, true},
	{"r3.8xlarge", 32, 244, 30, 8, 2, 320, "ssd", 0, false},
	{"r4.large", 2, 16, 10, 3, 0, 0, "", 0, true},
	{"r4.xlarge", 4, 31, 15, 4, 0, 0, "", 0, true},
	{"r4.2xlarge", 8, 61, 15, 4, 0, 0, "", 0, true},
	{"r4.4xlarge", 16, 122, 30, 8, 0, 0, "", 0, true},
	{"r4.8xlarge", 32, 244, 30, 8, 0, 0, "", 0, true},
	{"r4.16xlarge", 64, 488, 50, 8, 0, 0, "", 0, true},

	{"g2.2xlarge", 8, 15, 15, 4, 1, 60, "ssd", 1, true},
	{"g3.4xlarge", 16, 122, 30, 8, 0, 0, "", 1, true},
	{"g3.8xlarge", 32, 244, 30, 8, 0, 0, "", 2, true},
	{"g3.16xlarge", 64, 488, 50, 8, 0, 0, "", 4, true},
	{"p2.xlarge", 4, 61, 15, 4, 0, 0, "", 1, true},
	{"p2.8xlarge", 32, 488, 30, 8, 0, 0, "", 8, true},
}
