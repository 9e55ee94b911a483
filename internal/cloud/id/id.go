// Package id has one identifier type per kind of resource, so that a Net's id
// cannot be taken for a Subnet's. Source of the forms: the published examples
// and what clients recognise.
package id

import "github.com/bastide-cloud/bastide/internal/resource"

// hex is the form of most identifiers: a prefix and 8 hexadecimal digits.
func hex(prefix string) resource.Form {
	return resource.Form{Prefix: prefix, Length: 8, Alphabet: resource.Hexadecimal}
}

// long is the form of newer identifiers, with 32 digits.
func long(prefix string) resource.Form {
	return resource.Form{Prefix: prefix, Length: 32, Alphabet: resource.Hexadecimal}
}

type (
	Account             string // of 12 digits
	User                string // of an EIM user
	UserGroup           string // of a group of EIM users
	Policy              string // of a managed policy
	AccessKey           string // the public half of a key pair
	ApiAccessRule       string
	Ca                  string // of a client certificate authority
	ServerCertificate   string
	Net                 string
	Subnet              string
	DhcpOptionsSet      string
	RouteTable          string
	LinkRouteTable      string // of the link between a route table and a Subnet or Net
	InternetService     string
	NatService          string
	PublicIp            string
	LinkPublicIp        string // of the link between a public IP and a NIC
	SecurityGroup       string
	SecurityGroupRule   string // of a rule of a security group
	Nic                 string
	LinkNic             string // of the link between a NIC and a VM
	NetPeering          string
	NetAccessPoint      string
	VirtualGateway      string
	ClientGateway       string
	VpnConnection       string
	DirectLink          string
	DirectLinkInterface string
	Vm                  string
	Volume              string
	VolumeUpdateTask    string
	Snapshot            string
	Image               string
	ImageExportTask     string
	SnapshotExportTask  string
	Keypair             string
	FlexibleGpu         string
	DedicatedGroup      string
	VmGroup             string
	VmTemplate          string
	ProductType         string
	LoadBalancer        string // its name, of which an account has one
	ListenerRule        string // its name, of which an account has one
)

// Outscale is the account that the region's own images are in. No customer has it.
const Outscale Account = "000000000000"

// Balancers is the account of the security group that load balancers in the public
// Cloud are in, as rules of other groups name it.
const Balancers Account = "outscale-elb"

// Check reports a text that is no account.
func (a Account) Check() error {
	if a == "" || a == Balancers {
		return nil
	}
	return a.Form().Check(string(a))
}

func (Account) Form() resource.Form   { return resource.Form{Length: 12, Alphabet: resource.Decimal} }
func (User) Form() resource.Form      { return resource.Form{Length: 32, Alphabet: resource.Alphanumeric} }
func (UserGroup) Form() resource.Form { return hex("ug-") }
func (Policy) Form() resource.Form {
	return resource.Form{Length: 32, Alphabet: resource.Alphanumeric}
}
func (AccessKey) Form() resource.Form {
	return resource.Form{Length: 20, Alphabet: resource.Alphanumeric}
}
func (ApiAccessRule) Form() resource.Form { return long("aar-") }
func (Ca) Form() resource.Form            { return long("ca-") }
func (ServerCertificate) Form() resource.Form {
	return resource.Form{Length: 32, Alphabet: resource.Alphanumeric}
}
func (Net) Form() resource.Form                 { return hex("vpc-") }
func (Subnet) Form() resource.Form              { return hex("subnet-") }
func (DhcpOptionsSet) Form() resource.Form      { return hex("dopt-") }
func (RouteTable) Form() resource.Form          { return hex("rtb-") }
func (LinkRouteTable) Form() resource.Form      { return hex("rtbassoc-") }
func (InternetService) Form() resource.Form     { return hex("igw-") }
func (NatService) Form() resource.Form          { return hex("nat-") }
func (PublicIp) Form() resource.Form            { return hex("eipalloc-") }
func (LinkPublicIp) Form() resource.Form        { return hex("eipassoc-") }
func (SecurityGroup) Form() resource.Form       { return hex("sg-") }
func (SecurityGroupRule) Form() resource.Form   { return hex("sgr-") }
func (Nic) Form() resource.Form                 { return hex("eni-") }
func (LinkNic) Form() resource.Form             { return hex("eni-attach-") }
func (NetPeering) Form() resource.Form          { return hex("pcx-") }
func (NetAccessPoint) Form() resource.Form      { return hex("vpce-") }
func (VirtualGateway) Form() resource.Form      { return hex("vgw-") }
func (ClientGateway) Form() resource.Form       { return hex("cgw-") }
func (VpnConnection) Form() resource.Form       { return hex("vpn-") }
func (DirectLink) Form() resource.Form          { return hex("dxcon-") }
func (DirectLinkInterface) Form() resource.Form { return hex("dxvif-") }
func (Vm) Form() resource.Form                  { return hex("i-") }
func (Volume) Form() resource.Form              { return hex("vol-") }
func (VolumeUpdateTask) Form() resource.Form    { return hex("vol-update-") }
func (Snapshot) Form() resource.Form            { return hex("snap-") }
func (Image) Form() resource.Form               { return hex("ami-") }
func (ImageExportTask) Form() resource.Form     { return hex("image-export-") }
func (SnapshotExportTask) Form() resource.Form  { return hex("snap-export-") }
func (Keypair) Form() resource.Form             { return long("key-") }
func (FlexibleGpu) Form() resource.Form         { return hex("fgpu-") }
func (DedicatedGroup) Form() resource.Form      { return hex("ded-") }
func (VmGroup) Form() resource.Form             { return long("vmgroup-") }
func (VmTemplate) Form() resource.Form          { return long("vmtemplate-") }
func (ProductType) Form() resource.Form         { return hex("pty-") }

// Names are chosen by callers, so no form recognises them.

func (LoadBalancer) Form() resource.Form { return resource.Form{} }
func (ListenerRule) Form() resource.Form { return resource.Form{} }

// Check takes any name: what has no such name is not found.
func (LoadBalancer) Check() error { return nil }

// Check takes any name: what has no such name is not found.
func (ListenerRule) Check() error { return nil }
