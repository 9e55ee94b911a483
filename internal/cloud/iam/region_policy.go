package iam

import (
	"slices"
	"time"

	"github.com/bastide-cloud/bastide/internal/api"
	"github.com/bastide-cloud/bastide/internal/cloud/id"
	"github.com/bastide-cloud/bastide/internal/resource"
)

// regionPolicyID identifies a policy of the region. It refers to nothing that is
// stored.
type regionPolicyID id.Policy

// Form is that of the IDs of policies.
func (regionPolicyID) Form() resource.Form { return id.Policy("").Form() }

// regionPolicies are the policies that all accounts can link and none can change. The
// IDs are a part of what is stored: they stay as they are.
var regionPolicies = []*Policy{
	newRegionPolicy("OWS00000000000000000000000000001", "AdministratorAccess", "All actions of all services.",
		`{"Statement": [{"Sid": "All", "Effect": "Allow", "Action": ["*"], "Resource": ["*"]}]}`),
	newRegionPolicy("OWS00000000000000000000000000002", "ReadOnlyAccess", "All actions that read, in all services.",
		`{"Statement": [{"Sid": "Read", "Effect": "Allow", "Action": ["api:Read*", "ec2:Describe*", "ec2:Get*", "ec2:Read*",
 "elasticloadbalancing:Describe*", "iam:Get*", "iam:List*", "directconnect:Describe*"], "Resource": ["*"]}]}`),
	newRegionPolicy("OWS00000000000000000000000000003", "NetworkAdministrator",
		"All actions on Nets and what connects them, load balancers included, and those that read VMs.",
		`{"Statement": [{"Sid": "Network", "Effect": "Allow", "Action": ["api:*Net", "api:*Nets", "api:*NetPeering*", "api:*NetAccessPoint*",
 "api:*Subnet*", "api:*Route*", "api:*InternetService*", "api:*NatService*", "api:*PublicIp*", "api:*PrivateIps", "api:*Nic", "api:*Nics",
 "api:*SecurityGroup*", "api:*DhcpOptions", "api:*VirtualGateway*", "api:*ClientGateway*", "api:*VpnConnection*", "api:*DirectLink*",
 "api:*LoadBalancer*", "api:*Listener*", "api:*ServerCertificate*", "api:CreateTags", "api:DeleteTags", "api:ReadTags",
 "api:ReadVms", "api:ReadVmsState", "api:ReadVmTypes", "api:ReadRegions", "api:ReadSubregions", "api:ReadLocations", "api:ReadQuotas",
 "elasticloadbalancing:*", "directconnect:*"], "Resource": ["*"]}]}`),
}

// newRegionPolicy makes a policy of the region. It panics if the document is no
// policy: a mistake of ours.
func newRegionPolicy(policyID id.Policy, name PolicyName, description PolicyDescription, document PolicyDocument) *Policy {
	if err := document.Check(); err != nil {
		panic(err)
	}
	made := api.OffsetAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	p := &Policy{
		PolicyId: policyID, PolicyName: name, Description: description, Path: "/",
		CreationDate: made, LastModificationDate: made, isRegions: true,
	}
	p.addVersion(document, made, true)
	return p
}

// regionPolicy finds a policy of the region; nil: there is none.
func regionPolicy(policyID regionPolicyID) *Policy {
	i := slices.IndexFunc(regionPolicies, func(p *Policy) bool { return regionPolicyID(p.PolicyId) == policyID })
	if i < 0 {
		return nil
	}
	return regionPolicies[i]
}
