package catalog

// quota is a row of the table of quotas.
type quota struct {
	collection  string
	name        string
	short       string
	description string
	limit       int  // unless the operator says otherwise
	each        bool // every resource has one of its own, and the account has none
}

// Limits are the limits of an account by quota name, unless the operator says
// otherwise. They are there to stop what runs away and not to sell anything, so
// most are far above those that the real service starts with, which are in the
// tens.
func Limits() map[string]int {
	limits := make(map[string]int, len(quotas))
	for _, q := range quotas {
		limits[q.name] = q.limit
	}
	return limits
}

// quotas are the quotas of the real service with its texts, which some clients
// compare. The limits are ours: of things, so many that a busy account does not
// notice them and a script gone wild does; of sums, what that many things need
// at a common size.
var quotas = []quota{
	{"Compute", "vm_limit", "VM Limit", "Maximum number of VM this user can own", 5_000, false},
	{"Compute", "core_limit", "Core Limit", "Maximum number of total cores (virtual core)", 20_000, false},
	{"Compute", "memory_limit", "Memory Limit", "Maximum number of total memory (GiB)", 80_000, false},
	{"Compute", "ip_limit", "IP Limit", "Maximum IP addresses the user can allocate", 2_000, false},
	{"Compute", "gpu_limit", "GPU Limit", "Maximum number of GPU the user can allocate", 100, false},
	{"Compute", "dedicated_server_limit", "Dedicated Server Limit", "Maximum number of dedicated servers", 100, false},

	{"Storage", "volume_limit", "Volume Limit", "Maximum number of BSU volumes", 10_000, false},
	{"Storage", "volume_size_limit", "Volume Size Limit", "Maximum cumulated size of BSU volumes (GiB)", 2_000_000, false},
	{"Storage", "io1_volume_size_limit", "IO1 Volume Size Limit", "Maximum cumulated size of IO1 volumes (GiB)", 1_000_000, false},
	{"Storage", "os1_volume_size_limit", "OS1 Volume Size Limit", "Maximum cumulated size of OS1 volumes (GiB)", 1_000_000, false},
	{"Storage", "gp2_volume_size_limit", "GP2 Volume Size Limit", "Maximum cumulated size of GP2 volumes (GiB)", 1_000_000, false},
	{"Storage", "st1_volume_size_limit", "ST1 Volume Size Limit", "Maximum cumulated size of ST1 volumes (GiB)", 1_000_000, false},
	{"Storage", "sc1_volume_size_limit", "SC1 Volume Size Limit", "Maximum cumulated size of SC1 volumes (GiB)", 1_000_000, false},
	{"Storage", "standard_volume_size_limit", "Standard Volume Size Limit", "Maximum cumulated size of standard volumes (GiB)", 1_000_000,
		false},
	{"Storage", "snapshot_limit", "Snapshot Limit", "Maximum number of snapshots", 20_000, false},
	{"Storage", "concurrent_snapshot_limit", "Concurrent Snapshot Limit", "Maximum number of active snapshots", 1_000, false},
	{"Storage", "snapshot_export_limit", "Snapshot Exports Limit", "Maximum number of running snapshot export tasks", 100, false},
	{"Storage", "image_export_limit", "Image Exports Limit", "Maximum number of running image export tasks", 100, false},
	{"Storage", "iops_limit", "Provisioned IOPS Limit", "Maximum number of IOPS delivered by provisioned IOPS volumes", 1_000_000, false},

	{"Prefix Lists", "prefix_list_limit", "Prefix Lists Limit", "Maximum number of prefix lists is reached.", 100, false},
	{"Prefix Lists", "prefix_list_entry_limit", "Prefix Lists Entry Limit", "Maximum number of prefix list entries is reached.", 1_000, false},

	{"Security Groups", "sg_limit", "Security Groups Limit", "Maximum number of security groups", 5_000, false},
	{"Security Groups", "sg_rule_limit", "Security Groups Rules Limit", "Maximum number of rules per security groups", 1_000, false},
	{"Security Groups", "vm_sg_limit", "VM Security Groups Limit", "Maximum number of groups assigned to a VM", 50, false},
	{"Security Groups", "vpc_sg_limit", "VPC Security Groups Limit", "Maximum number of security groups per VPC", 2_000, false},
	{"Security Groups", "vpc_sg_rule_limit", "VPC Security Groups Rules Limit", "Maximum number of rules per VPC security group", 1_000,
		false},

	{"VPC", "vpc_limit", "VPC Limit", "Maximum number of VPC", 1_000, false},
	{"VPC", "subnet_limit", "Subnet Limit", "Maximum number of subnets per VPC", 500, false},
	{"VPC", "igw_limit", "Internet Gateway Limit", "Maximum number of internet gateways", 1_000, false},
	{"VPC", "rtb_limit", "Route Table Limit", "Maximum number of route tables per VPC", 500, false},
	{"VPC", "rtb_rule_limit", "Route Limit", "Maximum number of route rules per route table", 1_000, false},
	{"VPC", "bypass_vpc_limit", "Bypass VPC limit", "Maximum number of firewall bypassing VPCs", 100, false},
	{"VPC", "networklink_request_limit", "Peering requests limit", "Maximum number of peering connection in pending acceptance", 500, false},
	{"VPC", "networklink_limit", "Peering connection limit", "Maximum number of available peering connections per VPC", 500, false},
	{"VPC", "network_endpoint_limit", "VPC Endpoint Limit", "Maximum number of VPC endpoints", 1_000, false},
	{"VPC", "nat_gateway_limit", "Nat Gateway Limit", "Maximum number of NAT gateways", 1_000, false},

	{"VPN", "vpg_limit", "VPN Gateway Limit", "Maximum number of VPN gateways", 200, false},
	{"VPN", "cgw_limit", "Customer Gateway Limit", "Maximum number of CGW gateways", 200, false},
	{"VPN", "vpnc_limit", "VPN Connection Limit", "Maximum number of VPN connections per VPN gateway", 100, false},
	{"VPN", "bgp_route_limit", "BGP Route Limit", "Maximum number BGP advertised routes per VPN connection", 1_000, false},
	{"VPN", "static_route_limit", "Static Route Limit", "Maximum number of static routes per VPN connection", 1_000, false},

	{"LBU", "lb_limit", "Load Balancer Limit", "Maximum number of load balancers per region", 1_000, false},
	{"LBU", "lb_rules_limit", "Load Balancer Listener Rules Limit", "Maximum number of listener rules for an account", 1_000, false},
	{"LBU", "lb_listeners_limit", "Load Balancer Listeners Limit", "Maximum number of listeners for load balancers", 100, true},

	{"Direct Link", "dl_connection_limit", "Direct Link Connection Limit", "Maximum number of Direct Link connections", 100, false},
	{"Direct Link", "dl_interface_limit", "Direct Link Interface Limit", "Maximum number Direct Link interfaces per connections", 100, false},

	{"Other", "bypass_group_limit", "Bypass Group Limit", "Maximum number of bypass group the user can own", 100, false},
	{"Other", "bypass_group_size_limit", "Bypass Group Size Limit", "Maximum size of a bypass group", 100, false},
	{"Other", "pty_limit", "Product Type Limit", "Maximum number of product types the user can own", 100, false},
}
