// Package id has one identifier type per kind of resource, so that a Net's id
// cannot be taken for a Subnet's. Source of the forms: the published examples
// and what clients recognise.
package id

import "github.com/bastide-cloud/bastide/internal/kind"

// hex is the form of most identifiers: a prefix and 8 hexadecimal digits.
func hex(prefix string) kind.Form {
	return kind.Form{Prefix: prefix, Length: 8, Alphabet: kind.Hexadecimal}
}

// long is the form of newer identifiers, with 32 digits.
func long(prefix string) kind.Form {
	return kind.Form{Prefix: prefix, Length: 32, Alphabet: kind.Hexadecimal}
}

type (
	Account             string // of 12 digits
	User                string // of an EIM user
	AccessKey           string // the public half of a key pair
	ApiAccessRule       string
	Ca                  string // of a client certificate authority
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
)

// Outscale is the account that the region's own images are in. It is nobody's.
const Outscale Account = "000000000000"

func (Account) Form() kind.Form             { return kind.Form{Length: 12, Alphabet: kind.Decimal} }
func (User) Form() kind.Form                { return kind.Form{Length: 32, Alphabet: kind.Alphanumeric} }
func (AccessKey) Form() kind.Form           { return kind.Form{Length: 20, Alphabet: kind.Alphanumeric} }
func (ApiAccessRule) Form() kind.Form       { return long("aar-") }
func (Ca) Form() kind.Form                  { return long("ca-") }
func (Net) Form() kind.Form                 { return hex("vpc-") }
func (Subnet) Form() kind.Form              { return hex("subnet-") }
func (DhcpOptionsSet) Form() kind.Form      { return hex("dopt-") }
func (RouteTable) Form() kind.Form          { return hex("rtb-") }
func (LinkRouteTable) Form() kind.Form      { return hex("rtbassoc-") }
func (InternetService) Form() kind.Form     { return hex("igw-") }
func (NatService) Form() kind.Form          { return hex("nat-") }
func (PublicIp) Form() kind.Form            { return hex("eipalloc-") }
func (LinkPublicIp) Form() kind.Form        { return hex("eipassoc-") }
func (SecurityGroup) Form() kind.Form       { return hex("sg-") }
func (SecurityGroupRule) Form() kind.Form   { return hex("sgr-") }
func (Nic) Form() kind.Form                 { return hex("eni-") }
func (LinkNic) Form() kind.Form             { return hex("eni-attach-") }
func (NetPeering) Form() kind.Form          { return hex("pcx-") }
func (NetAccessPoint) Form() kind.Form      { return hex("vpce-") }
func (VirtualGateway) Form() kind.Form      { return hex("vgw-") }
func (ClientGateway) Form() kind.Form       { return hex("cgw-") }
func (VpnConnection) Form() kind.Form       { return hex("vpn-") }
func (DirectLink) Form() kind.Form          { return hex("dxcon-") }
func (DirectLinkInterface) Form() kind.Form { return hex("dxvif-") }
func (Vm) Form() kind.Form                  { return hex("i-") }
func (Volume) Form() kind.Form              { return hex("vol-") }
func (VolumeUpdateTask) Form() kind.Form    { return hex("vol-update-") }
func (Snapshot) Form() kind.Form            { return hex("snap-") }
func (Image) Form() kind.Form               { return hex("ami-") }
func (ImageExportTask) Form() kind.Form     { return hex("image-export-") }
func (SnapshotExportTask) Form() kind.Form  { return hex("snap-export-") }
func (Keypair) Form() kind.Form             { return long("key-") }
func (FlexibleGpu) Form() kind.Form         { return hex("fgpu-") }
func (DedicatedGroup) Form() kind.Form      { return hex("ded-") }
func (VmGroup) Form() kind.Form             { return long("vmgroup-") }
func (VmTemplate) Form() kind.Form          { return long("vmtemplate-") }
func (ProductType) Form() kind.Form         { return hex("pty-") }
